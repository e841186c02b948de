"""Keys of a terminal, without a library: one key at a time, and lines that are typed."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NAMES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b": "escape",
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
}
"""What a terminal sends for a key -> name of the key; other keys are their characters."""


@contextmanager
def single_keys() -> Iterator[None]:
    """Deliver keys without Enter and without echo for a `with` block; Ctrl-C still interrupts."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def keys(timeout_s: float) -> list[str]:
    """Wait for keys at most `timeout_s`; return their names."""
    descriptor = sys.stdin.fileno()
    if not select.select([descriptor], [], [], timeout_s)[0]:
        return []
    return split(os.read(descriptor, 1024).decode(errors="ignore"))


def split(text: str) -> list[str]:
    """Return the names of the keys that a terminal's input stands for."""
    found = []
    while text:
        length = 3 if text[:3] in _NAMES else 1
        found.append(_NAMES.get(text[:length], text[:length]))
        text = text[length:]
    return found
