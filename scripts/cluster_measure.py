"""A thousand simulated runs over four Dask workers, one of which is killed, and the same in one process.

    python -m scripts.cluster_measure       # docs/results/cluster.json

Both give the same files, or this ends with an error. Scheduler and workers are processes of this machine.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from ccp_base.errors import CcpError
from experiments import records
from experiments.netlab.spec import Buffer, Direction
from experiments.results import ResultSet
from experiments.runs.build import ROOT, this_build
from experiments.runs.grid import Grid
from experiments.runs.metadata import gathered
from experiments.runs.planned import PlannedRun
from experiments.runs.reports import Screen
from experiments.scenario import Dumbbell, Flow, Scenario
from experiments.sweep import sweep
from tests.unit.experiments.dask_here import left, scheduler, workers_of

RESULT: Final = ROOT / "docs/results/cluster.json"
WORKERS: Final = 4
KILLED_AFTER: Final = 200
"""How many runs are done when a worker is killed."""
BASE: Final = Scenario(
    name="two flows",
    topology=Dumbbell(2, Direction(rate_bytes_per_s=1.25e6, delay_us=10_000, buffer=Buffer(bdp=1))),
    flows=(Flow("theirs", "s1", "r1", "kernel/cubic"), Flow("ours", "s2", "r2", "cubic")),
    duration_s=1,
    datapath="sim",
)
SENT: Final = str(ROOT / "ccp_algs/example_aimd.py")
"""An algorithm that is sent to the workers as a file."""


def grid(seeds: int) -> Grid:
    """Return what is run: 100 points, each with so many seeds."""
    axes: dict[str, Any] = {
        "flows.ours.algorithm": ["kernel/cubic", "kernel/reno", "kernel/bbr", "cubic", SENT],
        "links.bottleneck.forward.rate_bytes_per_s": [0.625e6, 1.25e6, 2.5e6, 5e6],
        "links.bottleneck.forward.delay_us": [5_000, 10_000, 20_000, 40_000, 80_000],
    }
    return Grid(BASE, axes, "a thousand runs", repeats=seeds)


class Killing(Screen):
    """Shows progress, and kills a worker that is in the middle of a run."""

    def __init__(self, client: Any, victim: Any, address: str) -> None:
        super().__init__()
        self._client, self._victim, self._address = client, victim, address
        self._done = 0

    def done(self, run: PlannedRun, error: CcpError | None) -> None:
        """Count it."""
        super().done(run, error)
        self._done += 1
        if self._done == KILLED_AFTER:
            while not self._client.processing()[self._address]:
                time.sleep(0.001)
            self._victim.kill()
            self._victim.wait()


def processor_s() -> float:
    """Return the processor time of this process, and of those that it has waited for [s]."""
    return sum(os.times()[:4])


def measure(seeds: int) -> dict[str, Any]:
    """Run both, compare, and return what there is to keep."""
    swept = grid(seeds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begun_s, used_s = time.monotonic(), processor_s()
        near = sweep(swept, out=folder / "near", report=Screen())
        alone = figures(near, time.monotonic() - begun_s, processor_s() - used_s)
        (folder / "dask").mkdir()
        used_s = processor_s()
        with scheduler(folder / "dask") as here, here.client() as client:
            (victim,) = here.workers(1, "--name", "victim")
            here.workers(WORKERS - 1)
            (address,) = [at for at, told in workers_of(client).items() if told["name"] == "victim"]
            begun_s = time.monotonic()
            away = sweep(swept, out=folder / "away", on=here.place, report=Killing(client, victim, address))
            took_s = time.monotonic() - begun_s
        shared = figures(away, took_s, processor_s() - used_s)
        files = left(folder / "near"), left(folder / "away")
    digest = hashlib.sha256()
    for path, content in sorted(files[0].items()):
        digest.update(f"{path}\0{hashlib.sha256(content).hexdigest()}\0".encode())
    return {
        "command": f"python -m scripts.cluster_measure --seeds {seeds}",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "ccplane": str(this_build()),
        "machine": gathered(BASE)["machine"] | {"processors": len(os.sched_getaffinity(0))},
        "workers": WORKERS,
        "killed_after_runs": KILLED_AFTER,
        "runs": len(near.planned),
        "files": len(files[0]),
        "files_that_differ": sum(files[0].get(path) != files[1].get(path) for path in {*files[0], *files[1]}),
        "files_sha256": digest.hexdigest(),
        "one_process": alone,
        "cluster": shared,
    }


def figures(results: ResultSet, took_s: float, used_s: float) -> dict[str, float]:
    """Return what there is to say of a sweep, and of what else the machine did."""
    return {
        "done": len(results),
        "took_s": round(took_s, 1),
        "processor_s": round(used_s, 1),
        "load_average_5_min": round(os.getloadavg()[1], 1),
    }


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m scripts.cluster_measure", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="of each of the 100 points")
    found = measure(parser.parse_args().seeds)
    print(records.dumped(found))
    assert found["files_that_differ"] == 0
    assert found["cluster"]["done"] == found["one_process"]["done"] == found["runs"]
    RESULT.write_text(records.dumped(found))


if __name__ == "__main__":
    main()
