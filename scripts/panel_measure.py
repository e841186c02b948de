"""The notebook panel with 100 flows on real sockets, measured and pictured in a real browser (needs root).

    sudo .venv/bin/python -m scripts.panel_measure      # docs/images/panel.png, docs/results/panel/panel.json

Two iperf3 with 50 streams each share a bottleneck; one agent steers them, a receiver tells it what it
measures. JupyterLab shows the panel in headless Chromium, without a graphics processor. Each round counts
what was painted and sent, and the processor time of the notebook's kernel and of the agent.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from experiments.agent_process import ccp, running_agent
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Tally
from experiments.netlab import bottleneck, start_iperf3
from experiments.runs.steering import turn
from tests.notebooks.browser import PANEL, Server, open_and_run, page, write_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "docs/results/panel"
PICTURE: Final = ROOT / "docs/images/panel.png"
PIN_DIR: Final = "/sys/fs/bpf/ccplane-panel"
STREAMS: Final = 50
ALGORITHMS: Final = ("cubic", "bbr3")
RATE_BYTES_PER_S: Final = 12.5e6
BUFFER_BYTES: Final = 500_000
BROKER: Final = "127.0.0.1:18883"
FIELD: Final = "acked"
SHOWN_S: Final = 14.0
"""How long after the slider was moved the picture is taken [s]."""

CELLS: Final = (
    f"""from ccplane.agent import Client

client = Client(pin_dir={PIN_DIR!r})
panel = client.panel()
panel""",
    """import os, pathlib
_ = pathlib.Path("pid").write_text(str(os.getpid()))""",
)


def main() -> None:
    """Measure, take the picture, keep the figures."""
    parser = argparse.ArgumentParser(prog="python -m scripts.panel_measure", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a round")
    parser.add_argument("--only-picture", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    plan = Plan(asked.rounds, asked.rounds)
    if asked.only_picture:
        asked.rounds = 0
    options = {"flows": STREAMS * len(ALGORITHMS), "algorithms": list(ALGORITHMS), "seconds": asked.seconds}
    result = BenchResult("panel", plan, options)
    result.about["command"] = ["python", "-m", "scripts.panel_measure", *sys.argv[1:]]
    with _flows(round(4 * asked.rounds * asked.seconds + 120)) as agent_pid:
        _tally(
            result, "without a panel", [_agent_only(agent_pid, asked.seconds) for _ in range(asked.rounds)]
        )
        with tempfile.TemporaryDirectory() as folder, page() as shown:
            directory = Path(folder)
            write_notebook(directory / "panel.ipynb", CELLS)
            server = Server(directory)
            try:
                open_and_run(shown, server, "panel.ipynb")
                kernel_pid = int((directory / "pid").read_text())
                for title, quantity in (("totals", "cwnd_bytes"), ("reports", None)):
                    _choose(shown, quantity)
                    shown.wait_for_timeout(3000)
                    pids = {"kernel": kernel_pid, "agent": agent_pid}
                    _tally(result, title, [_round(shown, pids, asked.seconds) for _ in range(asked.rounds)])
                _take_picture(shown)
            finally:
                server.close()
    if result.metrics:
        print(result.keep(RESULTS))
    for name, metric in result.metrics.items():
        print(f"{name:32} {metric.value:10.3g} {metric.unit}")


@contextmanager
def _flows(duration_s: int) -> Iterator[int]:
    """Let flows send, and give the process of their agent."""
    arguments = [*ALGORITHMS, "--broker", f"embedded:{BROKER}"]
    with (
        turn(),
        bottleneck(RATE_BYTES_PER_S, BUFFER_BYTES) as path,
        running_agent(*arguments, pin_dir=PIN_DIR) as agent,
    ):
        receive = ccp("receive", "--peer", path.sender.ipv4, "--broker", f"mqtt://{BROKER}", "--json")
        netns = ["--netns", path.receiver.namespace]
        receiver = subprocess.Popen([*receive, *netns], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        transfers = [
            start_iperf3(
                path.sender, path.receiver, congestion=f"ccp.{name}", duration_s=duration_s, parallel=STREAMS
            )
            for name in ALGORITHMS
        ]
        time.sleep(5)
        try:
            yield agent.pid
        finally:
            for transfer in transfers:
                transfer.stop()
            receiver.terminate()
            receiver.wait(10)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _agent_only(pid: int, seconds: float) -> dict[str, tuple[float, str]]:
    began_s, cpu_s = time.monotonic(), _cpu_s(pid)
    time.sleep(seconds)
    return {"agent_cpu": (100 * (_cpu_s(pid) - cpu_s) / (time.monotonic() - began_s), "% of a processor")}


def _round(shown: Page, pids: dict[str, int], seconds: float) -> dict[str, tuple[float, str]]:
    def counts() -> dict[str, float]:
        data = f"document.querySelector('{PANEL}').dataset"
        painted, octets, messages = shown.evaluate(
            f"(d => [d.painted, d.octets, d.messages].map(Number))({data})"
        )
        cpu = {f"{name}_cpu": 100 * _cpu_s(pid) for name, pid in pids.items()}
        return {"updates": painted, "sent": octets, "messages": messages, **cpu, "at": time.monotonic()}

    units = {"updates": "painted/s", "sent": "bytes/s", "messages": "messages/s"}
    before = counts()
    shown.wait_for_timeout(1000 * seconds)
    after = counts()
    passed_s = after.pop("at") - before.pop("at")
    return {
        name: ((after[name] - before[name]) / passed_s, units.get(name, "% of a processor")) for name in after
    }


def _tally(result: BenchResult, title: str, rounds: list[dict[str, tuple[float, str]]]) -> None:
    if not rounds:
        return
    result.rounds[title] = Tally(len(rounds), 0)
    for name, (_, unit) in rounds[0].items():
        result.add(f"{name}.{title.replace(' ', '_')}", [one[name][0] for one in rounds], unit)


def _choose(shown: Page, quantity: str | None) -> None:
    choice = shown.get_by_label("quantity")
    choice.select_option(f"reported/{FIELD}" if quantity is None else quantity)


def _take_picture(shown: Page) -> None:
    _choose(shown, "cwnd_bytes")
    slider = shown.get_by_label("cubic.beta").first
    slider.fill("60")
    slider.blur()
    shown.wait_for_timeout(1000 * SHOWN_S)
    shown.set_viewport_size({"width": 1440, "height": 1500})
    shown.wait_for_timeout(1500)
    PICTURE.parent.mkdir(exist_ok=True)
    shown.locator(PANEL).first.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
