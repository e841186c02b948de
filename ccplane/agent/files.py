"""Reading files of algorithms: with the rights of who asks, or on a thread that has one right more.

`ccp run --reload` reads what is saved, also where the agent, once it has dropped its capabilities, is let in
no longer: below a home of mode 0700. An open directory would not help, because the kernel asks for the right
to search it at each look. So one thread keeps CAP_DAC_READ_SEARCH, and nothing else. It reads `.py` files of
the directories that it was given, and runs no code of algorithms. All other threads have no such right.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple, TypeVar

from ccp_algs import beside
from ccplane.datapath import ebpf

T = TypeVar("T")

KEPT: Final = "CAP_DAC_READ_SEARCH"
"""The right to read and search whatever the permissions say."""


class Facts(NamedTuple):
    """What tells that a file has changed.

    Attributes:
        changed_ns: Time of the last change, wall clock [ns].
        size: Its size [bytes].
        inode: Its inode: another, if an editor put a new file in its place.
    """

    changed_ns: int
    size: int
    inode: int


Stamp = Facts | None
"""What tells that a file has changed; None while it is not there."""


class Files:
    """Reads files with the rights of who asks."""

    def read(self, path: Path) -> str | None:
        """Return the text of a file, None if there is none; raises OSError, see `ccp_algs.beside.Read`."""
        return beside.read_text(path)

    def stamps(self, paths: Iterable[str]) -> dict[str, Stamp]:
        """Return what tells that a file has changed, by path."""
        return {path: _stamp(path) for path in paths}


class ReadingThread(Files):
    """Reads files of some directories on a thread that may read them; others as `Files` does."""

    def __init__(self, directories: Iterable[Path]) -> None:
        """Start the thread, with the rights that the calling one has now."""
        self._directories = [Path(os.path.normpath(one)) for one in directories]
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="ccp-files", daemon=True)
        self._thread.start()
        self._do(lambda: ebpf.drop_capabilities([KEPT]))

    def close(self) -> None:
        """End the thread; from then on files are read with the rights of who asks."""
        with self._lock:
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    def read(self, path: Path) -> str | None:
        """Return the text of a file, None if there is none; raises OSError."""
        if not self._covers(path):
            return super().read(path)
        return self._do(lambda: beside.read_text(path))

    def stamps(self, paths: Iterable[str]) -> dict[str, Stamp]:
        """Return what tells that a file has changed, by path."""
        covered = [path for path in paths if self._covers(Path(path))]
        return self._do(lambda: {path: _stamp(path) for path in covered})

    def _covers(self, path: Path) -> bool:
        plain = Path(os.path.normpath(path))
        return plain.suffix == ".py" and any(plain.is_relative_to(one) for one in self._directories)

    def _do(self, job: Callable[[], T]) -> T:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)

        with self._lock:
            closed = self._closed
            if not closed:
                self._jobs.put(run)
        return job() if closed else future.result()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Facts(found.st_mtime_ns, found.st_size, found.st_ino)
