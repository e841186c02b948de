from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ccp_algs.errors import RegistryError
from ccplane.base.errors import CcpError, ParamError, Several, UsageError
from experiments.demo import wifi
from experiments.demo.command import app
from experiments.metrics import MetricError
from experiments.mininet_wifi import ready, transfers
from experiments.mininet_wifi.chain import Chain, Port
from experiments.mininet_wifi.conditions import Conditions
from experiments.mininet_wifi.errors import WifiError
from experiments.mininet_wifi.findings import AIR_ID, WIRE_ID
from experiments.mininet_wifi.recipes import FIGURES, FREE, Recipe, Run, Variant, choose
from experiments.mininet_wifi.transfers import Transfer
from experiments.netlab import TcpInfo
from telemetry.schema import FlowId, IntHop, IntSummary

FLOW = FlowId(src="fd78:1::2", src_port=40_000, dst="fd78:2::2", dst_port=5201)


def look(t_s: float, acked_bytes: int) -> TcpInfo:
    return TcpInfo(
        time_s=100 + t_s,
        cwnd_bytes=14_280,
        srtt_us=210_000,
        min_rtt_us=200_000,
        bytes_acked=acked_bytes,
        retransmits_pkts=1,
    )


def summary(t_s: float, **fields: Any) -> IntSummary:
    reported: dict[str, Any] = {
        "flow": FLOW,
        "end_mono_us": round(1e6 * (100 + t_s)),
        "cwnd_bytes": 14_000,
        "received_pkts": 8,
        "lost_pkts": 3,
        "lost_link_pkts": 2,
        "lost_congestion_pkts": 1,
        "hops": (
            IntHop(node_id=WIRE_ID, queue_depth_pkts=4.0, queue_free_pkts=12.0, arrival_pkts_per_s=80),
            IntHop(node_id=AIR_ID, rssi_dbm=-30.0, data_rate_bytes_per_s=1_625_000),
        ),
    }
    return IntSummary(**reported | fields)


def transfer(run: Run, summaries: list[IntSummary] | None = None) -> Transfer:
    looks = [look(0.1 * i, 20_000 + 10_000 * i) for i in range(21)]
    given = [summary(0.05 + 0.1 * i) for i in range(20)] if summaries is None else summaries
    return Transfer(run, looks, given)


RUN = Run(Variant("kernel/cubic", "kernel/cubic"), 0.05)


def test_without_words_two_algorithms_run_side_by_side() -> None:
    recipe = choose(None)
    assert recipe == FREE
    assert [(one.variant.congestion, one.loss_ratio) for one in recipe.runs] == [
        ("cubic", 0.05),
        ("ccp.int_cubic", 0.05),
    ]
    assert recipe.steered == {"int_cubic": "int_cubic"}


def test_algorithm_parameters_loss_and_length_are_taken() -> None:
    words = ["kernel/reno", "int_cubic", "int_cubic"]
    recipe = choose(None, words, ["int_cubic.wireless_loss=mild", "increment=2"], loss_ratio=0.0, seconds=3)
    kernel, mine = recipe.runs
    assert (kernel.variant.congestion, dict(kernel.variant.params)) == ("reno", {})
    assert mine.variant.params == {"wireless_loss": "mild", "increment": "2"}
    assert (recipe.losses, recipe.seconds) == ((0.0,), 3)


def test_figures_compare_what_the_paper_compares() -> None:
    assert [one.label for one in FIGURES[6].variants] == ["kernel/cubic", "CUBIC New L1", "CUBIC New L2"]
    assert [one.params.get("wireless_loss") for one in FIGURES[6].variants] == [None, "keep", "mild"]
    assert [one.params.get("increment") for one in FIGURES[7].variants] == [None, 1, 2, 3]
    assert len(FIGURES[6].runs) == 9
    assert {one.algorithm for number in (4, 5) for one in FIGURES[number].variants} == {"kernel/cubic"}
    assert "queue_depth_pkts" in FIGURES[5].panels


def test_variants_of_one_algorithm_set_the_same_parameters() -> None:
    """Runs share an agent, so parameters must be reset between them."""
    for recipe in FIGURES.values():
        assert len({frozenset(one.params) for one in recipe.variants if not one.is_kernel}) <= 1


def test_a_figures_loss_and_algorithm_may_be_others() -> None:
    recipe = choose(4, ["int_cubic"], loss_ratio=0.1)
    assert [(one.variant.label, one.loss_ratio) for one in recipe.runs] == [("int_cubic", 0.1)]
    assert recipe.panels == FIGURES[4].panels
    assert choose(6, loss_ratio=0.1).losses == (0.1,)


