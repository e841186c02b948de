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
from experiments.demo import LABELS, Transfer
from tests.unit.experiments.test_plots import samples


def transfers() -> list[Transfer]:
    return [
        Transfer("cubic", 11.9e6, 20, 16_300.0, 19_600.0, 7.126, samples()),
        Transfer("ccp.cubic", 11.8e6, None, 16_000.0, 19_500.0, 7.5, samples()),
    ]


@pytest.fixture
def ccp_demo(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`ccp demo` with transfers that were measured before."""
    monkeypatch.setattr(demo, "must_be_able", lambda: None)
    monkeypatch.setattr(demo, "measure", lambda seconds: transfers())
    return lambda *arguments: CliRunner().invoke(demo.app, [str(one) for one in arguments])


def test_the_table_has_every_figure_with_its_unit(ccp_demo: Callable[..., Result], tmp_path: Path) -> None:
    result = ccp_demo("--output", tmp_path / "demo.png")
    assert result.exit_code == 0
    rows = {label: line for line in result.stdout.splitlines() for label in LABELS.values() if label in line}
    figures = {label: re.split(r"\s*│\s*", row.strip("│ "))[1:] for label, row in rows.items()}
    assert figures == {
        "kernel CUBIC": ["95.2", "20", "16.3", "19.6", "7.13"],
        "ccplane's CUBIC": ["94.4", "?", "16.0", "19.5", "7.50"],
    }
    for heading in (
        "goodput",
        "Mbit/s",
        "retransmits",
        "segments",
        "mean RTT",
        "p99 RTT",
        "ms",
        "CPU",
        "s/GB",
    ):
        assert heading in result.stdout
    assert "every 20 ms" in result.stdout  # what the RTTs are made of
    assert f"plot: {tmp_path}" in result.stdout


def test_json_has_the_same_figures_and_nothing_else_is_printed(
    ccp_demo: Callable[..., Result], tmp_path: Path
) -> None:
    result = ccp_demo("--json", "--output", tmp_path / "demo.png", "--seconds", 2)
    document = json.loads(result.stdout)
    assert document["seconds"] == 2
    assert document["plot"] == str(tmp_path / "demo.png")
    assert [one["congestion"] for one in document["transfers"]] == list(LABELS)
    assert document["transfers"][1]["retransmits_pkts"] is None
    assert document["transfers"][0]["rtt_p99_us"] == 19_600.0
    assert document["transfers"][0]["samples"] == len(samples())


def test_figures_are_shown_when_the_plot_cannot_be_written(
    ccp_demo: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    result = ccp_demo("--output", tmp_path / "file" / "demo.png")
    assert isinstance(result.exception, CcpError)
    assert result.exception.slug == "demo.cannot_write"
    assert "95.2" in result.stdout


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
