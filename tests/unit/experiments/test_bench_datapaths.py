"""An algorithm on all datapaths: what a transfer comes to, and the table of what is kept."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ccplane.datapath import registry
from experiments.bench.agents import Length
from experiments.bench.datapaths import GOALS, WAYS, Transfer
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit
from experiments.plots.windows import windows
from scripts.bench_tables import BEGIN, END
from scripts.datapaths_table import DOCUMENT, results, table, written


def transfer(seconds: float) -> Transfer:
    """A flow of 1 Mbit/s from its second second on, whose RTT rises by 1 ms a second."""
    t_s = np.linspace(0, seconds, 101)
    samples = pd.DataFrame({"t_s": t_s, "cwnd_bytes": 10_000, "srtt_us": 10_000 + 1000 * t_s})
    arrived = pd.DataFrame({"t_s": t_s, "octets": 125_000 * np.maximum(0, t_s - 2)})
    return Transfer(samples, arrived, 3)


def test_what_begins_a_transfer_is_left_out() -> None:
    figures = transfer(10).figures(Length(10, 2))
    assert figures["goodput_mbit_per_s"] == pytest.approx(1)
    assert figures["rtt_p50_ms"] == pytest.approx(16)
    assert figures["rtt_p95_ms"] == pytest.approx(19.6)
    assert figures["retransmits"] == 3


def test_a_transfer_that_ended_early_does_not_count() -> None:
    with pytest.raises(Unfit, match=r"over after 7\.0 s"):
        transfer(7).figures(Length(10, 2))


def test_all_datapaths_are_measured_by_the_kernels() -> None:
    assert WAYS[0] == registry.EBPF
    assert set(WAYS) == {kind.name for kind in registry.KINDS}


def test_each_window_has_a_panel_and_all_have_one_scale() -> None:
    plot = windows({way: transfer(4).samples for way in WAYS}, "reno", title="four")
    assert len(plot.axes) == len(WAYS)
    assert len({axes.get_ylim() for axes in plot.axes}) == 1
    assert [axes.texts[0].get_text() for axes in plot.axes] == list(WAYS)


def test_the_document_has_the_table_of_the_kept_results() -> None:
    text = DOCUMENT.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert written(text, results()) == text, "run `make docs-tables`"


def test_a_line_has_what_a_datapath_comes_to_and_its_ratios() -> None:
    result = BenchResult("datapaths", Plan(), {"path": "48mbit-20ms", "algorithm": "reno"})
    for way in WAYS:
        result.add(f"goodput_mbit_per_s.{way}", [45.0] * 6, "Mbit/s")
    goal = GOALS["goodput_mbit_per_s"]
    for way, value in (("sim", 1.0), ("quic", 0.9)):
        result.add(f"goodput_mbit_per_s_ratio.{way}", [value] * 6, "ratio", goal)
    lines = table([result]).splitlines()
    assert lines[2] == "| 48mbit-20ms | `reno` | `ebpf` | 45 |  |  |  |  |  |"
    assert "1 (1 - 1), met" in lines[3]
    assert "0.9 (0.9 - 0.9), missed" in lines[5]
