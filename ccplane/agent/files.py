"""Reads files of algorithms: with the permissions of the calling thread, or on a thread with one capability.

`ccp run --reload` reads saved files even below a home directory of mode 0700, which the agent cannot search
after it has dropped its capabilities. (An open directory would not help: the kernel checks the permission at
each access.) So a single thread keeps CAP_DAC_READ_SEARCH. That thread reads only `.py` files of given
directories, and runs no code of algorithms.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple, TypeVar

from ccp_algs import siblings
from ccplane.datapath import ebpf

T = TypeVar("T")

KEPT: Final = "CAP_DAC_READ_SEARCH"
"""The capability to read and search regardless of permissions."""


class Facts(NamedTuple):
    """Properties of a file that show a change.

    Attributes:
        modified_ns: Time of the last modification, wall clock [ns]. Tools can set it.
        changed_ns: Time of the last change of the inode, wall clock [ns]. Only the kernel sets it.
        size: Size [bytes].
        inode: Inode; it changes if an editor replaces the file.
        device: Device; it changes if a file system is mounted over the file.
        has_name: Whether the file is in a directory. A file that is mounted as such has no name once an
            editor replaced it in its own directory, and does not change any more.
    """

    modified_ns: int
    changed_ns: int
    size: int
    inode: int
    device: int
    has_name: bool


Stamp = Facts | None
"""The facts of a file; None while it does not exist."""


class Files:
    """Reads files with the permissions of the calling thread."""

    def read(self, path: Path) -> str | None:
        """Return the text of a file, None if there is none; raises OSError, see `ccp_algs.siblings.Read`."""
        return siblings.read_text(path)

    def stamps(self, paths: Iterable[str]) -> dict[str, Stamp]:
        """Return the stamps of files by path."""
        return {path: _stamp(path) for path in paths}


class ReadingThread(Files):
    """Reads files of given directories on a privileged thread; all other files as `Files` does."""

    def __init__(self, directories: Iterable[Path]) -> None:
        """Start the thread; it inherits the capabilities of the calling thread."""
        self._directories = [Path(os.path.normpath(one)) for one in directories]
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="ccp-files", daemon=True)
        self._thread.start()
        self._do(lambda: ebpf.drop_capabilities([KEPT]))

    def close(self) -> None:
        """End the thread; from then on files are read with the permissions of the calling thread."""
        with self._lock:
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    def read(self, path: Path) -> str | None:
        """Return the text of a file, None if it does not exist; raises OSError."""
        if not self._covers(path):
            return super().read(path)
        return self._do(lambda: siblings.read_text(path))

    def stamps(self, paths: Iterable[str]) -> dict[str, Stamp]:
        """Return the stamps of files in the given directories by path."""
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
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return Facts(*times, found.st_size, found.st_ino, found.st_dev, found.st_nlink > 0)
