from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from datapath import ebpf
from datapath.errors import CcpError, LoadError
from experiments import demo
from experiments.demo import ALGORITHMS, PATHS, Transfer
from experiments.metrics import MetricError
from tests.unit.experiments.test_plot_figures import flow_samples


def transfers() -> list[Transfer]:
    samples = flow_samples("flow")
    return [
        Transfer(path, algorithm, 11.9e6 - 1e6 * i, 0.5 + i, 51_000.0 + 1000 * i, 60_000.0, samples)
        for i, (path, algorithm) in enumerate((path, name) for path in PATHS for name in ALGORITHMS)
    ]


@pytest.fixture
def ccp_demo(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`ccp demo` with transfers that were measured before."""
    monkeypatch.setattr(demo, "must_be_able", lambda: None)
    monkeypatch.setattr(demo, "measure", lambda seconds: transfers())
    return lambda *arguments: CliRunner().invoke(
        demo.app, [str(one) for one in arguments], env={"COLUMNS": "100"}
    )


def test_the_table_has_every_figure_with_its_unit(ccp_demo: Callable[..., Result], tmp_path: Path) -> None:
    result = ccp_demo("--output", tmp_path / "demo.png")
    assert result.exit_code == 0
    rows = [re.split(r"\s*│\s*", line.strip("│ ")) for line in result.stdout.splitlines() if "│" in line]
    assert rows[-4:] == [
        ["clean", "kernel CUBIC", "95.2", "0.50", "51.0", "60.0"],
        ["clean", "ccplane CUBIC", "87.2", "1.50", "52.0", "60.0"],
        ["0.5 % random loss", "kernel CUBIC", "79.2", "2.50", "53.0", "60.0"],
        ["0.5 % random loss", "ccplane CUBIC", "71.2", "3.50", "54.0", "60.0"],
    ]
    for heading in ("goodput", "Mbit/s", "sent again", "%", "median RTT", "p95 RTT", "ms"):
        assert heading in result.stdout
    assert f"plot: {tmp_path}" in result.stdout


def test_json_has_the_same_figures_and_nothing_else_is_printed(
    ccp_demo: Callable[..., Result], tmp_path: Path
) -> None:
    result = ccp_demo("--json", "--output", tmp_path / "demo.png", "--seconds", 2)
    document = json.loads(result.stdout)
    assert document["seconds"] == 2
    assert document["plot"] == str(tmp_path / "demo.png")
    assert [(one["path"], one["algorithm"]) for one in document["transfers"]] == [
        (path, name) for path in PATHS for name in ALGORITHMS
    ]
    assert document["transfers"][0]["goodput_bytes_per_s"] == 11.9e6
    assert document["transfers"][0]["samples"] == len(flow_samples("flow"))


def test_the_runs_differ_in_algorithm_and_loss_only() -> None:
    clean, lossy = (demo.scenario("cubic", path, 5) for path in PATHS)
    clean.validate()
    lossy.validate()
    (clean_link,), (lossy_link,) = clean.network.links, lossy.network.links
    assert clean_link.forward.loss is None
    assert lossy_link.forward.loss.ratio == 0.005
    assert lossy_link.back.loss is None
    assert clean_link.forward.delay_us + clean_link.back.delay_us == demo.RTT_US


def test_figures_are_shown_when_the_plot_cannot_be_written(
    ccp_demo: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    result = ccp_demo("--output", tmp_path / "file" / "demo.png")
    assert isinstance(result.exception, CcpError)
    assert result.exception.slug == "demo.cannot_write"
    assert "95.2" in result.stdout


def test_the_plot_has_no_other_format_than_figures_have(
    ccp_demo: Callable[..., Result], tmp_path: Path
) -> None:
    result = ccp_demo("--output", tmp_path / "demo.txt")
    assert isinstance(result.exception, MetricError)
    assert result.exception.slug == "plot.format"


def test_what_is_missing_is_said_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ebpf.Capability(
        "btf", ok=False, required=True, detail="no /sys/kernel/btf", fix="another kernel"
    )
    optional = ebpf.Capability("links", ok=False, required=False, detail="", fix="")
    monkeypatch.setattr(ebpf, "probe", lambda: [optional, missing])
    with pytest.raises(LoadError) as caught:
        demo.must_be_able()
    assert caught.value.slug == "load.missing"
    assert caught.value.why == "btf: no /sys/kernel/btf"
    assert caught.value.fix == "another kernel"


def test_an_optional_capability_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    optional = ebpf.Capability("links", ok=False, required=False, detail="", fix="")
    monkeypatch.setattr(ebpf, "probe", lambda: [optional])
    demo.must_be_able()
