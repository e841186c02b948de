"""Source text of algorithms: which text a running class came from, and its hash."""

from __future__ import annotations

import hashlib
import inspect
import linecache
import time
from dataclasses import dataclass
from pathlib import Path

from ccp_algs.api import AnyAlgorithm
from datapath.errors import UsageError


def sha256(text: str) -> str:
    """Return the hash by which a source text is known."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Source:
    """Source text of an algorithm.

    Attributes:
        text: The text.
        file: Its file, or a name in angle brackets for text that came without one.
    """

    text: str
    file: str

    @property
    def sha256(self) -> str:
        """Hash of the text."""
        return sha256(self.text)

    @property
    def has_file(self) -> bool:
        """Whether it can be read again."""
        return not self.file.startswith("<")

    def show(self) -> None:
        """Let tracebacks and `inspect` show this text, whatever becomes of the file."""
        lines = self.text.splitlines(keepends=True)
        linecache.cache[self.file] = (len(self.text), None, lines, self.file)


def read(file: str | Path) -> Source:
    """Read a file.

    Raises:
        UsageError: `reload.not_readable`.
    """
    path = Path(file)
    try:
        return Source(path.read_text(encoding="utf-8"), str(path.resolve()))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            "reload.not_readable",
            f"cannot read {path}",
            where=str(path),
            why=reason or type(error).__name__,
            fix="check the path, and that the agent may read it: it runs without the right to read all files",
        ) from error


@dataclass(frozen=True, slots=True)
class Version:
    """What a running algorithm was made of.

    Attributes:
        file: Its file; a name in angle brackets, or empty, where there is none.
        sha256: Hash of its source; empty if it has none.
        class_name: Its class.
        since_wall_us: Since when it runs, wall clock [us].
    """

    file: str
    sha256: str
    class_name: str
    since_wall_us: int

    @property
    def has_file(self) -> bool:
        """Whether it can be read again."""
        return bool(self.file) and not self.file.startswith("<")


def version_of(algorithm: AnyAlgorithm, source: Source | None = None) -> Version:
    """Return the version of a class.

    Args:
        algorithm: The class.
        source: Its source, if known; else its file is read.
    """
    now_us = time.time_ns() // 1000
    if source is None:
        try:
            source = read(inspect.getsourcefile(algorithm) or "")
        except (TypeError, OSError, UsageError):  # built at run time
            source = Source("", "")
    known = sha256(source.text) if source.text else ""
    return Version(source.file, known, algorithm.__qualname__, now_us)
