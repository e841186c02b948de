"""What the wheel did on other kernels is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.vm import wheel
from scripts.vm.kernels import Kernel
from scripts.vm.machine import Run
from scripts.vm.wheel_inside import RESULT

LEFT = {"seconds": {"install": 1.5}, "bytes": {"wheel": 4_000_000}, "ldd": ["libelf-0.so", "libc.so.6"]}


def test_what_a_machine_leaves_is_kept_by_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "KEPT", tmp_path / "wheel")
    (tmp_path / RESULT).write_text(json.dumps(LEFT))
    for name in ("7", "6.1"):
        wheel.keep(Run(Kernel(name, f"{name}.0-1", tmp_path, tmp_path), 0, 9.0, tmp_path), "0123456")
    for name in ("7", "6.1"):
        found = json.loads((tmp_path / "wheel" / f"{name}.json").read_text())
        assert (found["kernel"], found["revision"]) == (f"{name}.0-1", "0123456")
        assert found["command"].endswith(f"--kernel {name}")
        assert found["seconds"] == LEFT["seconds"]
