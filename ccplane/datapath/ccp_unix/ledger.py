"""Which flows an agent has, kept in a file beside its socket for the agent that comes after it.

libccp announces a flow once, and falls silent when nobody takes its messages: the next agent has to write
first, and needs to know to whom, and of which flows. A line is what happened: a message in hexadecimal digits
(`Ready`, `Create`, or the `Measure` that ends a flow), or `gone`, and the name of the datapath's socket.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from ccplane.base.errors import CcpError
from ccplane.datapath.wire import Create, Measure, Ready, messages

log = logging.getLogger("ccplane.datapath")

MOST_OLD_LINES: Final = 10_000
"""Lines on what is over that the file may have, before it is written anew."""

_GONE: Final = "gone"


class Ledger:
    """Datapaths, and what each said of its flows when these began.

    Attributes:
        known: Name of a datapath's socket -> number of a flow -> how it was announced.
    """

    def __init__(self, path: Path) -> None:
        """Read what an agent before has left.

        Args:
            path: Name of the file.
        """
        self.path = path
        self.known: dict[str, dict[int, Create]] = {}
        self._file: TextIO | None = None
        self._n_lines = 0
        try:
            for line in path.read_text().splitlines():
                self._read(line)
        except (OSError, ValueError, CcpError) as error:
            if not isinstance(error, FileNotFoundError):
                log.warning("%s cannot be read: flows of an agent before may be missed: %s", path, error)
        self._write_anew()

    def joined(self, datapath: str) -> None:
        """Take note of a datapath, without flows so far."""
        self.known[datapath] = {}
        self._append(f"{Ready(0).octets().hex()} {datapath}")

    def created(self, datapath: str, create: Create) -> None:
        """Take note of a flow."""
        self.known.setdefault(datapath, {})[create.flow] = create
        self._append(f"{create.octets().hex()} {datapath}")

    def closed(self, datapath: str, number: int) -> None:
        """Forget a flow."""
        if self.known.get(datapath, {}).pop(number, None) is not None:
            self._append(f"{Measure(number, 0, []).octets().hex()} {datapath}")

    def left(self, datapath: str) -> None:
        """Forget a datapath and its flows."""
        if self.known.pop(datapath, None) is not None:
            self._append(f"{_GONE} {datapath}")

    def close(self) -> None:
        """Leave the file to the next agent."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _read(self, line: str) -> None:
        said, _, datapath = line.partition(" ")
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
            yield f"{Ready(0).octets().hex()} {datapath}"
            for create in creates.values():
                yield f"{create.octets().hex()} {datapath}"

    def _write_anew(self) -> None:
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
        if self._n_lines > MOST_OLD_LINES + sum(1 + len(creates) for creates in self.known.values()):
            self._write_anew()
            return
        try:
            self._file.write(f"{line}\n")
            self._file.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        log.warning("%s is kept no longer: a next agent will miss flows: %s", self.path, error)
        self.close()
