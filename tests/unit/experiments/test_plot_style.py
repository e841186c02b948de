from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from ccp_algs import registry
from experiments.plots import label, looks, quantity, style

PAPERS = list(style._OWN)


def lightness(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    luminance = float(np.dot(linear, [0.2126, 0.7152, 0.0722]))
    return 116 * luminance ** (1 / 3) - 16


def seen_without_green(colour: str) -> tuple[float, ...]:
    linear = np.array([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)])
    matrix = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
    return tuple(np.clip(matrix @ linear, 0, 1) ** (1 / 2.2))


def test_an_algorithm_looks_the_same_in_every_company() -> None:
    alone, together = looks(["flex_cubic"]), looks([*PAPERS, "mine"])
    assert alone["flex_cubic"] == together["flex_cubic"]


@given(st.sets(st.text("abcdefgh_/", min_size=1, max_size=12), max_size=12))
def test_no_two_algorithms_of_a_figure_look_alike(names: set[str]) -> None:
    chosen = looks([*names, *PAPERS])
    assert len({(look.colour, look.hatch) for look in chosen.values()}) == len(chosen)


def test_an_unknown_algorithm_has_a_look_that_its_name_decides() -> None:
    assert looks(["mine"]) == looks(["mine"])
    assert len({looks([f"mine{i}"])[f"mine{i}"] for i in range(30)}) > 5


def test_every_algorithm_of_the_registry_has_a_look() -> None:
    names = list(registry.names())
    assert set(looks(names)) == set(names)


def test_what_is_compared_max_can_be_reported_apart_by_people_who_see_no_green() -> None:
    close = [
        (a, b)
        for i, a in enumerate(PAPERS)
        for b in PAPERS[:i]
        if np.linalg.norm(
            np.subtract(seen_without_green(style._OWN[a].colour), seen_without_green(style._OWN[b].colour))
        )
        < 0.1
    ]
    assert close == []


def test_colours_are_dark_enough_on_white() -> None:
    assert max(lightness(look.colour) for look in (*style._OWN.values(), *style._OTHERS)) < 78


@pytest.mark.parametrize(
    ("algorithm", "reported"),
    [
        ("kernel/cubic", "kernel CUBIC"),
        ("cubic", "ccplane CUBIC"),
        ("kernel/illinois", "kernel illinois"),
        ("flex_cubic", "flex_cubic"),
        ("papers/mine.py:Mine", "mine.py:Mine"),
    ],
)
def test_algorithms_are_called_so_that_kernel_and_ccplane_are_reported_apart(
    algorithm: str, reported: str
) -> None:
    assert label(algorithm) == reported


@pytest.mark.parametrize(
    ("column", "axis", "value"),
    [
        ("goodput_bytes_per_s", "goodput [Mbit/s]", 8.0),
        ("cwnd_bytes", "congestion window [kB]", 1000.0),
        ("bytes_in_flight", "in flight [kB]", 1000.0),
        ("srtt_us", "smoothed RTT [ms]", 1000.0),
        ("rtt_p95_us", "RTT, 95th percentile [ms]", 1000.0),
        ("rtt_p50_us", "median RTT [ms]", 1000.0),
        ("retrans_pct", "retransmitted [%]", 1e6),
        ("links.bottleneck.forward.loss.ratio", "loss [%]", 1e8),
        ("loss_ratio", "loss [%]", 1e8),
        ("topology.forward.delay_us", "delay [ms]", 1000.0),
        ("axis.links.bottleneck.forward.buffer.bdp", "buffer [BDP]", 1e6),
        ("topology.forward.buffer.bytes", "buffer [kB]", 1000.0),
        ("completion_s", "completion time [s]", 1e6),
        ("arrival_pkts_per_s", "arrival rate [packets/s]", 1e6),
        ("cpu_s_per_gb", "CPU time [s/GB]", 1e6),
        ("beta", "beta", 1e6),
    ],
)
def test_the_name_of_a_column_decides_axis_and_unit(column: str, axis: str, value: float) -> None:
    assert quantity(column).axis == axis
    assert float(quantity(column).of(1e6)) == pytest.approx(value)


def test_missing_values_stay_missing() -> None:
    assert np.isnan(quantity("srtt_us").of([None, 1000.0])).tolist() == [True, False]


def test_the_style_does_not_depend_on_that_of_the_session() -> None:
    with matplotlib.rc_context({"axes.grid": False, "lines.linewidth": 9}), style.styled():
        assert matplotlib.rcParams["axes.grid"]
        assert matplotlib.rcParams["lines.linewidth"] == style.STYLE["lines.linewidth"]


def test_the_session_keeps_its_style() -> None:
    before = dict(matplotlib.rcParams)
    with style.styled():
        style.new_plot(2)
    assert dict(matplotlib.rcParams) == before


def test_a_plot_shows_itself_in_a_notebook() -> None:
    with style.styled():
        plot = style.new_plot(2)
    assert plot._repr_png_().startswith(b"\x89PNG\r\n\x1a\n")
