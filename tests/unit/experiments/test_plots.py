from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from experiments.demo import LABELS
from experiments.netlab import TcpInfo
from experiments.plots import COLOURS, Trace, flows_figure, save

RATE_BYTES_PER_S = 1_000_000


def samples(n: int = 101, *, begin_s: float = 1000.0) -> list[TcpInfo]:
    """A flow of 1 MB/s whose window grows by 1000 bytes a sample, looked at every 20 ms."""
    return [
        TcpInfo(
            time_s=begin_s + 0.02 * i,
            cwnd_bytes=14_480 + 1000 * i,
            srtt_us=10_000,
            min_rtt_us=8_000,
            bytes_acked=int(20_000 * i),
            retransmits_pkts=0,
        )
        for i in range(n)
    ]


def traces() -> list[Trace]:
    return [
        Trace("cubic", LABELS["cubic"], samples()),
        Trace("ccp.cubic", LABELS["ccp.cubic"], samples(151, begin_s=2000.0)),
    ]


def test_time_starts_with_each_flow() -> None:
    first, second = traces()
    assert first.time_s[0] == second.time_s[0] == 0
    assert second.time_s[-1] == pytest.approx(3.0)


def test_throughput_is_what_was_acknowledged_by_time() -> None:
    at_s, rate_bytes_per_s = traces()[0].throughput(0.2)
    np.testing.assert_allclose(rate_bytes_per_s, RATE_BYTES_PER_S, rtol=1e-6)
    assert len(at_s) == len(rate_bytes_per_s)
    assert np.all(np.diff(at_s) >= 0.2)


def test_throughput_needs_no_even_spacing_of_samples() -> None:
    thinned = [one for i, one in enumerate(samples()) if i % 7 in (0, 1, 3)]
    _, rate_bytes_per_s = Trace("cubic", "", thinned).throughput(0.1)
    np.testing.assert_allclose(rate_bytes_per_s, RATE_BYTES_PER_S, rtol=1e-6)


def test_every_axis_has_a_unit_and_the_figure_a_title() -> None:
    figure = flows_figure(traces(), title="what", subtitle="where", limit_bytes_per_s=1.2e6)
    window, throughput = figure.axes
    assert window.get_ylabel() == "congestion window [kB]"
    assert throughput.get_ylabel() == "throughput [Mbit/s]"
    assert throughput.get_xlabel() == "time since the flow began [s]"
    assert window.get_title(loc="left") == "what"
    assert "where" in {text.get_text() for text in window.texts}
    assert [text.get_text() for text in throughput.texts] == ["most payload that fits: 9.6 Mbit/s"]


def test_values_are_in_the_units_of_their_axes() -> None:
    figure = flows_figure(traces(), title="", subtitle="", limit_bytes_per_s=1.2e6)
    window, throughput = figure.axes
    assert window.lines[0].get_ydata()[0] == pytest.approx(14.48)
    np.testing.assert_allclose(throughput.lines[0].get_ydata(), 8.0, rtol=1e-6)
    assert throughput.get_xlim() == (0, pytest.approx(3.0))


def test_each_algorithm_has_its_colour_in_both_panels_and_in_the_legend() -> None:
    figure = flows_figure(traces(), title="", subtitle="", limit_bytes_per_s=1.2e6)
    for axes in figure.axes:
        assert [line.get_color() for line in axes.lines[:2]] == [COLOURS["cubic"], COLOURS["ccp.cubic"]]
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(LABELS.values())
    assert [line.get_color() for line in legend.get_lines()] == list(COLOURS.values())


def test_no_two_algorithms_share_a_colour_and_all_that_is_compared_has_one() -> None:
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert set(LABELS) <= set(COLOURS)


def test_the_style_stays_with_the_figure() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    flows_figure(traces(), title="", subtitle="", limit_bytes_per_s=1.2e6)
    assert dict(matplotlib.rcParams) == before


def test_saving_makes_the_directory_and_a_png(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "plot.png"
    save(flows_figure(traces(), title="", subtitle="", limit_bytes_per_s=1.2e6), path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_saves_belongs_to_whom_the_directory_around_it_belongs(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 23456)
    path = tmp_path / "out" / "plot.png"
    save(flows_figure(traces(), title="", subtitle="", limit_bytes_per_s=1.2e6), path)
    for one in (path, path.parent):
        assert (one.stat().st_uid, one.stat().st_gid) == (12345, 23456)
