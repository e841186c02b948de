from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ccplane.base import clock

ROOT = Path(__file__).parents[3]


def test_outside_of_time_namespaces_it_is_clock_monotonic() -> None:
    assert clock.offset_ns() == 0
    before_ns = time.monotonic_ns()
    assert before_ns <= clock.now_ns() <= time.monotonic_ns()
    assert clock.now_us() <= 1e6 * clock.now_s()


@pytest.mark.parametrize("offset_s", [100_000, -1])
def test_in_a_time_namespace_it_is_the_kernels(offset_s: int) -> None:
    if os.geteuid() != 0 or not Path("/proc/self/timens_offsets").exists():
        pytest.skip("needs root and time namespaces")
    script = "from ccplane.base import clock; import time; print(time.monotonic_ns(), clock.now_ns())"
    enter = ["unshare", "--time", "--monotonic", str(offset_s), "--fork", "--"]
    before_ns = time.monotonic_ns()
    done = subprocess.run([*enter, sys.executable, "-c", script], capture_output=True, text=True, check=True)
    there_ns, kernel_ns = map(int, done.stdout.split())
    assert before_ns < kernel_ns < time.monotonic_ns()
    assert abs(there_ns - kernel_ns - offset_s * 10**9) < 10**7


def test_times_that_leave_a_process_are_the_kernels() -> None:
    packages = [ROOT / name for name in ("broker", "ccplane", "experiments", "telemetry")]
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for package in packages
        for path in package.rglob("*.py")
        if path != ROOT / "ccplane" / "base" / "clock.py"
        for match in re.finditer(r"monotonic_ns\(\) // 1000|1e6 \* time\.monotonic\(\)", path.read_text())
    }
    assert not found, "use ccplane.base.clock"
