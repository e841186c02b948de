"""Experiments as users run them: scenarios on real sockets, and sweeps that are killed or interrupted."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ccplane.base.errors import CcpError, LangError
from experiments.agent_process import PIN_DIR
from experiments.errors import RunError
from experiments.events import SetLink, SetParam
from experiments.netlab.cpu import CpuSeconds, cpu_counts
from experiments.netlab.lab import list_namespaces
from experiments.netlab.spec import Direction
from experiments.processes import Process, running
from experiments.results import Result, ResultSet
from experiments.run import run
from experiments.scenario import Dumbbell, FlowSpec, PointToPoint, Scenario
from experiments.traffic import Http, Iperf3

# As the installed command `ccp`, which finds `experiment` by its entry point.
CCP = """
from ccplane.agent import cli, entry
from ccplane.agent.front import Entry
cli.plugins = lambda: {"experiment": Entry("experiment", "experiments.commands:app")}
entry.main()
"""
TIMEOUT_S = 300
KERNELS_OWN = pytest.mark.kernel(struct_ops=False)
"""For experiments with the kernel's own algorithms only."""
LINK = Direction(rate_bytes_per_s=2.5e6, delay_us=5_000)
GRID = """
name: a few
base:
  name: short
  topology: {kind: point_to_point, forward: {rate_bytes_per_s: 2.5e6, delay_us: 5000}}
  flows: [{name: flow, sender: sender, receiver: receiver, algorithm: kernel/cubic}]
  duration_s: 1
axes:
  flows.flow.algorithm: [kernel/cubic, cubic]
  links.link.forward.delay_us: [5000, 10000]
repeats: 2
"""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", CCP, "experiment", *(str(one) for one in arguments)]


def one_flow(algorithm: str = "kernel/cubic", **changes: object) -> Scenario:
    flow = FlowSpec("flow", "sender", "receiver", algorithm)
    scenario = Scenario(name="one flow", topology=PointToPoint(LINK), flows=(flow,), duration_s=2)
    return scenario.replace(**changes)


def congestion_controls() -> list[str]:
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def commands() -> Iterator[tuple[Process, str]]:
    """Yield each process and its command; one that ends while it is read is left out."""
    for process in running().values():
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        yield process, b" ".join(words).decode(errors="replace")


def children_of(pid: int) -> list[str]:
    """Commands of the processes that a process started, and of those whose parent died and that are ours."""
    return [
        command
        for process, command in commands()
        if process.parent == pid or "experiments.runs.steering_process" in command
    ]


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not reached():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s
        time.sleep(0.02)


def nothing_is_left_of(pid: int, out: Path) -> None:
    assert [found for found in list_namespaces() if found.pid == pid] == []
    assert children_of(pid) == []
    assert [one.name for one in out.iterdir() if one.name.startswith(".")] == []
    assert not Path(PIN_DIR).exists()
    assert "ccp" not in congestion_controls()


# --- single runs -------------------------------------------------------------------------------------------


def test_flows_of_the_kernel_and_of_ccplane_in_one_run(tmp_path: Path) -> None:
    scenario = Scenario(
        name="both",
        topology=Dumbbell(2, Direction(rate_bytes_per_s=5e6, delay_us=10_000)),
        flows=(
            FlowSpec("theirs", "s1", "r1", "kernel/reno", traffic=Iperf3(parallel=2)),
            FlowSpec("ours", "s2", "r2", "cubic", start_s=0.5, family="ipv6"),
        ),
        duration_s=3,
    )
    result = run(scenario, tmp_path / "both")
    flows = result.flows.set_index("flow")
    assert list(flows["congestion"]) == ["reno", "ccp.cubic"]
    assert list(flows["connections"]) == [2, 1]
    assert flows["start_s"]["ours"] >= 0.5
    sent_bytes = (flows["goodput_bytes_per_s"] * (3 - flows["start_s"])).sum()  # one of them begins later
    assert 3 * 1e6 < sent_bytes <= 3 * 5e6
    assert (flows["min_rtt_us"] >= 20_000).all()
    samples = result.flow_samples
    assert len(samples) > 2 * 15
    assert (samples["t_s"] >= 0).all()
    assert samples["cwnd_bytes"].min() > 0
    links = result.link_samples.set_index("link")
    assert {"bottleneck>", "access-s1<"} <= set(links.index)
    assert links.loc["bottleneck>", "delivered_bytes"].max() > flows["bytes_acked"].sum()
    assert list(result.events["kind"]) == ["flow_start", "flow_start", "flow_end", "flow_end"]
    assert result.metadata["agent"]["reports"] > 0
    assert result.metadata["ccplane"]["algorithms"].keys() == {"cubic"}
    assert "ccp" not in congestion_controls()


