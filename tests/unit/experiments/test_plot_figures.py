from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.text import Text

from experiments import plots
from experiments.metrics import MetricError
from experiments.plots import distributions, style


def flow_samples(*flows: str) -> pd.DataFrame:
    t_s = np.arange(0.1, 3.05, 0.1)
    one = {
        "t_s": t_s,
        "cwnd_bytes": 10_000 + 1000 * np.arange(len(t_s)),
        "srtt_us": 50_000,
        "rtt_us": 51_000.0,
        "bytes_acked": (1e6 * t_s).astype(int),
    }
    return pd.concat([pd.DataFrame({"flow": flow, **one}) for flow in flows], ignore_index=True)


def flows(**algorithms: str) -> pd.DataFrame:
    return pd.DataFrame({"flow": list(algorithms), "algorithm": list(algorithms.values())})


def link_samples() -> pd.DataFrame:
    t_s = np.arange(0, 3.05, 0.1)
    queue = {"t_s": t_s, "queue_bytes": 100_000 * (t_s % 1), "dropped_queue_pkts": (t_s // 1).astype(int)}
    return pd.concat(
        [
            pd.DataFrame({"link": "bottleneck>", **queue}),
            pd.DataFrame({"link": "bottleneck<", **queue, "queue_bytes": 0, "dropped_queue_pkts": 0}),
        ]
    )


def repeats(n: int = 5) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "algorithm": algorithm,
                "loss_ratio": loss,
                "delay_us": delay,
                "seed": seed,
                "goodput_bytes_per_s": base * (1 - 10 * loss) + 1e4 * seed,
                "rtt_p50_us": 50_000 + 1000 * seed,
            }
            for algorithm, base in (("kernel/cubic", 5e6), ("cubic", 6e6))
            for loss in (0.01, 0.0, 0.02)
            for delay in (10_000, 25_000)
            for seed in range(1, n + 1)
        ]
    )


