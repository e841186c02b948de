"""Something that goes on in the background of a test."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def repeating(act: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Do something again and again on a thread for the length of a block, with pauses between [s]."""
    done = threading.Event()

    def act_until_done() -> None:
        while not done.wait(pause_s):
            act()

    thread = threading.Thread(target=act_until_done)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
