from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import KilledWorker
from typer.testing import CliRunner

from ccp_algs.siblings import OWN
from ccplane.base.errors import CcpError, LoadError
from experiments.commands import app
from experiments.errors import SweepError
from experiments.events import Edit
from experiments.papers.commands import app as papers
from experiments.results import ResultSet
from experiments.runs import away, cluster
from experiments.runs.build import Build, this_build
from experiments.runs.cluster import Cluster, Worker, address_of
from experiments.runs.grid import Grid
from experiments.runs.planned import PlannedRun
from experiments.runs.reports import RunReport
from experiments.scenario import FlowSpec, Scenario
from experiments.sweep import sweep
from tests.unit.experiments.dask_here import ROOT, Here, left, scheduler, workers_of
from tests.unit.experiments.test_run import SCENARIO
from tests.unit.experiments.test_sim import one

GRID = Grid(one("kernel/cubic"), {"duration_s": [1, 2], "seed": [1, 2, 3]}, "far away")
ALGORITHM = (ROOT / "ccp_algs/example_aimd.py").read_text()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with scheduler(tmp_path_factory.mktemp("dask")) as started:
        started.workers(2)
        yield started


class Listens(RunReport):
    def __init__(self, at: int = 0, what: Callable[[], None] = lambda: None) -> None:
        self.done_keys: list[str] = []
        self.errors: list[CcpError] = []
        self._at, self._what = at, what
        self.begun = False

    def begin(self, *_: Any) -> None:
        self.begun = True

    def done(self, run: PlannedRun, error: CcpError | None) -> None:
        self.done_keys.append(run.key)
        self.errors += [error] if error else []
        if len(self.done_keys) == self._at:
            self._what()


def refused(place: str, out: Path, grid: Grid = GRID, **how: Any) -> SweepError:
    with pytest.raises(SweepError) as caught:
        sweep(grid, out=out, on=place, **how)
    assert caught.value.fix
    return caught.value


def test_results_are_what_they_would_be_here(here: Here, tmp_path: Path) -> None:
    assert len(sweep(GRID, out=tmp_path / "away", on=here.place)) == 6
    sweep(GRID, out=tmp_path / "near")
    assert left(tmp_path / "away") == left(tmp_path / "near")


def test_algorithms_and_what_they_import_are_sent_as_files(here: Here, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "first.py").write_text(f"import helper\n{ALGORITHM}")
    (mine / "second.py").write_text(ALGORITHM.replace("0.5, min=0.1", "0.7, min=0.1"))
    (mine / "helper.py").write_text("GAIN = 1\n")
    (mine / "rate.up").write_text("1\n2\n3\n")
    file = str(mine / "first.py")
    base = one(file, events=(Edit(at_s=0.5, algorithm=file, becomes=str(mine / "second.py")),))
    cellular = {"rate_bytes_per_s": None, "trace": str(mine / "rate.up"), "buffer": {"packets": 50}}
    link = {f"topology.forward.{name}": value for name, value in cellular.items()}
    grid = Grid(base, {"link": {"even": {"seed": 1}, "cellular": link}}, "mine")
    results = sweep(grid, out=tmp_path / "away", on=here.place)
    assert len(results) == 2, results.failed
    sweep(grid, out=tmp_path / "near")
    assert left(tmp_path / "away") == left(tmp_path / "near")
    assert set(results.table()["algorithm"]) == {file}


def test_a_file_is_the_same_algorithm_wherever_it_is(tmp_path: Path) -> None:
    run = Scenario.parse(one(str(ROOT / "ccp_algs/example_aimd.py")).plain())
    sent = away.needed([run])
    assert len(sent) == 1
    for place in ("a", "z"):  # sorted before and after ccplane's directory
        (tmp_path / place).mkdir()
        outcome = away.do(run.plain(), run.content_hash(), sent, tmp_path / place)
        assert outcome.error is None
        again = away.do(run.plain(), run.content_hash(), sent, tmp_path / place)
        assert again.files["flows.parquet"] == outcome.files["flows.parquet"]
        assert len(list((tmp_path / place).iterdir())) == 1


def test_a_run_that_fails_comes_back_with_what_there_is(here: Here, tmp_path: Path) -> None:
    late = Grid(
        one(flows=(FlowSpec("flow", "sender", "receiver", "kernel/cubic", start_s=1.9999),)), {"seed": [1]}
    )
    listens = Listens()
    results = sweep(late, out=tmp_path / "away", on=here.place, report=listens)
    assert [error.slug for error in listens.errors] == ["run.no_samples"]
    assert results.failed[0]["error"]["slug"] == "run.no_samples"