def test_one_algorithm_with_two_sets_of_parameters_that_change(tmp_path: Path) -> None:
    link = Direction(rate_bytes_per_s=5e6, delay_us=10_000)
    flows = [FlowSpec(f"f{n}", f"s{n}", f"r{n}", "cubic", {"beta": 0.4 + n / 10}) for n in (1, 2)]
    scenario = Scenario(
        name="params",
        topology=Dumbbell(2, link),
        flows=tuple(flows),
        events=(SetParam(1.0, "beta", 0.9, flow="f2"),),
        duration_s=2,
    )
    result = run(scenario)
    assert list(result.flows["congestion"]) == ["ccp.cubic", "ccp.cubic_2"]
    (event,) = [row for row in result.events.to_dict("records") if row["kind"] == "set_param"]
    assert event["t_s"] >= 1.0
    assert json.loads(event["detail"])["flows"] == ["f2"]
    assert result.metadata["agent"]["flows_failed"] == 0


@KERNELS_OWN
def test_a_link_that_changes_is_felt() -> None:
    slow = SetLink(2.0, "link>", {"rate_bytes_per_s": 5e5})
    result = run(one_flow(events=(slow,), duration_s=4))
    rate = result.flow_samples.set_index("t_s")["goodput_bytes_per_s"]
    assert rate[1.0:2.0].mean() > 1e6
    assert rate[3.0:4.0].mean() < 6e5


@KERNELS_OWN
def test_downloads_have_a_row_each() -> None:
    flow = FlowSpec("web", "sender", "receiver", "kernel/cubic", traffic=Http((20_000, 50_000), repeat=3))
    result = run(one_flow(flows=(flow,), duration_s=30))
    assert list(result.objects["size_bytes"]) == [20_000, 50_000] * 3
    assert (result.objects["completion_s"] > 0.01).all()
    assert result.flows["completion_s"].notna().all()
    assert result.metadata["wall_s"] < 30  # a run ends when there is nothing to come


# --- runs that fail ----------------------------------------------------------------------------------------


def test_an_algorithm_that_does_not_compile_is_reported(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from ccp_algs import Algorithm\n\nclass Mine(Algorithm):\n"
        '    program = "(def (Report (acked 0)))\\n(when true (:= Report.acked Ack.bytes_ackd))"\n\n'
        "    def on_report(self, report):\n        pass\n"
    )
    with pytest.raises(CcpError) as caught:
        run(one_flow(str(tmp_path / "mine.py")), tmp_path / "out")
    assert caught.value.slug == "lang.unknown_field"
    assert "mine.py:5" in caught.value.where
    assert not isinstance(caught.value, LangError)  # it came from another process
    assert not Result.load(tmp_path / "out.incomplete").complete
    nothing_is_left_of(os.getpid(), tmp_path)


def test_an_agent_that_dies_ends_the_run_and_the_log_is_kept(tmp_path: Path) -> None:
    def kill(what: str, at_s: float) -> None:
        if at_s > 0.5:
            for process, command in commands():
                if "experiments.runs.steering_process" in command:
                    os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(RunError) as caught:
        run(one_flow("cubic"), tmp_path / "out", progress=kill)
    assert caught.value.slug == "run.agent"
    kept = Result.load(tmp_path / "out.incomplete")
    assert kept.metadata["error"]["slug"] == "run.agent"
    assert len(kept.flow_samples) > 0
    nothing_is_left_of(os.getpid(), tmp_path)


# --- many runs ---------------------------------------------------------------------------------------------


