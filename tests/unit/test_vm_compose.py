"""All services together, in a machine."""

from __future__ import annotations

import yaml

from scripts.vm.compose_inside import SERVICES
from scripts.vm.images import COMPOSE, targets


def test_every_service_is_looked_at_and_every_image_built_once() -> None:
    file = yaml.safe_load(COMPOSE.read_text())
    assert set(file["services"]) == {"secrets", *SERVICES}
    assert len(targets(file)) == len({service["image"] for service in file["services"].values()})