def test_what_is_done_is_not_done_again(here: Here, tmp_path: Path) -> None:
    out = tmp_path / "s"
    whole = sweep(GRID, out=out, on=here.place)
    gone = [run["key"] for run in whole.planned[:2]]
    for key in gone:
        shutil.rmtree(out / key)
    kept = {file: file.stat().st_mtime_ns for file in out.glob("*/metadata.json")}
    listens = Listens()
    assert len(sweep(GRID, out=out, on=here.place, report=listens)) == 6
    assert set(listens.done_keys) == set(gone)
    assert all(file.stat().st_mtime_ns == then for file, then in kept.items())
    assert len(sweep(GRID, out=out, on="dask://127.0.0.1:1")) == 6  # nothing to do: no connection


def test_an_interruption_keeps_what_is_done_and_takes_back_what_waits(here: Here, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(GRID, out=tmp_path / "s", on=here.place, report=Listens(2, interrupt))
    assert len(ResultSet.load(tmp_path / "s")) == 2
    with here.client() as client:
        assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0
    assert len(sweep(GRID, out=tmp_path / "s", on=here.place)) == 6


def test_a_worker_killed_loses_nothing(here: Here, tmp_path: Path) -> None:
    (victim,) = here.workers(1, "--name", "victim")
    with here.client() as client:
        (address,) = [at for at, reported in workers_of(client).items() if reported["name"] == "victim"]

        def kill() -> None:
            until_s = time.monotonic() + 30
            while not client.processing()[address] and time.monotonic() < until_s:
                time.sleep(0.002)
            victim.kill()

        grid = Grid(one("cubic"), {"duration_s": [2], "seed": list(range(10))}, "killed")
        assert len(sweep(grid, out=tmp_path / "away", on=here.place, report=Listens(1, kill))) == 10
        assert victim.wait() == -9
    sweep(grid, out=tmp_path / "near")
    assert left(tmp_path / "away") == left(tmp_path / "near")


def test_runs_on_real_sockets_want_a_worker_with_root(here: Here, tmp_path: Path) -> None:
    grid = Grid(SCENARIO, {"seed": [1, 2, 3, 4]}, "sockets")
    assert refused(here.place, tmp_path / "s", grid).slug == "sweep.no_root"
    (worker,) = here.workers(
        1, "--resources", "kernel=1", "--preload", "tests.unit.experiments.kernel_stand_in"
    )
    try:
        assert len(sweep(grid, out=tmp_path / "s", on=here.place)) == 4
    finally:
        here.end(worker)


def test_a_worker_that_offers_real_sockets_without_root_is_refused() -> None:
    with pytest.raises(SweepError) as caught:
        cluster._check_root({"tcp://w:1": Worker(this_build(), False, 1.0)})
    assert (caught.value.slug, caught.value.where) == ("sweep.no_root", "tcp://w:1")


def test_another_ccplane_is_refused(here: Here, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for package in OWN - {"telemetry"}:
        (other / package).symlink_to(ROOT / package)
    shutil.copytree(ROOT / "telemetry", other / "telemetry")
    edited = other / "telemetry/errors.py"
    edited.write_text(edited.read_text() + "# edited\n")
    (worker,) = here.workers(1, cwd=other)
    try:
        error = refused(here.place, tmp_path / "s")
    finally:
        here.end(worker)
    assert error.slug == "sweep.other_version"
    assert "differences: Python modules;" in error.why
    assert len(ResultSet.load(tmp_path / "s")) == 0


def test_a_worker_that_joins_later_is_asked_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Scenario.parse(one().plain())
    worker = SimpleNamespace(address="tcp://late:1", local_directory=str(tmp_path))
    monkeypatch.setattr("distributed.get_worker", lambda: worker)
    with pytest.raises(SweepError) as caught:
        cluster.do(run.plain(), run.content_hash(), "of another build", {})
    assert (caught.value.slug, caught.value.where) == ("sweep.other_version", "tcp://late:1")
    done = cluster.do(run.plain(), run.content_hash(), this_build().digest, {})
    assert done.error is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "slug"),
    [
        (ModuleNotFoundError("No module named 'experiments'"), "sweep.other_version"),
        (ZeroDivisionError("what?"), "sweep.worker_failed"),
        (OSError("it has gone"), None),
    ],
)
def test_a_worker_that_cannot_say_what_it_has(
    here: Here, monkeypatch: pytest.MonkeyPatch, said: Exception, slug: str | None
) -> None:
    with Cluster(here.address) as connected:
        monkeypatch.setattr(connected._client, "run", lambda *_what, **_how: {"tcp://w:1": said})
        if slug is None:
            connected.check([])
        else:
            with pytest.raises(SweepError) as caught:
                connected.check([])
            assert caught.value.slug == slug
            assert str(said) in caught.value.why


