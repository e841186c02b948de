"""Turns exceptions of algorithms into ccplane's errors, with the line of the algorithm that raised them."""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ccp_algs import siblings
from ccplane.agent.deadline import TooSlow
from ccplane.agent.locate import shown
from ccplane.base.errors import CcpError, Several, UsageError
from ccplane.base.printable import printable

Problem = Callable[[str, str, str], UsageError]
"""Creates an error from file, where and why."""


class Interrupted(KeyboardInterrupt):
    """Stops the agent immediately, even while an algorithm's code runs."""


def is_from_outside(error: BaseException) -> bool:
    """Return whether an exception raised in an algorithm's code has another origin and must propagate.

    `sys.exit()`, `KeyboardInterrupt` and panics of native modules count as the algorithm's; Ctrl-C does not.
    Where Python itself handles SIGINT, as in a simulation, Ctrl-C and the algorithm's `KeyboardInterrupt`
    cannot be distinguished, and both end the run.
    """
    if isinstance(error, Interrupted | TooSlow | GeneratorExit):
        return True
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def text_of(error: BaseException) -> str:
    """Return `TYPE: MESSAGE; NOTES` of an exception; only its type if `str()` of the exception raises."""
    try:
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        return printable("; ".join([text, *getattr(error, "__notes__", ())]), keep="\n")
    except BaseException as another:
        if is_from_outside(another):
            raise
        return type(error).__name__


@contextmanager
def blamed(file: str, problem: Problem) -> Iterator[None]:
    """Turn an exception of an algorithm's code into an error with file, line and reason."""
    try:
        yield
    except Several:
        raise
    except BaseException as error:
        if is_from_outside(error):
            raise
        where = place_of(error, file) or shown(file)
        if isinstance(error, CcpError):
            raise type(error)(error.slug, error.message, where, error.why, error.fix) from error
        raise problem(file, where, text_of(error)) from error


def place_of(error: BaseException, file: str) -> str:
    """Return `FILE:LINE` of the innermost frame in an algorithm's code; empty if there is none.

    Args:
        error: The exception.
        file: The algorithm's file; modules imported from its directory also count.
    """
    while isinstance(error, CcpError) and error.__cause__ is not None:
        error = error.__cause__

    def own(name: str | None) -> bool:
        return name is not None and (name == file or siblings.is_executed(name))

    if isinstance(error, SyntaxError) and error.filename is not None and own(error.filename):
        return f"{shown(error.filename)}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if own(frame.filename)]
    return f"{shown(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