@pytest.mark.parametrize(
    ("arguments", "kind", "slug"),
    [
        ((3,), WifiError, "wifi.no_figure"),
        ((6, ["cubic"]), WifiError, "wifi.fixed_algorithms"),
        ((7, [], ["increment=1"]), WifiError, "wifi.fixed_algorithms"),
        ((4, [], ["increment=1"]), ParamError, "param.unknown_params"),
        ((None, ["int_cubic"], ["incremnt=1"]), ParamError, "param.unknown_params"),
        ((None, ["int_cubic"], ["increment"]), ParamError, "param.syntax"),
        ((None, ["int_cubi"]), RegistryError, "registry.unknown"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[Any, ...], kind: type[CcpError], slug: str) -> None:
    with pytest.raises(kind) as caught:
        choose(*arguments)
    assert caught.value.slug == slug
    assert caught.value.fix


class Reported:
    name = "ap2"

    def __init__(self) -> None:
        self.commands: list[str] = []

    def run(self, args: list[str]) -> None:
        self.commands.append(" ".join(args))


def lossy(conditions: Conditions) -> str:
    host: Any = Reported()
    port = Port(host, "wlan0")
    Chain(port, port, port, port, host, "a", "b", conditions).lose(0.05)
    (command,) = host.commands
    return str(command)


def test_rate_and_delay_are_those_of_the_links() -> None:
    usual, long = Conditions(), Conditions(rate_bytes_per_s=6_250_000, delay_ms=500)
    assert usual.buffer_bytes == 25_000 == usual.bdp_bytes
    assert Conditions(delay_ms=0).buffer_bytes == 25_000
    assert long.buffer_bytes == 3_125_000
    assert lossy(usual).endswith("netem limit 1000 delay 200ms loss 5%")
    assert lossy(long).endswith("netem limit 4166 delay 500ms loss 5%")


def test_rows_have_one_clock() -> None:
    own = [summary(-0.5), summary(0.25), summary(0.31, hops=()), summary(9.0)]
    first, *rows = transfer(RUN, own).rows
    assert [round(row["t_s"] or 0, 6) for row in (first, *rows)] == [0, 0.75, 0.81]
    assert (first["cwnd_bytes"], first["bytes_acked"]) == (14_000, None)  # before the first socket sample
    assert [row["bytes_acked"] for row in rows] == [40_000, 50_000]
    assert (rows[0]["queue_depth_pkts"], rows[0]["rssi_dbm"], rows[0]["lost_link_pkts"]) == (
        4.0,
        -30.0,
        2,
    )
    assert rows[1]["queue_depth_pkts"] is None
    assert (rows[1]["cwnd_bytes"], rows[1]["srtt_us"]) == (14_000, 210_000)


def test_figures_are_of_socket_and_telemetry() -> None:
    figures = transfer(RUN).figures
    assert figures["goodput_bytes_per_s"] == pytest.approx(100_000)
    assert figures["rtt_p50_us"] == 210_000
    assert (figures["lost_pkts"], figures["lost_link_pkts"], figures["lost_congestion_pkts"]) == (
        60,
        40,
        20,
    )
    assert (figures["cwnd_bytes"], figures["queue_depth_pkts"]) == (14_000, 4.0)


def test_what_telemetry_did_not_report_is_missing_and_not_zero() -> None:
    figures = transfer(RUN, []).figures
    assert figures["lost_pkts"] is None
    assert figures["queue_depth_pkts"] is None
    assert figures["goodput_bytes_per_s"] == pytest.approx(100_000)


def test_a_flow_of_which_nothing_arrives_is_no_endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        running = True

        def read(self) -> None:
            return None

    monkeypatch.setattr(transfers, "TIMEOUT_S", 0.0)
    nothing: Any = Silent()
    with pytest.raises(WifiError) as caught:
        transfers._watch(nothing, nothing, 2)
    assert caught.value.slug == "wifi.no_data"


@pytest.fixture
def ccp_demo_wifi(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def measured(recipe: Recipe, conditions: Conditions, *, mininet_wifi: bool) -> list[Transfer]:
        return [transfer(run) for run in recipe.runs]

    monkeypatch.setattr(ready, "must_be_ready", lambda: None)
    monkeypatch.setattr(wifi, "_measured", measured)
    runner = CliRunner()
    return lambda *words: runner.invoke(app, ["wifi", *map(str, words)], env={"COLUMNS": "80"})


def test_the_table_has_every_figure_with_its_unit(
    ccp_demo_wifi: Callable[..., Result], tmp_path: Path
) -> None:
    result = ccp_demo_wifi("--out", tmp_path / "wifi.png", "--rate", 2)
    assert result.exit_code == 0, result.output
    rows = [re.split(r"\s*│\s*", line.strip("│ ")) for line in result.stdout.splitlines() if "│" in line]
    assert rows[-2:] == [
        ["5.0%", "kernel CUBIC", "0.800", "210", "14.0", "4.0", "40", "20"],
        ["5.0%", "int_cubic", "0.800", "210", "14.0", "4.0", "40", "20"],
    ]
    assert "2 Mbit/s, 200 ms" in result.stdout
    assert f"picture: {tmp_path}" in result.stdout
    assert len(result.stdout.partition("next:\n")[2].splitlines()) == 3


def test_json_has_the_rows_and_nothing_else_is_printed(
    ccp_demo_wifi: Callable[..., Result], tmp_path: Path
) -> None:
    result = ccp_demo_wifi("--json", "--figure", 6, "--out", tmp_path / "wifi.png", "--seconds", 2)
    document = json.loads(result.stdout)
    assert (document["figure"], document["seconds"], document["kernel"]) == (6, 2, os.uname().release)
    assert (document["rate_bytes_per_s"], document["delay_ms"]) == (125_000, 200)
    assert [(one["label"], one["loss_ratio"]) for one in document["transfers"]][:3] == [
        ("kernel/cubic", 0.0),
        ("CUBIC New L1", 0.0),
        ("CUBIC New L2", 0.0),
    ]
    assert document["transfers"][1]["params"] == {"wireless_loss": "keep"}
    assert len(document["transfers"][1]["rows"]) == 20


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        (None, ["congestion window", "goodput", "queue depth", "lost", "int_cubic", "5.0% loss"]),
        (4, ["congestion window", "lost", "kernel CUBIC", "2.0% loss"]),
        (5, ["congestion window", "queue depth", "0.0% loss", "room for 16 packets"]),
        (6, ["goodput", "CUBIC New L1", "CUBIC New L2", "loss towards the receiver"]),
        (7, ["congestion window", "smoothed RTT", "CUBIC New 3"]),
    ],
)
def test_each_figure_is_drawn(
    ccp_demo_wifi: Callable[..., Result], tmp_path: Path, figure: int | None, words: list[str]
) -> None:
    chosen = () if figure is None else ("--figure", figure)
    result = ccp_demo_wifi("--out", tmp_path / "wifi.svg", *chosen)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "wifi.svg").read_text()  # each text is also a comment
    assert [word for word in words if word not in text] == []
    assert "one run of each, in turn; mac80211_hwsim and hostapd" in text


