"""Known-good versions, stored across restarts for the case that an algorithm's file does not load.

    sudo ccp run mine.py --known-good /var/lib/ccplane

The running version is stored when another version is put on trial, taken back, rolled back or refused; a
version on trial is stored when it takes over all flows. A version that was taken back or rolled back is
condemned. If the file does not load at the next start, or is a condemned version, the agent starts the stored
version.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from ccp_algs.api import AnyAlgorithm
from ccp_algs.siblings import place_of
from ccplane.agent import algorithms
from ccplane.agent.algorithms import check_contract, compile_programs
from ccplane.agent.candidate import again
from ccplane.agent.locate import shown
from ccplane.agent.source import Past, version_of
from ccplane.agent.stored import check_writable, replace_file
from ccplane.base.decoding import UNREADABLE
from ccplane.base.errors import CcpError, LoadError
from ccplane.datapath.protocol import Compile, Program

log = logging.getLogger("ccplane.agent")

CONDEMNED: Final = 100
"""Maximum hashes of condemned versions stored per file."""


class Record(msgspec.Struct, frozen=True):
    """Stored data of one file.

    Attributes:
        file: The file.
        class_name: Class of the good version.
        sha256: Hash of its source.
        texts: Texts of the file and of the modules imported from its directory, by file.
        condemned: Hashes of condemned versions.
    """

    file: str
    class_name: str
    sha256: str
    texts: dict[str, str]
    condemned: list[str]


class KnownGood:
    """The versions stored in a directory."""

    def __init__(self, directory: Path, compile_program: Compile[Program]) -> None:
        """Prepare, creating the directory if necessary.

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
                "known-good versions cannot be stored in this directory",
                str(directory),
                error.strerror or str(error),
                "give a directory that the agent can write with --known-good",
            ) from None

    def _place(self, file: str) -> Path:
        return self._directory / f"{quote(file, safe='')}.json"

    def record(self, file: str) -> Record | None:
        """Return the stored data of a file, None if there is none or it cannot be read."""
        place = self._place(file)
        try:
            return msgspec.json.decode(place.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            log.warning("ignored %s, which cannot be read: %s", place, error)
            return None

    def judged(self, name: str, good: Past, condemned: str) -> None:
        """Store a good version of a file, see `ccplane.agent.reload.Judged`."""
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
            log.error("cannot store the good version of %s in %s: %s", name, place, error.strerror)

    def find(self, asked: str) -> AnyAlgorithm:
        """Return an algorithm's class as `ccplane.agent.algorithms.find` does, or the stored version's class.

        Raises:
            UsageError: As `ccplane.agent.algorithms.find`, if no version is stored.
        """
        target, _, _ = asked.partition(":")
        file = str(place_of(target))
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
            "cannot run %s: %s\nstarting the known-good version %s instead; `ccp load` loads the file",
            shown(file),
            why,
            record.sha256[:12],
        )
        past = Past(None, record.file, record.class_name, record.sha256, record.texts)
        return again(past, "", self._compile).algorithm