def texts(figure: Figure) -> set[str]:
    return {text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text"))}


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_series_have_a_panel_a_column_with_its_unit_and_one_for_queues() -> None:
    figure = plots.time_series(
        flow_samples("a"), flows(a="cubic"), link_samples(), title="what", subtitle="where", note="seed 1"
    )
    assert [axes.get_ylabel().replace("\n", " ") for axes in figure.axes] == [
        "congestion window [kB]",
        "smoothed RTT [ms]",
        "goodput [Mbit/s]",
        "queue [kB]",
    ]
    assert figure.axes[-1].get_xlabel() == "time since the start of the run [s]"
    assert {"what", "where", "seed 1"} <= texts(figure)


def test_series_are_in_the_units_of_their_axes() -> None:
    figure = plots.time_series(flow_samples("a"), flows(a="cubic"))
    window, rtt, goodput = figure.axes
    assert window.lines[0].get_ydata()[0] == pytest.approx(10)
    assert rtt.lines[0].get_ydata()[0] == pytest.approx(50)
    np.testing.assert_allclose(goodput.lines[0].get_ydata(), 8, rtol=1e-5)


def test_flows_of_one_algorithm_have_its_colour_and_differ_in_their_dashes() -> None:
    figure = plots.time_series(flow_samples("a", "b", "c"), flows(a="cubic", b="kernel/cubic", c="cubic"))
    a, b, c = figure.axes[0].lines
    assert a.get_color() == c.get_color() == style.look("cubic").colour
    assert b.get_color() == style.look("kernel/cubic").colour
    assert a.get_linestyle() != c.get_linestyle()
    assert legend_of(figure) == ["ccplane CUBIC, flow a", "kernel CUBIC", "ccplane CUBIC, flow c"]


def test_links_without_a_queue_are_left_out_and_drops_are_marked() -> None:
    figure = plots.time_series(flow_samples("a"), flows(a="cubic"), link_samples())
    queue, drops = figure.axes[-1].lines
    assert (queue.get_label(), drops.get_label()) == ("bottleneck>", "drops")
    assert drops.get_xdata() == pytest.approx([1, 2, 3])


def test_there_is_no_panel_where_nothing_ever_queued() -> None:
    idle = link_samples().assign(queue_bytes=0)
    assert len(plots.time_series(flow_samples("a"), flows(a="cubic"), idle).axes) == 3


def test_events_are_named_where_they_happened() -> None:
    events = pd.DataFrame(
        {
            "t_s": [1.0, 2.0],
            "kind": ["set_link", "set_param"],
            "detail": ['{"link": "bottleneck"}', "no JSON"],
        }
    )
    figure = plots.time_series(flow_samples("a"), flows(a="cubic"), events=events)
    assert {"set_link bottleneck", "set_param"} <= texts(figure)
    assert [line.get_xdata()[0] for line in figure.axes[1].lines[1:]] == [1, 2]


def test_a_missing_rtt_is_a_gap() -> None:
    samples = flow_samples("a").astype({"srtt_us": float})
    samples.loc[5, "srtt_us"] = np.nan
    line = plots.time_series(samples, flows(a="cubic")).axes[1].lines[0]
    assert math.isnan(line.get_ydata()[5])


def test_conditions_stand_side_by_side_with_the_same_panels_and_limits() -> None:
    columns = {"clean": flow_samples("a", "b"), "lossy": flow_samples("a", "b")}
    figure = plots.side_by_side(
        columns,
        flows(a="kernel/cubic", b="cubic"),
        limits={"goodput_bytes_per_s": 1.25e6},
        marks={"lossy": (1.0, "then")},
        title="what",
        note="seed 1",
    )
    window, lossy_window, goodput, lossy_goodput = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == list(columns)
    assert window.get_ylabel().replace("\n", " ") == "congestion window [kB]"
    assert goodput.get_ylabel().replace("\n", " ") == "goodput [Mbit/s]"
    assert goodput.get_xlabel() == lossy_goodput.get_xlabel() == "time since the start of the run [s]"
    assert {"what", "seed 1", "then", "payload limit 10.0 Mbit/s"} <= texts(figure)
    assert [len(axes.lines) for axes in (window, lossy_window)] == [2, 3]
    for axes in (window, lossy_window):
        labels = {text.get_text(): text for text in axes.texts if " CUBIC" in text.get_text()}
        assert list(labels) == ["kernel CUBIC", "ccplane CUBIC"]
        lower, upper = sorted(text.xy[1] for text in labels.values())
        assert upper - lower == pytest.approx(0.1), "labels of lines that end at the same place overlap"
        for line, text in zip(axes.lines, labels.values(), strict=False):
            assert text.get_color() == line.get_color()
            assert text.xy[0] == 1
    np.testing.assert_allclose(lossy_goodput.lines[1].get_ydata(), 8, rtol=1e-5)


def test_cdf_is_of_known_values_and_reports_how_many() -> None:
    table = pd.DataFrame(
        {"algorithm": ["cubic"] * 4 + ["reno"], "rtt_us": [3000.0, 1000, np.nan, 2000, np.nan]}
    )
    figure = plots.cdf(table, "rtt_us", title="what", note="seed 1")
    (axes,) = figure.axes
    assert axes.get_xlabel() == "RTT [ms]"
    assert axes.get_ylabel()
    assert legend_of(figure) == ["ccplane CUBIC (n = 3)"]
    assert axes.lines[0].get_xdata()[1:].tolist() == [1, 2, 3]
    assert axes.lines[0].get_ydata()[1:] == pytest.approx([1 / 3, 2 / 3, 1])


def test_throughput_and_delay_have_ellipses_and_delay_grows_to_the_left() -> None:
    figure = plots.throughput_delay(repeats(), title="what")
    (axes,) = figure.axes
    assert axes.get_xlabel().startswith("median RTT [ms]")
    assert axes.get_ylabel() == "goodput [Mbit/s]"
    assert axes.xaxis_inverted()
    assert sum(isinstance(patch, Ellipse) for patch in axes.patches) == 4  # an area and an edge each
    assert legend_of(figure) == ["kernel CUBIC (n = 30)", "ccplane CUBIC (n = 30)"]


def test_two_points_have_no_ellipse() -> None:
    table = repeats(1)[lambda one: one["loss_ratio"] == 0]
    assert not plots.throughput_delay(table).axes[0].patches


def test_the_ellipse_is_that_of_one_standard_deviation() -> None:
    along = np.array([3.0, 4.0]) / 5
    across = np.array([-4.0, 3.0]) / 5
    points = np.array([[10, 20] + a * 6 * along + b * across for a in (-1, 1) for b in (-1, 1)])
    centre, width, height, angle = distributions.ellipse_of(points)
    spread = math.sqrt(4 / 3)  # of -1, -1, 1, 1 with n - 1
    assert centre.tolist() == [10, 20]
    assert (width, height) == pytest.approx((2 * 6 * spread, 2 * spread))
    assert angle % 180 == pytest.approx(math.degrees(math.atan2(4, 3)))


def test_bars_are_medians_with_intervals_in_groups_of_ascending_numbers() -> None:
    figure = plots.bars(repeats(), "goodput_bytes_per_s", group="loss_ratio", title="what", subtitle="where")
    (axes,) = figure.axes
    assert axes.get_ylabel() == "goodput [Mbit/s]"
    assert axes.get_xlabel() == "loss [%]"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "1", "2"]
    kernel = axes.containers[0]
    assert [bar.get_height() for bar in kernel] == pytest.approx([40.24, 36.24, 32.24])
    assert legend_of(figure) == ["kernel CUBIC", "ccplane CUBIC"]
    assert "median and 95 % interval, n = 10; seeds 1 to 5" in texts(figure)


