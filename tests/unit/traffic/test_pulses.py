from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from experiments.traffic import pulses


def test_fixed_pulses_are_all_alike() -> None:
    pairs = pulses.durations("fixed", 0.25, 0.75, seed=1)
    assert list(itertools.islice(pairs, 3)) == [(0.25, 0.75)] * 3


def test_exponential_pulses_have_the_mean_asked_for_and_follow_the_seed() -> None:
    def drawn(seed: int) -> list[tuple[float, float]]:
        return list(itertools.islice(pulses.durations("exponential", 0.2, 3.0, seed), 20_000))

    first = drawn(1)
    assert first == drawn(1)
    assert first != drawn(2)
    on_s, off_s = zip(*first, strict=True)
    assert sum(on_s) / len(on_s) == pytest.approx(0.2, rel=0.03)  # 4 standard errors
    assert sum(off_s) / len(off_s) == pytest.approx(3.0, rel=0.03)


def received(sock: socket.socket, size_bytes: list[int]) -> None:
    while data := sock.recv(1 << 20):
        size_bytes.append(len(data))


@pytest.mark.parametrize("rate_bytes_per_s", [2e6, None])
def test_a_pulse_reports_what_it_wrote_and_keeps_its_rate(rate_bytes_per_s: float | None) -> None:
    own, other = socket.socketpair()
    sizes: list[int] = []
    reader = threading.Thread(target=received, args=[other, sizes])
    reader.start()
    with own:
        start_s = time.monotonic()
        written = pulses.send_pulse(own, start_s + 0.2, rate_bytes_per_s)
    reader.join()
    other.close()
    assert sum(sizes) == written > 0
    if rate_bytes_per_s is not None:
        assert written <= 0.2 * rate_bytes_per_s


class Written:
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def settimeout(self, _timeout_s: float) -> None:
        pass

    def send(self, data: memoryview) -> int:
        self.sizes.append(len(data))
        return len(data)


@pytest.mark.parametrize(
    ("rate_bytes_per_s", "minimum"), [(2e6, 2_000), (50.0, 1), (1e9, pulses.CHUNK_BYTES)]
)
def test_a_limited_pulse_is_not_written_in_crumbs(rate_bytes_per_s: float, minimum: int) -> None:
    written = Written()
    pulses.send_pulse(written, time.monotonic() + 0.1, rate_bytes_per_s)  # type: ignore[arg-type]
    assert min(written.sizes) >= minimum


def test_a_pulse_ends_although_none_reads() -> None:
    own, other = socket.socketpair()
    with own, other:
        written = pulses.send_pulse(own, time.monotonic() + 0.05, None)
        other.setblocking(False)
        assert 0 < written < 10_000_000  # as much as the buffers hold


def test_the_program_needs_the_standard_library_only() -> None:
    command = [sys.executable, "-I", "-S", str(Path(pulses.__file__)), "neither"]
    done = subprocess.run([*command, "{}"], capture_output=True, text=True)
    assert "KeyError: 'neither'" in done.stderr
