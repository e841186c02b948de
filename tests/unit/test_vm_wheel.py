"""What the wheel did on other kernels: the page's table is what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.vm import wheel
from scripts.vm.kernels import Kernel
from scripts.vm.machine import Run
from scripts.vm.wheel_inside import RESULT

DEMO = {"transfers": [{"goodput_bytes_per_s": 1.25e6}, {"goodput_bytes_per_s": 5e5}]}
LEFT = {
    "seconds": dict.fromkeys(wheel.STEPS, 1.5),
    "bytes": {"wheel": 4_000_000, "install": 150_000_000, "install [lab]": 650_000_000},
    "wheel": "ccplane-1.whl",
    "ldd": ["libelf-0.so", "libc.so.6"],
    "simulated": DEMO,
    "sockets": DEMO,
    "iperf3_bits_per_s": 123_456_789,
}


def test_the_page_shows_what_is_kept() -> None:
    text = wheel.PAGE.read_text()
    assert wheel.page(text, wheel.kept()) == text, "python -m scripts.vm.wheel --write"


def test_what_a_machine_leaves_is_kept_by_kernel_oldest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel, "KEPT", tmp_path / "wheel")
    (tmp_path / RESULT).write_text(json.dumps(LEFT))
    for name in ("7", "6.12", "6.1"):
        kernel = Kernel(name, f"{name}.0-1", tmp_path, tmp_path)
        wheel.keep(Run(kernel, 0, 9.0, tmp_path), "0123456")
    found = wheel.kept()
    assert [one["kernel"] for one in found] == ["6.1.0-1", "6.12.0-1", "7.0-1"]
    assert found[0]["revision"] == "0123456"
    shown = wheel.page(f"above\n{wheel.BEGIN}old\n{wheel.END}below\n", found)
    assert shown.startswith("above\n")
    assert shown.endswith("below\n")
    assert "old" not in shown
    rows = {row.split("|")[1].strip(): row for row in shown.splitlines() if row.startswith("|")}
    assert set(wheel.STEPS.values()) <= set(rows)
    assert rows["goodput in the demo, sockets [Mbit/s]"].count("10.0, 4.0") == 3
    assert rows["installed, with `[lab]` [MB]"].count("650.0") == 3
    assert "`libelf-0.so`, `libc.so.6`" in shown