def test_builds_differ_by_what_is_in_them() -> None:
    build = Build("1", "a", "b", "")
    assert build == Build("1", "a", "b", "a commit") != Build("1", "a", "c", "")
    assert build.digest != Build("1", "a", "c", "").digest
    assert build.differences(Build("2", "a", "c", "")) == "version, compiled part"


def test_an_installed_algorithm_that_is_another_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SweepError) as caught:
        away.do(one().plain(), "another hash", {}, tmp_path)
    assert caught.value.slug == "sweep.other_algorithm"


def test_none_there_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.5)
    listens = Listens()
    error = refused("dask://127.0.0.1:1", tmp_path / "s", report=listens)
    assert not listens.begun, "only the error is printed"
    assert error.slug == "sweep.unreachable"
    assert "tcp://127.0.0.1:1" in error.message


def test_a_scheduler_that_is_alone_or_dies_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cluster, "_WORKERS_S", 0.1)
    (tmp_path / "dask").mkdir()
    with scheduler(tmp_path / "dask") as lonely:
        assert refused(lonely.place, tmp_path / "s").slug == "sweep.no_workers"
        lonely.workers(1)
        monkeypatch.undo()
        error = refused(lonely.place, tmp_path / "s", report=Listens(2, lonely.end_scheduler))
    assert error.slug == "sweep.cluster_lost"
    assert 2 <= len(ResultSet.load(tmp_path / "s")) < 6


@pytest.mark.parametrize(
    "place", ["dask://somewhere", "dask://h:port", "ray://h:1", "h:8786", "dask://h:1/x"]
)
def test_what_is_no_place_is_reported(place: str, tmp_path: Path) -> None:
    assert refused(place, tmp_path / "s").slug == "sweep.bad_place"
    assert not (tmp_path / "s").exists()


def test_a_place_is_an_address_of_dasks() -> None:
    assert address_of("dask://host:8786") == "tcp://host:8786"
    assert address_of("dask+tls://[::1]:8786") == "tls://[::1]:8786"


def test_there_is_one_way_to_do_runs(tmp_path: Path) -> None:
    assert refused("dask://h:1", tmp_path / "s", jobs=2).slug == "sweep.two_places"


def test_what_a_worker_raises_is_reported(here: Here) -> None:
    def ended(error: Exception) -> Any:
        def result() -> None:
            raise error

        return SimpleNamespace(result=result)

    with Cluster(here.address) as connected:
        died = connected._outcome(ended(KilledWorker("run", SimpleNamespace(address=here.address), 3)))
        assert died.error is not None
        assert died.error["slug"] == "sweep.worker_died"
        with pytest.raises(SweepError) as caught:
            connected._outcome(ended(MemoryError("no more")))
    assert caught.value.slug == "sweep.worker_failed"
    assert "no more" in caught.value.why


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(LoadError) as caught:
        Cluster("tcp://127.0.0.1:1")
    assert caught.value.fix.endswith("pip install 'ccplane[cluster]'")


def test_dask_is_imported_only_for_a_cluster() -> None:
    code = (
        "import sys, experiments.sweep, experiments.runs.cluster, experiments.commands;"
        "print({'dask', 'distributed'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_commands_take_a_place(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one("kernel/reno").save("scenario.yaml")
    Path("grid.yaml").write_text("base: scenario.yaml\naxes: {seed: [1, 2]}\n")
    swept = CliRunner().invoke(app, ["sweep", "grid.yaml", "--on", here.place, "--json"])
    assert swept.exit_code == 0, (swept.output, swept.exception)
    assert json.loads(swept.stdout)["done"] == 2
    few = (
        "flex-cubic",
        "--quick",
        "--datapath",
        "sim",
        "--seconds",
        "1",
        "--repeats",
        "1",
        "--part",
        "fairness",
    )
    done = CliRunner().invoke(papers, [*few, "--on", here.place, "--out", "there", "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    (part,) = json.loads(done.stdout)["parts"].values()
    assert part["done"] == part["planned"]