@pytest.mark.timeout(TIMEOUT_S)
def test_a_sweep_that_was_killed_goes_on_with_the_missing_runs(tmp_path: Path) -> None:
    grid, out = tmp_path / "grid.yaml", tmp_path / "out"
    grid.write_text(GRID)
    with subprocess.Popen(
        command("sweep", grid, "--out", out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as first:

        def in_the_middle() -> bool:
            there = (out / "sweep.json").exists() and len(ResultSet.load(out)) >= 5  # an agent steers the 6th
            return there and any(one.pid == first.pid for one in list_namespaces())

        wait_until(in_the_middle, first)
        first.kill()
        said = first.communicate()[1]
    assert "a few: 8 runs, 0 already done, 8 to do" in said
    there = ResultSet.load(out)
    n_done = len(there)
    assert 5 <= n_done < 8
    written = {result.directory: (result.directory / "metadata.json").stat().st_mtime_ns for result in there}

    again = subprocess.run(
        command("sweep", grid, "--out", out, "--json"), capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert again.returncode == 0, again.stderr
    assert f"8 runs, {n_done} already done, {8 - n_done} to do" in again.stderr
    said = " ".join(again.stderr.split())
    assert f"8 of 8 runs are done: {n_done} earlier, {8 - n_done} now; 0 missing" in said
    document = json.loads(again.stdout)
    assert (document["planned"], document["done"], document["failed"]) == (8, 8, [])
    results = ResultSet.load(out)
    assert results.missing == []
    for directory, mtime_ns in written.items():
        assert (directory / "metadata.json").stat().st_mtime_ns == mtime_ns, "it was run again"
    table = results.table()
    assert len(table) == 8
    assert (table["goodput_bytes_per_s"] > 5e5).all()
    assert table.groupby(results.axes)["seed"].nunique().eq(2).all()
    nothing_is_left_of(first.pid, out)


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 2)])
def test_an_interruption_leaves_finished_runs_and_nothing_else(
    tmp_path: Path, number: signal.Signals, jobs: int
) -> None:
    grid, out = tmp_path / "grid.yaml", tmp_path / "out"
    grid.write_text(GRID)
    with subprocess.Popen(
        command("sweep", grid, "--out", out, "--jobs", jobs, "--param", "flows.flow.params={}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as process:

        def in_the_middle() -> bool:
            return (out / "sweep.json").exists() and len(ResultSet.load(out)) >= 2

        wait_until(in_the_middle, process)
        process.send_signal(number)
        said = process.communicate(timeout=TIMEOUT_S)[1]
    assert process.returncode == 128 + number, said
    n_done = len(ResultSet.load(out))
    assert f"{n_done} of 8 runs are done: 0 earlier, {n_done} now" in " ".join(said.split())
    assert sorted(os.listdir(tmp_path)) == ["grid.yaml", "out"]
    assert len(os.listdir(out)) == n_done + 1
    nothing_is_left_of(process.pid, out)


@KERNELS_OWN
@pytest.mark.parametrize("look", [1, 2])
def test_an_interruption_while_the_machine_is_looked_at_leaves_nothing(
    look: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = itertools.count(1)

    def interrupted() -> CpuSeconds:
        if next(looks) == look:
            raise SystemExit(143)  # as a worker does on SIGTERM, wherever it is
        return cpu_counts()

    monkeypatch.setattr("experiments.disturbance.cpu_counts", interrupted)
    with pytest.raises(SystemExit):
        run(one_flow(duration_s=1), tmp_path / "interrupted")
    assert os.listdir(tmp_path) == []


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("n_runs", [4, pytest.param(20, marks=pytest.mark.long)])
def test_runs_in_a_row_leave_nothing_after(
    n_runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def there() -> dict[str, object]:
        return {
            "namespaces": [one.namespace for one in list_namespaces() if one.pid == os.getpid()],
            "devices": sorted(os.listdir("/sys/class/net")),
            "processes": children_of(os.getpid()),
            "files": len(os.listdir("/proc/self/fd")),
            "temporary": os.listdir(tmp_path),
            "pinned": Path(PIN_DIR).exists(),
            "registered": congestion_controls(),
        }

    run(one_flow(duration_s=1))  # opens what stays open: libraries, caches
    before = there()
    for number in range(n_runs):
        run(one_flow("cubic" if number % 4 == 0 else "kernel/cubic", duration_s=1))
    assert there() == before
