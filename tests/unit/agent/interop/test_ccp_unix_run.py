"""`ccp run --datapath ccp:unix` without root, and commands that observe it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ccplane.agent import cli
from ccplane.agent.agent_view import view_of
from ccplane.agent.client import Client
from ccplane.agent.monitor.loop_source import open_source
from ccplane.datapath.wire import Create, Install, Ready, messages
from experiments.agent_process import ccp, running_agent
from tests.kernel.driving import wait_until


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "portus"
    command = ccp("run", "reno", "--datapath", "ccp:unix", "--bind", str(path))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        greeting = process.stdout.readline()
        assert "reno loaded, waiting for datapaths at" in greeting, greeting
        try:
            yield path
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        assert "stopped; 1 flows" in process.stdout.read()
    assert not path.exists()


def invoked(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, list(arguments))


def test_others_see_and_change_what_it_runs(agent: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
        peer.bind(str(tmp_path / "peer"))
        peer.settimeout(30)
        ends = (0x0100000A, socket.htons(40_000), 0x0200000A, socket.htons(5001))
        peer.sendto(Ready(1).to_bytes() + Create(3, 14_480, 1448, *ends, "").to_bytes(), str(agent))
        assert [type(one) for one in messages(peer.recv(65_536))] == [Install]
        view = view_of(str(agent))
        wait_until(lambda: len(view.flows()) == 1)
        (stats,) = view.all_stats()
        assert (stats.cwnd_bytes, stats.fallback) == (14_480, False)
        said = invoked("flows", "--json", "--interval", "0.01", "--pin-dir", str(agent))
        (row,) = json.loads(said.stdout)["flows"]
        assert (row["src"], row["dst"], row["steered_by"]) == (
            "10.0.0.1:40000",
            "10.0.0.2:5001",
            "reno/default",
        )
        source = open_source(str(agent))
        assert source.inside(row["flow_id"]).algorithm == "reno"
        source.close()
        done = invoked("set", "beta=0.6", "--pin-dir", str(agent))
        assert "set for 1 running flow" in done.stdout
        with Client(pin_dir=str(agent)) as client:
            assert client.params["reno.beta"] == 0.6


@pytest.mark.parametrize(
    ("arguments", "slug", "says"),
    [
        (["--datapath", "ccp:unx"], "datapath.unknown", "ccp:unix"),
        (["--datapath", "sim"], "datapath.unknown", "cannot use the datapath `sim`"),
        (
            ["--datapath", "ccp:unix", "--unload", "--max-flows", "3"],
            "datapath.option",
            "--max-flows, --unload",
        ),
        (["--bind", "x"], "datapath.option", "the datapath `ebpf` does not have the option --bind"),
    ],
)
def test_what_means_nothing_is_refused(arguments: list[str], slug: str, says: str) -> None:
    command = ccp("run", "reno", *arguments)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "200"}
    )
    assert done.returncode != 0
    assert slug in done.stderr
    assert says in done.stderr


def test_a_program_that_does_not_fit_is_refused_before_a_flow_comes(tmp_path: Path) -> None:
    command = ccp("run", "int_cubic", "--datapath", "ccp:unix", "--bind", str(tmp_path / "a"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "no field `Int." in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "a").exists()


EXITS = """
import sys

from ccp_algs import Algorithm


class Exits(Algorithm):
    program = "(def (Report (acked 0))) (when true (:= Report.acked Ack.bytes_acked) (report))"

    def on_create(self, info):
        if info.dst_port == 5001:
            sys.exit()

    def on_report(self, report):
        pass
"""


def test_an_algorithm_that_exits_does_not_end_the_agent(tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text(EXITS)
    path = tmp_path / "portus"
    with (
        running_agent(str(tmp_path / "exits.py"), "--datapath", "ccp:unix", bind=path) as agent,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer,
    ):
        peer.bind(str(tmp_path / "peer"))
        said = Ready(1).to_bytes()
        for flow, port in ((3, 5001), (4, 5002)):
            said += Create(
                flow, 14_480, 1448, 0x0100000A, socket.htons(40_000), 0x0200000A, socket.htons(port), ""
            ).to_bytes()
        peer.sendto(said, str(path))
        with Client(pin_dir=str(path)) as client:
            wait_until(lambda: len(client.flows()) == 2)
            failed = client.flows().set_index("dst_port")["failed"].to_dict()
        assert failed == {5001: True, 5002: False}
        assert agent.running
        assert "2 flows" in agent.stop()
