"""Keeping processors awake while reports come."""

from __future__ import annotations

import inspect
from pathlib import Path

from agent.commands.run import run
from agent.serve import ServeOptions
from agent.wakeful import LINGER_S, Wakeful


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_processors_stay_awake_when_reports_come_and_sleep_when_they_end(tmp_path: Path) -> None:
    device, clock = tmp_path / "cpu_dma_latency", Clock()
    device.touch()
    wakeful = Wakeful(device, clock)
    wakeful.note(0)
    assert not wakeful.awake, "no report yet"
    wakeful.note(3)
    assert wakeful.awake
    assert device.read_bytes() == bytes(4), "a latency of 0 us"
    clock.now_s += LINGER_S
    wakeful.note(3)
    assert wakeful.awake, "a pause"
    clock.now_s += 0.1
    wakeful.note(3)
    assert not wakeful.awake
    wakeful.note(4)
    assert wakeful.awake, "again"
    wakeful.close()
    assert not wakeful.awake


def test_the_agent_goes_on_when_the_kernel_has_no_such_device(tmp_path: Path) -> None:
    device = tmp_path / "none"
    wakeful = Wakeful(device)
    wakeful.note(1)
    assert not wakeful.awake
    device.touch()
    wakeful.note(2)
    assert not wakeful.awake, "asked once"


def test_nobody_is_kept_awake_who_did_not_ask_for_it() -> None:
    assert not ServeOptions().wakeful
    assert inspect.signature(run).parameters["wakeful"].default is False
