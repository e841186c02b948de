from __future__ import annotations

from pathlib import Path

import pytest

from experiments.bench import quic
from experiments.bench.errors import BenchError
from experiments.bench.rounds import Plan, Unfit


def test_a_program_that_nobody_built_is_named_with_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(BenchError) as caught:
        quic.run(Plan(1, 1), tmp_path / "files")
    assert caught.value.slug == "bench.no_example"
    assert caught.value.where == str(tmp_path / "files")
    assert quic.BUILD in caught.value.fix


def test_figures_are_read_from_what_the_example_says() -> None:
    assert quic.number("50000000 octets in 4.210 s, 95.01 Mbit/s", r"in ([\d.]+) s") == 4.21
    with pytest.raises(Unfit, match="no such file"):
        quic.number("no such file", r"in ([\d.]+) s")
