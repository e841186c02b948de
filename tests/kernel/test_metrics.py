"""An agent's metrics: over HTTP while flows run, and with a real Prometheus behind the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import ccplane.agent.metrics
from broker.options import BusOptions
from experiments.agent_process import running_agent
from experiments.netlab import Path as NetPath
from experiments.netlab.sockets import free_port
from telemetry.schema import ReceiverSignal
from tests.interop.test_brokers import speaking
from tests.kernel.driving import Start, wait_until
from tests.tasks import read_of_tasks

DASHBOARD = Path(ccplane.agent.metrics.__file__).with_name("dashboard.json")
SILENT = {"Exceptions of algorithms", "Rate limits of clients, median and 90 %"}
"""Panels that have nothing to show where all is well."""


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def test_an_agent_reports_of_the_clients_of_its_rate_limits(
    path_100mbit: NetPath, start_transfer: Start
) -> None:
    port = free_port()
    with running_agent("r_tcp_cubic", "--metrics", str(port)):
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=60)
        url = f"http://127.0.0.1:{port}/metrics"
        wait_until(lambda: 'ccplane_rate_limit_clients{state="unlimited"} 1.0' in get(url))
        text = get(url)
    assert "ccplane_rate_limit_max_clients 65536.0" in text
    assert "ccplane_rate_limit_no_room_total 0.0" in text
    assert 'ccplane_rate_limit_bytes_per_second_bucket{le="+Inf"} 0.0' in text


def test_a_running_agent_is_scraped_without_rights(path_100mbit: NetPath, start_transfer: Start) -> None:
    port = free_port()
    with running_agent("cubic", "--metrics", str(port)) as agent:
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=60)
        url = f"http://127.0.0.1:{port}/metrics"
        bucket = r'ccplane_flow_rtt_seconds_bucket\{algorithm="cubic",le="\+Inf"\} [1-9]'
        wait_until(lambda: re.search(bucket, get(url)))
        text = get(url)
        held = read_of_tasks(agent.pid, "status").values()
    assert 'ccplane_flows{algorithm="cubic"}' in text
    assert 'ccplane_heartbeat_silence_seconds_bucket{le="0.001"}' in text
    assert any("CapEff:\t0000000000000000" in status for status in held)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus: apt-get install prometheus")
def test_each_panel_of_the_dashboard_shows_what_prometheus_scraped(
    path_100mbit: NetPath, start_transfer: Start, tmp_path: Path
) -> None:
    port, broker, own = free_port(), free_port(), free_port()
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n"
        f"  - {{job_name: ccplane, static_configs: [{{targets: ['127.0.0.1:{own}']}}]}}\n"
    )
    with running_agent("cubic", "r_tcp_cubic", "--metrics", str(own), "--broker", f"embedded:{broker}"):
        checked = subprocess.run(
            ["promtool", "check", "metrics"],
            input=get(f"http://127.0.0.1:{own}/metrics"),
            capture_output=True,
            text=True,
        )
        prometheus = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={tmp_path}/prometheus.yml",
                f"--storage.tsdb.path={tmp_path}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=60)
            with speaking(BusOptions(port=broker), sender="recv") as bus:
                bus.publish(ReceiverSignal(peer=path_100mbit.sender.ipv4))
            time.sleep(15)
            panels = json.loads(DASHBOARD.read_text())["panels"]
            empty = [panel["title"] for panel in panels if not any(map(found(port), panel["targets"]))]
        finally:
            prometheus.terminate()
            prometheus.wait(30)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert set(empty) <= SILENT


def found(port: int) -> Any:
    """Return what says whether a panel's expression has a value."""

    def has(target: dict[str, str]) -> bool:
        expr = target["expr"].replace("$__rate_interval", "10s").replace("$job", ".*")
        query = urllib.parse.urlencode({"query": expr})
        values = json.loads(get(f"http://127.0.0.1:{port}/api/v1/query?{query}"))["data"]["result"]
        return any(value["value"][1] != "NaN" for value in values)

    return has