def test_bars_have_the_colour_of_their_algorithm() -> None:
    figure = plots.bars(repeats(), "goodput_bytes_per_s")
    for container, name in zip(figure.axes[0].containers[::2], ("kernel/cubic", "cubic"), strict=True):
        assert container[0].get_facecolor()[:3] == pytest.approx(
            style.matplotlib.colors.to_rgb(style.look(name).colour)
        )


def test_bars_on_a_logarithmic_axis_have_a_place_for_0() -> None:
    table = repeats().assign(retrans_pkts=np.where(repeats()["algorithm"] == "cubic", 0, 5_000))
    (axes,) = plots.bars(table, "retrans_pkts", group="loss_ratio", log=True).axes
    assert axes.get_yscale() == "symlog"
    assert axes.get_ylim()[0] == 0


def test_a_combination_without_a_value_has_no_bar() -> None:
    table = repeats()
    table.loc[(table["algorithm"] == "cubic") & (table["loss_ratio"] == 0), "goodput_bytes_per_s"] = np.nan
    figure = plots.bars(table, "goodput_bytes_per_s", group="loss_ratio")
    assert math.isnan(figure.axes[0].containers[2][0].get_height())
    assert any("n = 0 to 10;" in text for text in texts(figure))


def test_a_single_run_has_no_interval_and_the_note_says_so() -> None:
    figure = plots.bars(
        repeats(1)[lambda one: one["delay_us"] == 10_000], "goodput_bytes_per_s", group="loss_ratio"
    )
    assert "median, n = 1; seed 1" in texts(figure)


def test_lines_are_in_order_of_the_axis_and_in_its_unit() -> None:
    figure = plots.lines(repeats(), "goodput_bytes_per_s", "loss_ratio")
    (axes,) = figure.axes
    drawn = [line for line in axes.lines if len(line.get_xdata()) == 3 and line.get_linestyle() == "-"]
    assert [line.get_xdata().tolist() for line in drawn] == [[0, 1, 2], [0, 1, 2]]
    assert drawn[0].get_ydata() == pytest.approx([40.24, 36.24, 32.24])
    assert axes.get_xlabel() == "loss [%]"
    assert any(text.startswith("median and 95 %") for text in texts(figure))


def test_markers_of_values_that_hardly_differ_are_not_cut_off() -> None:
    table = repeats().assign(goodput_bytes_per_s=lambda rows: 1e6 + rows["loss_ratio"])
    (axes,) = plots.lines(table, "goodput_bytes_per_s", "loss_ratio").axes
    assert axes.get_ylim()[1] > 1.02 * axes.dataLim.y1


