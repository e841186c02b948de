"""How services reach a broker on the same machine: any local user may listen on its port while it is down."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from broker.options import BusOptions
from ccplane.agent import service

ROOT: Final = Path(__file__).parents[3]
PLACES: Final = (*sorted(Path(service.__file__).parent.glob("*.env")), ROOT / "docs/operations.md")


@pytest.mark.parametrize("place", PLACES, ids=lambda path: path.name)
def test_passwords_are_sent_only_to_a_broker_with_a_certificate(place: Path) -> None:
    urls = re.findall(r"mqtts?://[^\s'`]*password_file=[^\s'`]*", place.read_text())
    assert urls or place.name == "rtcp.env"
    for url in urls:
        text = re.sub(r"[?&]password_file=[^&]*", "", url)  # a file of the running service
        options = BusOptions.from_url(text.replace("&", "?", 1) if "?" not in text else text)
        assert options.tls is not None, url