def test_figures_are_shown_when_the_plot_cannot_be_written(
    ccp_demo_wifi: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    result = ccp_demo_wifi("--out", tmp_path / "file" / "wifi.png")
    assert isinstance(result.exception, CcpError)
    assert result.exception.slug == "result.cannot_write"
    assert "0.800" in result.stdout


def test_the_plot_has_no_other_format_than_figures_have(
    ccp_demo_wifi: Callable[..., Result], tmp_path: Path
) -> None:
    result = ccp_demo_wifi("--out", tmp_path / "wifi.txt")
    assert isinstance(result.exception, MetricError)
    assert result.exception.slug == "plot.format"
    assert result.stdout == "", "nothing is measured before"


@pytest.mark.parametrize("words", [["--loss", "5"], ["--rate", "0"], ["--seconds", "0"]])
def test_what_is_out_of_range_is_refused(ccp_demo_wifi: Callable[..., Result], words: list[str]) -> None:
    refused = ccp_demo_wifi(*words).exception
    assert isinstance(refused, UsageError)
    assert refused.slug == "option.out_of_range"


def test_options_of_the_other_demonstration_are_not_ignored() -> None:
    result = CliRunner().invoke(app, ["--json", "wifi"])
    assert isinstance(result.exception, UsageError)
    assert result.exception.slug == "demo.option_of_other"


def test_all_that_is_missing_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(ready, "MODULE", "no_such_module")
    monkeypatch.setattr(ready, "PROGRAMS", ("sh", "no-such-program"))
    with pytest.raises(Several) as caught:
        ready.must_be_ready()
    reported = {one.slug: one.fix for one in caught.value.errors}
    assert "sudo" in reported["wifi.not_root"]
    assert "lab.no_command" in reported
    assert set(reported) - {"wifi.not_root", "lab.no_command"} <= {"wifi.no_radios"}


def test_a_kernel_without_the_module_is_reported_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(ready, "MODULE", "no_such_module")
    monkeypatch.setattr(ready, "PROGRAMS", ())
    monkeypatch.setattr(ready, "which", lambda program, where: "/bin/false")
    with pytest.raises(WifiError) as caught:
        ready.must_be_ready()
    assert caught.value.slug == "wifi.no_radios"
    assert "make test-wifi" in caught.value.fix
