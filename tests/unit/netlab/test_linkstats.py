from __future__ import annotations

from pathlib import Path

from experiments.netlab.linkstats import SAMPLE_COLUMNS

ROOT = Path(__file__).parents[3]


def test_the_emulator_writes_the_same_columns() -> None:
    source = (ROOT / "native/ccp-emu/src/record/samples.rs").read_text()
    header = source.partition('const HEADER: &str = "')[2].partition('\\n"')[0]
    assert header.replace("\\\n", "").replace(" ", "") == ",".join(SAMPLE_COLUMNS)
