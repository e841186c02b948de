"""Source text of algorithms: which text a running class came from, and its hash."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from errno import ENOENT
from pathlib import Path

from ccp_algs import beside
from ccp_algs.api import AnyAlgorithm
from ccp_algs.beside import sha256
from ccplane.base.errors import UsageError


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


def read(file: str | Path, read_text: beside.Read = beside.read_text) -> Source:
    """Read a file.

    Args:
        file: Which.
        read_text: With what.

    Raises:
        UsageError: `reload.not_readable`.
    """
    path = Path(file)
    try:
        text = read_text(path)
        if text is None:
            path.stat()  # says why, if it is not that the file is not there
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
        return Source(text, str(path.resolve()))
    except (OSError, ValueError, SyntaxError) as error:
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
        class_name: Its class.
        since_wall_us: Since when it runs, wall clock [us].
        sources: Hash of its file and of those beside it that were imported, None for those that were looked
            for and not there. It grows if a callback imports.
        text: What its file had; empty where there is no file.
    """

    file: str
    class_name: str
    since_wall_us: int
    sources: Mapping[str, str | None] = field(default_factory=dict)
    text: str = field(default="", repr=False)

    @property
    def sha256(self) -> str:
        """Hash of its source, with modules beside the file as `combined` has it; empty if it has none."""
        return combined(self.file, dict(self.sources)) if self.sources else ""

    @property
    def has_file(self) -> bool:
        """Whether it can be read again."""
        return bool(self.file) and not self.file.startswith("<")


@dataclass(frozen=True, slots=True)
class Past:
    """A version that can run again.

    Attributes:
        algorithm: Its class, for one that is installed and not of a file.
        file: Its file.
        class_name: Its class.
        sha256: Hash of its source.
        texts: Text of its file and of those beside it that were imported, by file; empty for one that is
            installed.
    """

    algorithm: AnyAlgorithm | None
    file: str
    class_name: str
    sha256: str
    texts: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, algorithm: AnyAlgorithm, version: Version) -> Past:
        """Keep what a running version is made of."""
        package = beside.package_of(algorithm)
        texts = {} if package is None else package.texts
        return cls(
            None if texts else algorithm, version.file, version.class_name, version.sha256, dict(texts)
        )

    def read(self, path: Path) -> str | None:
        """Return the text of a file as this version had it, None if it had none; see `beside.Read`."""
        return self.texts.get(str(path))


def version_of(algorithm: AnyAlgorithm) -> Version:
    """Return the version of a class: of what it was imported from, or else of what its file has now."""
    now_us = time.time_ns() // 1000
    package = beside.package_of(algorithm)
    if package is not None:
        return Version(package.file, algorithm.__qualname__, now_us, package.seen, package.own)
    try:
        source = read(inspect.getsourcefile(algorithm) or "")
    except (TypeError, OSError, UsageError):  # built at run time
        return Version("", algorithm.__qualname__, now_us)
    hashes = {source.file: source.sha256}
    return Version(source.file, algorithm.__qualname__, now_us, hashes, source.text)


def combined(file: str, sources: Mapping[str, str | None]) -> str:
    """Return one hash for an algorithm's file and those beside it.

    Without modules beside it, it is that of the file. With them, it is that of the lines which `sha256sum`
    prints for all of them in its directory, sorted by name: `sha256sum mine.py my_lib.py | sha256sum`.

    Args:
        file: The algorithm's file.
        sources: Hash by file, None for those that are not there.
    """
    there = {os.path.relpath(path, Path(file).parent): one for path, one in sources.items() if one}
    if len(there) == 1:
        return next(iter(there.values()))
    return sha256("".join(f"{there[name]}  {name}\n" for name in sorted(there)))
