"""Runs on real sockets, done by a worker of a Dask cluster that has root; with a real scheduler."""

from __future__ import annotations

from pathlib import Path

from experiments.agent_process import PIN_DIR
from experiments.netlab.spec import Direction
from experiments.runs.grid import Grid
from experiments.scenario import FlowSpec, PointToPoint, Scenario
from experiments.sweep import sweep
from tests.unit.experiments.dask_here import scheduler


def test_a_worker_with_root_does_runs_on_real_sockets_and_leaves_no_program(tmp_path: Path) -> None:
    flows = tuple(
        FlowSpec(name.rpartition("/")[2], "sender", "receiver", name) for name in ("kernel/cubic", "reno")
    )
    link = Direction(rate_bytes_per_s=2.5e6, delay_us=5_000)
    grid = Grid(Scenario(name="away", topology=PointToPoint(link), flows=flows, duration_s=2), {"seed": [1]})
    with scheduler(tmp_path) as here:
        here.workers(1)  # may only simulate
        here.workers(1, "--resources", "kernel=1")
        (result,) = sweep(grid, out=tmp_path / "out", on=here.place)
        assert result.complete
        assert result.metadata["datapath"] == "ebpf"
        assert set(result.flow_samples["flow"]) == {"cubic", "reno"}
        assert result.flow_samples.groupby("flow")["bytes_acked"].max().min() > 100_000
        assert not Path(PIN_DIR).exists() or list(Path(PIN_DIR).iterdir()) == []
