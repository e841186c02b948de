"""Signals that end a process, as exceptions, so that everything is cleaned up as after Ctrl-C."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


def as_exceptions() -> list[signal.Signals]:
    """Let the signals that have their default handlers raise SystemExit; return these signals.

    Others, such as the SIGHUP that `nohup` ignores, stay as they are. Only for the main thread.
    """
    replaced = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, _exit)
    return replaced


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)  # the exit status that shells use
