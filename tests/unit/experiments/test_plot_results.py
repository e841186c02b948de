from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.text import Text

from experiments import plots
from experiments.metrics import SLUGS, MetricError
from experiments.netlab.spec import Direction
from experiments.plots.results import describe, of_run, of_sweep, origin
from experiments.results import Result
from experiments.runs.tables import COLUMNS
from experiments.scenario import FlowSpec, PointToPoint, Scenario
from tests.unit.experiments.test_plot_figures import flow_samples, link_samples

SCENARIO = Scenario(
    name="a try",
    topology=PointToPoint(Direction(rate_bytes_per_s=12.5e6, delay_us=25_000)),
    flows=(FlowSpec("a", "sender", "receiver", "cubic"),),
    duration_s=3,
)


def result(**given: pd.DataFrame) -> Result:
    held: dict[str, Any] = {name: pd.DataFrame(columns=list(columns)) for name, columns in COLUMNS.items()}
    held["flows"] = pd.DataFrame({"flow": ["a"], "algorithm": ["cubic"], "base_rtt_us": [50_000]})
    held["flow_samples"] = flow_samples("a")
    held["link_samples"] = link_samples()
    held["events"] = pd.DataFrame(
        {"t_s": [0.0, 1.0], "kind": ["flow_start", "set_link"], "detail": ["{}", '{"link": "link"}']}
    )
    metadata = {"name": "a try", "seed": 7, "complete": True, "machine": {"kernel": "6.18"}}
    return Result(None, metadata, {**held, **given}.__getitem__, SCENARIO.to_yaml())


class Sweep:
    name = "a sweep"
    directory = Path("out/a-sweep")

    def __init__(self, table: pd.DataFrame, *axes: str) -> None:
        self.axes = list(axes)
        self._table = table

    def table(self) -> pd.DataFrame:
        return self._table

    def __iter__(self) -> Iterator[Result]:
        return iter([result()])


def table(**axes: list[Any]) -> pd.DataFrame:
    product = pd.MultiIndex.from_product(axes.values(), names=axes.keys()).to_frame(index=False)
    rows = []
    for combination in product.to_dict("records"):
        for repeat in range(2):
            for flow, goodput in (("a", 1e6), ("b", 3e6)):
                rows.append(
                    {
                        "run": f"{combination}{repeat}",
                        "repeat": repeat,
                        "seed": repeat + 1,
                        **combination,
                        "flow": flow,
                        "algorithm": "cubic",
                        "goodput_bytes_per_s": goodput,
                        "retrans_pct": 0.5,
                        "rtt_p95_us": 50_000.0,
                    }
                )
    return pd.DataFrame(rows)


def test_a_run_has_its_series_and_the_distribution_of_its_rtt() -> None:
    figures = of_run(result())
    assert set(figures) == {"time-series", "rtt-cdf"}
    series = {text.get_text() for text in figures["time-series"].axes[0].texts}
    assert series == {"set_link link"}  # that flows start is no change


def test_downloads_have_their_completion_times() -> None:
    objects = pd.DataFrame({"flow": ["a", "a"], "completion_s": [0.1, 0.2]})
    assert "completion-cdf" in of_run(result(objects=objects))


def test_a_run_without_samples_has_nothing_to_draw() -> None:
    with pytest.raises(MetricError) as caught:
        of_run(result(flow_samples=flow_samples("a").iloc[:0]))
    assert caught.value.slug == "plot.nothing"


def test_the_path_and_the_origin_are_reported_in_a_line() -> None:
    assert describe(result()) == "100 Mbit/s, base RTT 50 ms"
    assert origin(result()) == "one run, seed 7; Linux 6.18"


def test_all_figures_are_written_in_all_formats(tmp_path: Path) -> None:
    written = plots.save_all(result(), tmp_path / "out", ("png", "svg"))
    assert sorted(path.name for path in written) == [
        "rtt-cdf.png",
        "rtt-cdf.svg",
        "time-series.png",
        "time-series.svg",
    ]
    assert all(path.stat().st_size > 1000 for path in written)


@pytest.mark.parametrize(
    ("axes", "kind", "ellipses"),
    [
        ({"algorithm": ["cubic"]}, "bars", {"throughput-delay"}),
        ({"loss_ratio": [0.1]}, "bars", {"throughput-delay"}),
        ({"loss_ratio": [0.0, 0.1]}, "lines", {"throughput-delay-1", "throughput-delay-2"}),
        ({"queue": ["codel", "red"]}, "bars", {"throughput-delay-1", "throughput-delay-2"}),
        (
            {"loss_ratio": [0.0, 0.1], "delay_us": [1, 2]},
            "map",
            {f"throughput-delay-{i}" for i in range(1, 5)},
        ),
        ({"loss_ratio": [0.0, 0.1, 0.2], "delay_us": [1, 2, 3]}, "map", set()),
    ],
)
def test_the_axes_of_a_sweep_decide_its_figures(
    axes: dict[str, list[Any]], kind: str, ellipses: set[str]
) -> None:
    figures = of_sweep(Sweep(table(**axes), *axes))
    compared = {f"{name}-{kind}" for name in ("goodput", "retrans-pct", "rtt-p95")}
    assert set(figures) == compared | ellipses


def test_each_point_of_a_sweep_is_reported_where_it_is_drawn_alone() -> None:
    figures = of_sweep(Sweep(table(loss_ratio=[0.0, 0.1], queue=["red"]), "loss_ratio", "queue"))
    assert figures["throughput-delay-2"].axes[0].get_title(loc="left") == "loss 10 %"


def test_flows_of_one_run_are_no_repeats() -> None:
    figure = of_sweep(Sweep(table(loss_ratio=[0.0, 0.1]), "loss_ratio"))["goodput-lines"]
    assert "n = 2; seeds 1 to 2" in figure.get_supxlabel()
    drawn = next(line for line in figure.axes[0].lines if line.get_linestyle() == "-")
    assert drawn.get_ydata().tolist() == [16, 16]


def test_a_sweep_without_a_finished_run_has_nothing_to_draw() -> None:
    with pytest.raises(MetricError) as caught:
        of_sweep(Sweep(pd.DataFrame()))
    assert caught.value.slug == "plot.nothing"


def test_every_error_of_metrics_and_plots_is_listed_and_has_a_test() -> None:
    root = Path(__file__).parents[3]
    sources = [root / "experiments/metrics.py", root / "experiments/statistics.py"]
    sources += (root / "experiments/plots").glob("*.py")
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    text = "".join(path.read_text() for path in sources)
    for slug in SLUGS:
        assert text.count(f'"{slug}"') > 1, f"{slug} is listed, but never raised"
        assert f'slug == "{slug}"' in tests


def test_figures_of_a_sweep_say_where_it_ran() -> None:
    for figure in of_sweep(Sweep(table(delay_us=[5_000, 10_000]), "delay_us")).values():
        assert any("Linux 6.18" in text.get_text() for text in figure.findobj(Text))
