"""Ways to keep the way from a report to the agent short, for `ccp bench wakeful`: what each asks of whom."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from agent.plane import Plane
from agent.wakeful import DEVICE
from ccp_base.names import close_names
from experiments.bench.errors import BenchError
from experiments.bench.floor import on_processor

TURN_MS: Final = 50
HURRY_S: Final = 0.1
"""Of each second, for an algorithm that is in a hurry now and then."""

Turn = Callable[[Plane], object]
"""Waits for a batch of reports and answers it."""


def wait(plane: Plane) -> None:
    """Wait as `ccp run` does."""
    plane.turn(TURN_MS)


@contextmanager
def machine(latency_us: int) -> Iterator[Turn]:
    """Bear so much of any processor's sleep [us]; with 0, idle ones spin."""
    file = os.open(DEVICE, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, latency_us.to_bytes(4, "little"))
        yield wait
    finally:
        os.close(file)


@contextmanager
def hurry() -> Iterator[Turn]:
    """Bear no sleep for `HURRY_S` of each second."""
    file = os.open(DEVICE, os.O_WRONLY | os.O_CLOEXEC)
    asked = False

    def turn(plane: Plane) -> None:
        nonlocal asked
        if asked != (wanted := time.monotonic() % 1 < HURRY_S):
            # All ones: no request.
            os.write(file, (0 if wanted else 0x7FFF_FFFF).to_bytes(4, "little"))
            asked = wanted
        wait(plane)

    try:
        yield turn
    finally:
        os.close(file)


@contextmanager
def processor() -> Iterator[Turn]:
    """Stay on the last processor, and let that one alone spin while it is idle."""
    number = max(os.sched_getaffinity(0))
    file = Path(f"/sys/devices/system/cpu/cpu{number}/power/pm_qos_resume_latency_us")
    before = file.read_text()
    with on_processor(number):
        file.write_text("n/a")  # what "no latency" is called there; 0 is "no request"
        try:
            yield wait
        finally:
            file.write_text(before)


@contextmanager
def spin(for_us: int) -> Iterator[Turn]:
    """Look for reports for so long after each batch [us] before waiting."""

    def turn(plane: Plane) -> None:
        if plane.turn(TURN_MS):
            until_ns = time.monotonic_ns() + 1000 * for_us
            while time.monotonic_ns() < until_ns:
                plane.turn(0)

    yield turn


@contextmanager
def pinned(number: int) -> Iterator[Turn]:
    """Stay on one processor."""
    with on_processor(number):
        yield wait


NAMES: Final = {
    "off": "nothing; as `ccp run`",
    "<N>us": "/dev/cpu_dma_latency: all processors",
    "hurry": f"the same, 0 us, {HURRY_S:.0%} of the time",
    "processor": "pm_qos_resume_latency_us of the agent's processor, which it stays on",
    "spin<N>": "the agent looks for N us after each batch",
    "pinned<N>": "the agent stays on processor N",
}
"""Ways, and what they ask for."""


def awake(way: str) -> AbstractContextManager[Turn]:
    """Return one of `NAMES`, which is in force for a block and tells how to wait in it.

    Raises:
        BenchError: `bench.unknown_name`.
    """
    if way == "off":
        return nullcontext(wait)
    if way in ("hurry", "processor"):
        return hurry() if way == "hurry" else processor()
    if found := re.fullmatch(r"(\d{1,9})us", way):
        return machine(int(found[1]))
    if found := re.fullmatch(r"(spin|pinned)(\d{1,6})", way):
        return spin(int(found[2])) if found[1] == "spin" else pinned(int(found[2]))
    raise BenchError(
        "bench.unknown_name",
        f"there is no way `{way}` to be awake",
        f"--way {way}",
        close_names(way, list(NAMES), "way"),
        "with a number for <N>, such as --way 10us",
    )
