from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.inband import steering


@pytest.mark.parametrize(
    ("online", "mask"),
    [
        ("0", "00000001"),
        ("0-1", "00000003"),
        ("0,2-3,5", "0000002d"),
        ("0-31", "ffffffff"),
        ("0-32", "00000001,ffffffff"),
        ("64", "00000001,00000000,00000000"),
    ],
)
def test_a_mask_has_a_bit_for_each_processor_that_is_online(
    online: str, mask: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "online"
    file.write_text(f"{online}\n")
    monkeypatch.setattr(steering, "_ONLINE", file)
    assert steering.all_processors() == mask


def test_one_processor_needs_no_steering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "online"
    file.write_text("0\n")
    monkeypatch.setattr(steering, "_ONLINE", file)
    assert steering.unsteered(["lo"]) == {}
