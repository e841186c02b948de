"""Sources of running algorithms, and their hashes."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from errno import ENOENT
from pathlib import Path

from ccp_algs import siblings
from ccp_algs.api import AnyAlgorithm
from ccp_algs.siblings import sha256
from ccplane.base.errors import UsageError


@dataclass(frozen=True, slots=True)
class Source:
    """Source text of an algorithm.

    Attributes:
        text: The text.
        file: Its file, or a name in angle brackets for text without a file.
    """

    text: str
    file: str

    @property
    def sha256(self) -> str:
        """Hash of the text."""
        return sha256(self.text)

    @property
    def has_file(self) -> bool:
        """Whether the source can be read again."""
        return not self.file.startswith("<")


def read(file: str | Path, read_text: siblings.Read = siblings.read_text) -> Source:
    """Read a source file.

    Raises:
        UsageError: `reload.not_readable`.
    """
    path = Path(file)
    try:
        text = read_text(path)
        if text is None:
            path.stat()  # raises if there is another reason than a missing file
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
        return Source(text, str(siblings.place_of(path)))
    except (OSError, ValueError, SyntaxError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            "reload.not_readable",
            f"cannot read {path}",
            where=str(path),
            why=reason or type(error).__name__,
            fix="check the path and the permissions: even as root, the agent cannot read every file",
        ) from error


@dataclass(frozen=True, slots=True)
class Version:
    """Source of a running algorithm.

    Attributes:
        file: Its file; a name in angle brackets, or empty, if there is none.
        class_name: Its class.
        since_wall_us: When it started to run, wall clock [us].
        sources: Hashes of its file and of the modules imported from the same directory, None for files that
            an import did not find. It grows if a callback imports.
        text: Text of its file; empty if there is none.
    """

    file: str
    class_name: str
    since_wall_us: int
    sources: Mapping[str, str | None] = field(default_factory=dict)
    text: str = field(default="", repr=False)

    @property
    def sha256(self) -> str:
        """Hash of the source and of imported modules, see `combined`; empty if it has no source."""
        return combined(self.file, dict(self.sources)) if self.sources else ""

    @property
    def has_file(self) -> bool:
        """Whether the source can be read again."""
        return bool(self.file) and not self.file.startswith("<")


@dataclass(frozen=True, slots=True)
class Past:
    """An earlier version that can run again.

    Attributes:
        algorithm: Its class, if it is an installed algorithm without a file.
        file: Its file.
        class_name: Its class.
        sha256: Hash of its source.
        texts: Texts of its file and of the modules imported from the same directory, by file; empty for an
            installed algorithm.
    """

    algorithm: AnyAlgorithm | None
    file: str
    class_name: str
    sha256: str
    texts: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, algorithm: AnyAlgorithm, version: Version) -> Past:
        """Return a copy of a running version's source."""
        package = siblings.package_of(algorithm)
        texts = {} if package is None else package.texts
        return cls(
            None if texts else algorithm, version.file, version.class_name, version.sha256, dict(texts)
        )

    def read(self, path: Path) -> str | None:
        """Return this version's text of a file, or None; see `siblings.Read`."""
        return self.texts.get(str(path))


def version_of(algorithm: AnyAlgorithm) -> Version:
    """Return the version of a class, from the source that was imported, else from its current file."""
    now_us = time.time_ns() // 1000
    package = siblings.package_of(algorithm)
    if package is not None:
        return Version(package.file, algorithm.__qualname__, now_us, package.seen, package.own)
    try:
        source = read(inspect.getsourcefile(algorithm) or "")
    except (TypeError, OSError, UsageError):  # built at run time
        return Version("", algorithm.__qualname__, now_us)
    hashes = {source.file: source.sha256}
    return Version(source.file, algorithm.__qualname__, now_us, hashes, source.text)


def combined(file: str, sources: Mapping[str, str | None]) -> str:
    """Return one hash for an algorithm's file and the modules imported from its directory.

    Without such modules, the result is the hash of the file. With such modules, the result is the hash of the
    output of `sha256sum` for all files, sorted by name: `sha256sum mine.py my_lib.py | sha256sum`.

    Args:
        file: The algorithm's file.
        sources: Hash by file, None for missing files.
    """
    there = {os.path.relpath(path, Path(file).parent): one for path, one in sources.items() if one}
    if len(there) == 1:
        return next(iter(there.values()))
    return sha256("".join(f"{there[name]}  {name}\n" for name in sorted(there)))
