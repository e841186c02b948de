"""Versions that are known to be good, kept over restarts: what an agent starts with where a file is not fit.

    sudo ccp run mine.py --known-good /var/lib/ccplane

The running version is kept when another is put on trial, taken back, rolled back or refused, and one that
was widened. A version that was taken back or rolled back is condemned. Where the file does not load at the
next start, or is a condemned version, the agent starts with what was kept.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from ccp_algs.api import AnyAlgorithm
from ccplane.agent import algorithms
from ccplane.agent.algorithms import check_contract, compile_programs
from ccplane.agent.candidate import again
from ccplane.agent.locate import shown
from ccplane.agent.source import Past, version_of
from ccplane.agent.stored import check_writable, replace_file
from ccplane.base.errors import CcpError, LoadError
from ccplane.datapath.protocol import Compile, Program

log = logging.getLogger("ccplane.agent")

CONDEMNED: Final = 100
"""So many hashes of versions that are not good are kept a file."""


class Record(msgspec.Struct, frozen=True):
    """What is kept of a file.

    Attributes:
        file: The file.
        class_name: Class of the good version.
        sha256: Hash of its source.
        texts: Text of the file and of those beside it, by file.
        condemned: Hashes of versions that are not good.
    """

    file: str
    class_name: str
    sha256: str
    texts: dict[str, str]
    condemned: list[str]


class KnownGood:
    """The versions that are kept in a directory."""

    def __init__(self, directory: Path, compile_program: Compile[Program]) -> None:
        """Take a directory, which is made if it is not there.

        Args:
            directory: Where.
            compile_program: The compiler.

        Raises:
            LoadError: `known_good.cannot_write`.
        """
        self._directory = directory
        self._compile = compile_program
        try:
            check_writable(directory, 0o700)
        except OSError as error:
            raise LoadError(
                "known_good.cannot_write",
                "versions cannot be kept there",
                str(directory),
                error.strerror or str(error),
                "choose a directory that the agent may write with --known-good",
            ) from None

    def _place(self, file: str) -> Path:
        return self._directory / f"{quote(file, safe='')}.json"

    def record(self, file: str) -> Record | None:
        """Return what is kept of a file, None if there is nothing, or nothing that can be read."""
        place = self._place(file)
        try:
            return msgspec.json.decode(place.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("%s cannot be read, and does not count: %s", place, error)
            return None

    def judged(self, name: str, good: Past, condemned: str) -> None:
        """Keep a version of a file; see `ccplane.agent.reload.Judged`."""
        if not good.texts or good.file.startswith("<"):
            return
        before = self.record(good.file)
        others = [] if before is None else [one for one in before.condemned if one != good.sha256]
        if condemned and condemned not in others and condemned != good.sha256:
            others.append(condemned)
        made = Record(good.file, good.class_name, good.sha256, dict(good.texts), others[-CONDEMNED:])
        place = self._place(good.file)
        try:
            replace_file(place, msgspec.json.encode(made))
        except OSError as error:
            log.error("the good version of %s cannot be kept in %s: %s", name, place, error.strerror)

    def find(self, asked: str) -> AnyAlgorithm:
        """Return an algorithm's class as `ccplane.agent.algorithms.find` does, or the kept version's.

        Raises:
            UsageError: As `ccplane.agent.algorithms.find`, where nothing is kept.
        """
        target, _, _ = asked.partition(":")
        file = str(Path(target).resolve())
        record = self.record(file) if target.endswith(".py") else None
        if record is None:
            return algorithms.find(asked)
        try:
            algorithm = algorithms.find(asked)
            compile_programs(algorithm, self._compile)
            check_contract(algorithm)
            if version_of(algorithm).sha256 not in record.condemned:
                return algorithm
            why = "this version was taken back"
        except CcpError as error:
            why = str(error)
        log.warning(
            "%s is not fit: %s\nThe version known to be good starts instead, %s; `ccp load` loads the file",
            shown(file),
            why,
            record.sha256[:12],
        )
        past = Past(None, record.file, record.class_name, record.sha256, record.texts)
        return again(past, "", self._compile).algorithm
