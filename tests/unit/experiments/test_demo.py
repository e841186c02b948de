from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ccplane.base.errors import CcpError, LoadError, VerifierError
from ccplane.datapath import ebpf
from experiments.demo import command, where
from experiments.demo.command import app
from experiments.demo.picture import edit
from experiments.demo.runs import EDITED, LOSS_RATIO, MINE, RTT_US, RUNS, Transfer, scenario
from experiments.demo.where import Where, choose
from experiments.metrics import MetricError
from experiments.netlab import LabError
from tests.unit.experiments.test_plot_figures import flow_samples


def transfers() -> list[Transfer]:
    samples = flow_samples("flow")
    middle_s = float(samples["t_s"].median())
    return [
        Transfer(
            one,
            11.9e6 - 1e6 * i,
            0.5 + i,
            51_000.0 + 1000 * i,
            60_000.0,
            samples,
            middle_s if one.edited else None,
        )
        for i, one in enumerate(RUNS)
    ]


@pytest.fixture
def ccp_demo(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    for looks in ("must_be_able", "try_loading", "try_network"):
        monkeypatch.setattr(where, looks, lambda: None)
    monkeypatch.setattr(command, "measure", lambda seconds, datapath: transfers())
    return lambda *arguments: CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "100"})


def test_the_table_has_every_figure_with_its_unit(ccp_demo: Callable[..., Result], tmp_path: Path) -> None:
    result = ccp_demo("--out", tmp_path / "demo.png")
    assert result.exit_code == 0
    rows = [re.split(r"\s*│\s*", line.strip("│ ")) for line in result.stdout.splitlines() if "│" in line]
    assert rows[-5:] == [
        ["0.0%", "kernel CUBIC", "95.2", "0.50", "51.0", "60.0"],
        ["0.0%", "ccplane CUBIC", "87.2", "1.50", "52.0", "60.0"],
        ["0.5%", "kernel CUBIC", "79.2", "2.50", "53.0", "60.0"],
        ["0.5%", "lt_cubic", "71.2", "3.50", "54.0", "60.0"],
        ["0.5%", "mine.py", "8.0, then 8.0", "4.50", "55.0", "60.0"],
    ]
    for heading in ("goodput", "Mbit/s", "retransmitted", "%", "median RTT", "p95 RTT", "ms"):
        assert heading in result.stdout
    assert f"picture: {tmp_path}" in result.stdout


def test_json_has_the_same_figures_and_nothing_else_is_printed(
    ccp_demo: Callable[..., Result], tmp_path: Path
) -> None:
    result = ccp_demo("--json", "--out", tmp_path / "demo.png", "--seconds", 2)
    document = json.loads(result.stdout)
    assert document["seconds"] == 2
    assert (document["datapath"], document["kernel"]) == ("ebpf", os.uname().release)
    assert document["why_not_the_kernel"] is None
    assert document["plot"] == str(tmp_path / "demo.png")
    assert [(one["act"], one["algorithm"]) for one in document["transfers"]] == [
        (one.act, one.label) for one in RUNS
    ]
    assert document["transfers"][-1]["saved_s"] > 0
    assert document["transfers"][0]["goodput_bytes_per_s"] == 11.9e6
    assert document["transfers"][0]["samples"] == len(flow_samples("flow"))


def test_the_runs_differ_in_algorithm_and_loss_only() -> None:
    clean, *_, lossy = (scenario(one, 5) for one in RUNS)
    for one in RUNS:
        scenario(one, 5).validate()
    (clean_link,), (lossy_link,) = clean.network.links, lossy.network.links
    assert clean_link.forward.loss is None
    assert lossy_link.forward.loss.ratio == LOSS_RATIO
    assert lossy_link.back.loss is None
    assert clean_link.forward.delay_us + clean_link.back.delay_us == RTT_US