def test_numbers_that_span_decades_have_a_logarithmic_axis() -> None:
    table = repeats().assign(
        loss_ratio=lambda rows: rows["loss_ratio"].map({0.0: 0.001, 0.01: 0.01, 0.02: 0.15})
    )
    (axes,) = plots.lines(table, "goodput_bytes_per_s", "loss_ratio").axes
    assert axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.1", "1", "15"]
    (axes,) = plots.lines(repeats(), "goodput_bytes_per_s", "loss_ratio").axes
    assert axes.get_xscale() == "linear"


def test_a_heat_map_has_a_panel_an_algorithm_and_writes_its_values() -> None:
    table = repeats()
    gap = (table["algorithm"] == "cubic") & (table["loss_ratio"] == 0.01) & (table["delay_us"] == 25_000)
    figure = plots.heat_map(table[~gap], "goodput_bytes_per_s", "loss_ratio", "delay_us", subtitle="where")
    kernel, own, bar = figure.axes
    assert [kernel.get_title(), own.get_title()] == ["kernel CUBIC", "ccplane CUBIC"]
    assert kernel.get_xlabel() == "loss [%]"
    assert kernel.get_ylabel() == "delay [ms]"
    assert bar.get_ylabel() == "goodput [Mbit/s]"
    assert [tick.get_text() for tick in kernel.get_yticklabels()] == ["10", "25"]
    assert sorted(text.get_text() for text in kernel.texts) == [
        "32.2",
        "32.2",
        "36.2",
        "36.2",
        "40.2",
        "40.2",
    ]
    assert len(own.texts) == 5
    assert any(patch.get_hatch() for patch in own.patches)
    assert "where · median, n = 5; seeds 1 to 5" in texts(figure)


def test_a_heat_map_of_nothing_is_refused() -> None:
    with pytest.raises(MetricError) as caught:
        plots.heat_map(
            repeats().assign(goodput_bytes_per_s=np.nan), "goodput_bytes_per_s", "loss_ratio", "delay_us"
        )
    assert caught.value.slug == "metric.bad_value"


@pytest.mark.parametrize(
    ("seeds", "reported"),
    [
        ([3], "seed 3"),
        ([1, 2, 3], "seeds 1 to 3"),
        ([1, 5], "seeds 1, 5"),
        (list(range(0, 40, 2)), "20 seeds"),
    ],
)
def test_the_note_reports_seeds_in_short(seeds: list[int], reported: str) -> None:
    table = pd.DataFrame({"algorithm": "cubic", "seed": seeds, "x_s": 1.0})
    assert any(text.endswith(f"; {reported}") for text in texts(plots.bars(table, "x_s")))


@pytest.mark.parametrize(
    "draw",
    [
        lambda table: plots.bars(table, "nothing"),
        lambda table: plots.lines(table, "goodput_bytes_per_s", "nothing"),
        lambda table: plots.heat_map(table, "goodput_bytes_per_s", "nothing", "delay_us"),
        lambda table: plots.cdf(table, "nothing"),
        lambda table: plots.throughput_delay(table, delay="nothing"),
        lambda table: plots.time_series(flow_samples("a"), table),
        lambda table: plots.side_by_side({"x": table}, flows(a="cubic")),
    ],
)
def test_a_column_that_is_not_there_is_named(draw: object) -> None:
    with pytest.raises(MetricError) as caught:
        draw(repeats())  # type: ignore[operator]
    assert caught.value.slug == "metric.no_column"


def test_long_lines_around_a_figure_are_wrapped_and_not_cut_off() -> None:
    words = (
        "wire of 10 Mbit/s with room for 50 packets, 5 ms, 2.0% loss; "
        "by the telemetry that packets carried to the sink"
    )
    with style.styled():
        plot = style.new_plot(3)
        axes = plot.subplots()
        style.finish(plot, axes, "A title", words, f"{words}; {words}")
        plot.draw_without_rendering()
    there = [text for text in plot.findobj(Text) if "50 packets" in text.get_text()]
    assert len(there) == 2
    for text in there:
        assert text.get_window_extent().x1 <= plot.bbox.x1
