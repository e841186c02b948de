"""Running a scenario.

from experiments.run import run
from experiments.scenario import Scenario
from experiments.traffic.spec import UNCONTROLLED
from experiments.writing import cannot_write

result = run(Scenario.load("experiments/scenarios/two-flows.yaml"), out="out/two-flows")
print(result.flows)
"""

from __future__ import annotations

import datetime
import itertools
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ccplane.base.errors import CcpError, Collector
from ccplane.datapath import registry
from experiments.errors import RunError
from experiments.results import FORMAT, METADATA, SCENARIO, Result
from experiments.runs import metadata, places, tables
from experiments.runs.artifacts import made_into_tables
from experiments.runs.check import check_datapath
from experiments.runs.recording import Recording
from experiments.runs.session import Progress
from experiments.scenario import Scenario
from experiments.traffic.spec import UNCONTROLLED
from experiments.writing import cannot_write

Recorder = Callable[[Scenario, Recording, Path, Progress], None]
"""Runs a checked scenario, and fills the recording; it may leave files in the directory."""


def _on_sockets(scenario: Scenario, recording: Recording, directory: Path, progress: Progress) -> None:
    from experiments.runs import live  # Linux only; not needed by the simulator

    live.record(scenario, recording, directory, progress)


def _simulated(scenario: Scenario, recording: Recording, directory: Path, progress: Progress) -> None:
    from experiments.runs import sim

    sim.record(scenario, recording, directory, progress)


DATAPATHS: Final[dict[str, Recorder]] = {registry.EBPF: _on_sockets, registry.SIM: _simulated}
"""Datapath -> function that runs a scenario on it."""

_numbers: Final = itertools.count(1)


def run(
    scenario: Scenario,
    out: str | Path | None = None,
    *,
    datapath: str | None = None,
    progress: Progress | None = None,
    recorder: Recorder | None = None,
) -> Result:
    """Run a scenario to its end.

    Args:
        scenario: The scenario.
        out: Directory for the result; it must be empty or not exist. None keeps the result only in memory.
        datapath: Overrides the scenario's datapath.
        progress: Called now and then.
        recorder: Runs the scenario; None for the function in `DATAPATHS`.

    Raises:
        ScenarioError: If the scenario is invalid.
        Several: If several things are invalid.
        ResultError: `result.exists` or `result.cannot_write`.
        RunError: `run.datapath`, `run.agent`, `run.publisher`, `run.regimes`, `run.no_samples`,
            `run.wrong_congestion`. The incomplete result is kept as `OUT.incomplete`.
        LabError: If the network or the traffic failed; the same applies to the result.
        LoadError: If ccplane's algorithms cannot run here; likewise.
    """
    if datapath is not None:
        scenario = scenario.replace(datapath=datapath)
    scenario.validate()
    recorder = recorder or recorder_of(scenario)
    if out is None:
        name = f"ccplane-run-{next(_numbers)}"  # several threads may run simultaneously
        with places.scratch(Path(tempfile.gettempdir()) / name) as place:
            _fill(place, scenario, recorder, progress)
            return Result.in_memory(place)
    out = Path(out)
    places.must_be_free(out)
    with places.scratch(out) as place:
        try:
            _fill(place, scenario, recorder, progress)
        except Exception:
            if (place / METADATA).exists():
                places.keep(place, out)
            raise
        places.finish(place, out)
    return Result.load(out)


def recorder_of(scenario: Scenario) -> Recorder:
    """Return the function that runs a scenario.

    Raises:
        RunError: `run.datapath`.
    """
    check_datapath(scenario.datapath)
    return DATAPATHS[scenario.datapath]


def _fill(place: Path, scenario: Scenario, recorder: Recorder, progress: Progress | None) -> None:
    """Run, and write the result into a directory, even if the run fails."""
    facts = {"format": FORMAT, "complete": False, **metadata.gathered(scenario)}
    facts["started"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    begin_s = time.monotonic()
    recording = Recording(scenario.sample_interval_us)
    try:
        recorder(scenario, recording, place, progress or (lambda _what, _passed_s: None))
        judge(recording)
    except Exception as error:
        facts["error"] = error.as_dict() if isinstance(error, CcpError) else {"message": repr(error)}
        _write(place, scenario, recording, facts, begin_s)
        raise
    facts["complete"] = True
    _write(place, scenario, recording, facts, begin_s)


def _write(
    place: Path, scenario: Scenario, recording: Recording, facts: dict[str, Any], begin_s: float
) -> None:
    try:
        tables.write(recording, place)
        scenario.save(place / SCENARIO)
        facts |= {**recording.facts, "wall_s": round(time.monotonic() - begin_s, 3)}
        (place / METADATA).write_text(json.dumps(facts, indent=1))
        for pattern in made_into_tables():
            for file in place.glob(pattern):
                file.unlink()
    except OSError as error:
        raise cannot_write(place, error) from error


def judge(recording: Recording) -> None:
    """Check that the recording matches the scenario.

    Raises:
        RunError: `run.no_samples` or `run.wrong_congestion`.
        Several: If both errors occur, or several flows have errors.
    """
    problems = Collector()
    for flow in recording.flows:
        if flow.algorithm == UNCONTROLLED:
            continue  # no TCP socket
        with problems.check():
            last = recording.congestion_of(flow)
            if not last:
                raise RunError(
                    "run.no_samples",
                    f"no connection of flow `{flow.name}` was sampled",
                    f"flow {flow.name}",
                    "the flow sent nothing, or ended before its first sample",
                    "let the flow send more, or reduce sample_interval_us",
                )
            others = sorted(set(last.values()) - {flow.congestion} - flow.may_become)
            if others:
                raise RunError(
                    "run.wrong_congestion",
                    f"flow `{flow.name}` used {', '.join(others)} instead of {flow.congestion}",
                    f"flow {flow.name}",
                    "the kernel or the sending program chose another congestion control",
                    "`ccp doctor` lists the congestion controls of this kernel",
                )
    problems.finish()