def test_figures_are_shown_when_the_plot_cannot_be_written(
    ccp_demo: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    result = ccp_demo("--out", tmp_path / "file" / "demo.png")
    assert isinstance(result.exception, CcpError)
    assert result.exception.slug == "result.cannot_write"
    assert "95.2" in result.stdout


def test_the_plot_has_no_other_format_than_figures_have(
    ccp_demo: Callable[..., Result], tmp_path: Path
) -> None:
    result = ccp_demo("--out", tmp_path / "demo.txt")
    assert isinstance(result.exception, MetricError)
    assert result.exception.slug == "plot.format"
    assert result.stdout == "", "nothing is measured before"


def test_an_edit_after_the_last_sample_leaves_one_goodput() -> None:
    late = replace(transfers()[-1], saved_s=1e6)
    assert late.goodput_by_version_bytes_per_s == (late.goodput_bytes_per_s,)


def test_the_plot_shows_the_line_that_is_edited(ccp_demo: Callable[..., Result], tmp_path: Path) -> None:
    old, new = edit()
    assert (old[0], new[0]) == ("-", "+")
    assert MINE.read_text().count(old[2:]) == EDITED.read_text().count(new[2:]) == 1
    ccp_demo("--out", tmp_path / "demo.svg")
    shown = html.unescape((tmp_path / "demo.svg").read_text())  # each text is a comment
    for line in (old, new):
        assert " ".join(line.split()[1:4]) in shown


MISSING = ebpf.Capability("btf", ok=False, required=True, detail="no /sys/kernel/btf", fix="another kernel")
OPTIONAL = ebpf.Capability("links", ok=False, required=False, detail="", fix="")


def fails(error: CcpError) -> Callable[[], None]:
    def look() -> None:
        raise error

    return look


def test_what_is_missing_is_said_when_the_kernel_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ebpf, "probe", lambda: [OPTIONAL, MISSING])
    with pytest.raises(LoadError) as caught:
        choose("ebpf")
    assert caught.value.slug == "load.missing"
    assert caught.value.why == "btf: no /sys/kernel/btf"
    assert caught.value.fix == "another kernel"


def test_a_network_that_is_not_permitted_is_reported_as_what_keeps_from_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ebpf, "probe", lambda: [OPTIONAL])
    monkeypatch.setattr(where, "try_loading", lambda: None)
    monkeypatch.setattr(where, "try_network", fails(LabError("lab.not_permitted", "cannot", fix="sudo")))
    with pytest.raises(LoadError) as caught:
        choose("ebpf")
    assert (caught.value.slug, caught.value.fix) == ("lab.not_permitted", "sudo")


def test_an_optional_capability_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ebpf, "probe", lambda: [OPTIONAL])
    monkeypatch.setattr(where, "try_loading", lambda: None)
    monkeypatch.setattr(where, "try_network", lambda: None)
    assert choose(None) == Where("ebpf")


@pytest.mark.parametrize(
    ("look", "error"),
    [
        ("must_be_able", LoadError("load.missing", "the demo cannot run here", why="no root", fix="sudo")),
        ("try_loading", LoadError("load.no_kernel_part", "no kernel part", why="no root", fix="sudo")),
        ("try_loading", VerifierError("verifier.refused", "too old", why="no root", fix="sudo")),
        ("try_network", LabError("lab.not_permitted", "cannot", why="no root", fix="sudo")),
        ("try_network", LabError("lab.no_tun", "no root", fix="sudo")),
    ],
)
def test_it_runs_in_the_simulator_when_something_keeps_it_from_the_kernel(
    monkeypatch: pytest.MonkeyPatch, look: str, error: CcpError
) -> None:
    for other in ("must_be_able", "try_loading", "try_network"):
        monkeypatch.setattr(where, other, lambda: None)
    monkeypatch.setattr(where, look, fails(error))
    found = choose(None)
    assert found == Where("sim", "no root", "sudo")
    lines = str(found).splitlines()
    assert "simulator" in lines[0]
    assert lines[1:] == ["  why  no root", "  fix  sudo"]


@pytest.mark.parametrize("slug", ["load.already_running", "load.no_native_module"])
def test_other_trouble_is_no_reason_for_the_simulator(monkeypatch: pytest.MonkeyPatch, slug: str) -> None:
    monkeypatch.setattr(where, "must_be_able", fails(LoadError(slug, "no")))
    with pytest.raises(LoadError) as caught:
        choose(None)
    assert caught.value.slug == slug


def test_nothing_is_looked_at_when_the_simulator_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, "must_be_able", fails(LoadError("load.missing", "no")))
    assert choose("sim") == Where("sim")
    assert str(Where("sim")).count("\n") == 0


def test_a_datapath_that_is_none_is_refused() -> None:
    with pytest.raises(CcpError) as caught:
        choose("simm")
    assert caught.value.slug == "demo.datapath"
    assert caught.value.fix == "did you mean `sim`?"


def test_everything_that_is_shown_says_that_it_was_simulated(
    ccp_demo: Callable[..., Result], tmp_path: Path
) -> None:
    table = ccp_demo("--out", tmp_path / "demo.svg", "--datapath", "sim").stdout
    assert "simulator" in table.splitlines()[0]
    assert "8 s each; simulated" in table
    assert "seed 1; simulated" in (tmp_path / "demo.svg").read_text()  # each text is a comment, too
    document = json.loads(ccp_demo("--out", tmp_path / "d.svg", "--datapath", "sim", "--json").stdout)
    assert (document["datapath"], document["kernel"]) == ("sim", None)
