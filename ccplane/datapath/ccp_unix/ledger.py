"""The ledger: an agent's datapaths and flows, in a file next to its socket, for the next agent.

libccp announces a flow only once, and becomes silent when its messages fail. So the next agent has to write
first, and needs to know the datapaths and flows. Each line is an event: a message in hexadecimal (`Ready`,
`Create`, or the `Measure` that ends a flow), or `gone`, and the name of the datapath's socket, whose unusual
bytes are written as in URLs.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO
from urllib.parse import quote, unquote_to_bytes

from ccplane.base.errors import CcpError
from ccplane.datapath.wire import Create, Measure, Ready, messages

log = logging.getLogger("ccplane.datapath")

MAX_OLD_LINES: Final = 10_000
"""Maximum obsolete lines before the file is rewritten."""

_GONE: Final = "gone"


class Ledger:
    """Datapaths and the announcements of their flows.

    Attributes:
        known: Name of a datapath's socket -> number of a flow -> its announcement.
    """

    def __init__(self, path: Path) -> None:
        """Read the file of an earlier agent, if it exists."""
        self.path = path
        self.known: dict[str, dict[int, Create]] = {}
        self._file: TextIO | None = None
        self._n_lines = 0
        try:
            for line in path.read_text().splitlines():
                self._read(line)
        except (OSError, ValueError, CcpError) as error:
            if not isinstance(error, FileNotFoundError):
                log.warning("cannot read %s; flows of an earlier agent may be missed: %s", path, error)
        self._write_again()

    def joined(self, datapath: str) -> None:
        """Add a datapath without flows."""
        self.known[datapath] = {}
        self._append(_line(Ready(0), datapath))

    def created(self, datapath: str, create: Create) -> None:
        """Add a flow."""
        self.known.setdefault(datapath, {})[create.flow] = create
        self._append(_line(create, datapath))

    def closed(self, datapath: str, number: int) -> None:
        """Remove a flow."""
        if self.known.get(datapath, {}).pop(number, None) is not None:
            self._append(_line(Measure(number, 0, []), datapath))

    def left(self, datapath: str) -> None:
        """Remove a datapath and its flows."""
        if self.known.pop(datapath, None) is not None:
            self._append(f"{_GONE} {_written(datapath)}")

    def close(self) -> None:
        """Close the file; it stays for the next agent."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _read(self, line: str) -> None:
        said, _, name = line.partition(" ")
        datapath = os.fsdecode(unquote_to_bytes(name))
        if said == _GONE:
            self.known.pop(datapath, None)
            return
        for message in messages(bytes.fromhex(said)):
            if isinstance(message, Create):
                self.known.setdefault(datapath, {})[message.flow] = message
            elif isinstance(message, Measure):
                self.known.get(datapath, {}).pop(message.flow, None)
            else:
                self.known[datapath] = {}

    def _lines(self) -> Iterator[str]:
        for datapath, creates in self.known.items():
            yield _line(Ready(0), datapath)
            for create in creates.values():
                yield _line(create, datapath)

    def _write_again(self) -> None:
        lines = list(self._lines())
        self._n_lines = len(lines)
        self.close()
        new = self.path.with_name(f"{self.path.name}.new")
        try:
            new.unlink(missing_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "w")
            self._file.write("".join(f"{line}\n" for line in lines))
            self._file.flush()
            new.rename(self.path)
        except OSError as error:
            self._give_up(error)

    def _append(self, line: str) -> None:
        if self._file is None:
            return
        self._n_lines += 1
        if self._n_lines > MAX_OLD_LINES + sum(1 + len(creates) for creates in self.known.values()):
            self._write_again()
            return
        try:
            self._file.write(f"{line}\n")
            self._file.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        log.warning("cannot write %s; the next agent will miss flows: %s", self.path, error)
        self.close()


def _written(datapath: str) -> str:
    return quote(os.fsencode(datapath), safe="/@:+,=")


def _line(message: Create | Measure | Ready, datapath: str) -> str:
    return f"{message.to_bytes().hex()} {_written(datapath)}"
