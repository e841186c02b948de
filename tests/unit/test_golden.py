"""What algorithms do in simulated scenarios is what was accepted last; see tests/golden.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccp_algs import registry
from tests import golden


@pytest.mark.parametrize("algorithm", registry.names())
def test_trace_is_the_one_that_was_accepted(algorithm: str) -> None:
    before = golden.kept(algorithm)
    assert before is not None, "it has none yet: `make bless`"
    different = golden.reported(algorithm, before, golden.trace(algorithm))
    assert not different, different


def test_difference_is_reported_in_numbers_and_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(golden, "SHOWN", tmp_path)
    before = {"queue": {name: [10_000, 20_000, 30_000] for name in golden.COLUMNS}}
    now = {"queue": {**before["queue"], "cwnd_bytes": [10_000, 26_000, 31_000]}}
    assert golden.reported("cubic", before, before) == ""
    words = golden.reported("cubic", before, now)
    assert (
        "cwnd_bytes differs from 0.2 s on, most at 0.2 s: 20000 -> 26000; at the end 30000 -> 31000" in words
    )
    assert (tmp_path / "cubic.png").stat().st_size > 1000
