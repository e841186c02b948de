"""Asking Wireshark what is in a capture."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path


def tshark(path: Path, *arguments: str) -> list[str]:
    """Lines that tshark prints."""
    command = ["tshark", "-n", "-r", str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def fields(path: Path, names: list[str], options: Sequence[str] = ()) -> list[list[str]]:
    """Values of fields, a row a packet; several of one name have commas between them."""
    wanted = [argument for name in names for argument in ("-e", name)]
    return [row.split("\t") for row in tshark(path, *options, "-T", "fields", "-E", "occurrence=a", *wanted)]


def complaints(path: Path) -> list[str]:
    """Packets that Wireshark warns of; that it does not know an option is a note, below a warning."""
    filters = "_ws.malformed || _ws.short || _ws.expert.severity >= 0x600000 || ipv6.opt.invalid_len"
    return tshark(path, "-Y", filters)
