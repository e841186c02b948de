"""All services together, in a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from scripts.vm import compose
from scripts.vm.compose_inside import RESULT, SERVICES
from scripts.vm.images import COMPOSE, targets
from scripts.vm.kernels import Kernel
from scripts.vm.machine import Run

LEFT = {
    "podman": "4.3.1",
    "podman-compose": "1.6.0",
    "steps": {
        "up": {"what": "Services up", "came_out": "5 services run", "seconds": 12.5, "restarts": {}},
        "down": {"what": "All taken down", "came_out": "no container is left", "seconds": 3.0},
    },
}


def test_what_a_machine_leaves_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "KEPT", tmp_path / "kept.json")
    (tmp_path / RESULT).write_text(json.dumps(LEFT))
    compose.keep(Run(Kernel("6.12", "6.12.0-1", tmp_path, tmp_path), 0, 9.0, tmp_path), "0123456")
    found = json.loads(compose.KEPT.read_text())
    assert (found["revision"], found["kernel"], found["podman"]) == ("0123456", "6.12.0-1", "4.3.1")
    assert found["steps"] == LEFT["steps"]


def test_every_service_is_looked_at_and_every_image_built_once() -> None:
    file = yaml.safe_load(COMPOSE.read_text())
    assert set(file["services"]) == {"secrets", *SERVICES}
    assert len(targets(file)) == len({service["image"] for service in file["services"].values()})
