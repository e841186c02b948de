"""Ways to be awake that `ccp bench wakeful` knows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from experiments.bench import awake
from experiments.bench.errors import BenchError
from experiments.bench.wakeful import WAYS


class Asked:
    """A plane without flows: each turn notes what has been asked of the device."""

    def __init__(self, device: Path, batches: int = 0) -> None:
        self.turns: list[tuple[int, bytes]] = []
        self._device = device
        self._batches = batches

    def turn(self, timeout_ms: int) -> int:
        self.turns.append((timeout_ms, self._device.read_bytes()))
        self._batches -= 1
        return max(self._batches + 1, 0)


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "cpu_dma_latency"
    file.touch()
    monkeypatch.setattr(awake, "DEVICE", file)
    return file


@pytest.mark.parametrize(("way", "asked"), [("off", b""), ("0us", bytes(4)), ("50us", b"\x32\0\0\0")])
def test_a_way_asks_for_its_latency(way: str, asked: bytes, device: Path) -> None:
    plane: Any = Asked(device)
    with awake.awake(way) as turn:
        turn(plane)
    assert plane.turns == [(awake.TURN_MS, asked)]


def test_spinning_looks_again_after_a_batch_only(device: Path) -> None:
    plane: Any = Asked(device, batches=1)
    with awake.awake("spin20000") as turn:
        turn(plane)
        turn(plane)
    waits = [timeout_ms for timeout_ms, _ in plane.turns]
    assert waits[0] == waits[-1] == awake.TURN_MS
    assert waits[1:-1], "it looked"
    assert set(waits[1:-1]) == {0}, "without waiting"


def test_staying_on_a_processor_ends_with_the_block(device: Path) -> None:
    before = os.sched_getaffinity(0)
    with awake.awake(f"pinned{min(before)}"):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_all_ways_of_the_benchmark_are_known() -> None:
    for way in WAYS:
        awake.awake(way)


def test_another_way_is_refused() -> None:
    with pytest.raises(BenchError) as caught:
        awake.awake("spin")
    assert caught.value.slug == "bench.unknown_name"
    assert "spin<N>" in str(caught.value)
