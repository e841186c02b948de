"""The table of ways to be awake in docs/architecture.md is that of the kept results."""

from __future__ import annotations

from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan
from scripts.bench_tables import BEGIN, END
from scripts.wakeful_table import DOCUMENT, results, table, written


def test_the_document_has_the_table_of_the_kept_results() -> None:
    text = DOCUMENT.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert written(text, results()) == text, "run `make docs-tables`"


def test_a_line_has_what_a_way_brings_and_costs() -> None:
    result = BenchResult("wakeful", Plan(), {"states": ["idle"], "ways": ["off", "0us"]})
    result.add("written_p50_us.idle.off", [80.0], "us")
    result.add("written_p50_us.idle.0us", [40.0, 40.0, 41.0, 40.0, 40.0, 40.0], "us")
    result.add("throughput_ratio.idle.0us", [0.7, 0.7, 0.7, 0.7, 0.7, 0.71], "ratio")
    assert table([result]).splitlines() == [
        "| state | way | throughput | CPU per GB | written p50 | p99 | applied p50 | p99 |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| idle | `off` | 1 | 1 | 80 |  |  |  |",
        "| idle | `0us` | 0.7 (0.7 - 0.71) |  | 40 (40 - 41) |  |  |  |",
    ]
