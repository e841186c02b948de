"""R-TCP in the kernel for the flows of a run, through `ccp rtcp attach`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from experiments.features.rtcp.names import NAME
from experiments.features.rtcp.params import wanted
from experiments.netlab import process
from experiments.runs.artifacts import reported
from experiments.runs.messages import Flows
from experiments.runs.program import Failure, Program
from experiments.runs.recording import Recording

if TYPE_CHECKING:
    from experiments.scenario import Scenario

ACKS: Final = "acks"
"""Directory of recorded ACKs in a result: one directory per flow, one file per connection."""
_FAILED: Final = Failure(
    "the run's R-TCP process failed",
    "run the command manually; it needs root, and only one R-TCP can be attached at a time",
)


def attach(lines: Path, *arguments: str) -> Program:
    """Start `ccp rtcp attach --json`; `wait_ready` waits until its congestion controls are available."""
    return Program(["rtcp", "attach", "--json", "--no-keep", *arguments], lines, _FAILED, emits=True)


@contextlib.contextmanager
def attached(
    scenario: Scenario, recording: Recording, directory: Path, progress: Callable[[str, float], None]
) -> Iterator[Program]:
    """Attach R-TCP for a `with` block, as the flows of a scenario require; yield the process.

    Raises:
        RunError: `run.feature`.
    """
    progress("attaching R-TCP", 0.0)
    program = attach(reported(directory, NAME), *arguments_of(scenario, directory))
    try:
        program.wait_ready()
        yield program
    finally:
        process.end([program.process])
        sort_acks(recording, directory / ACKS)


def sort_acks(recording: Recording, directory: Path) -> None:
    """Move the ACKs of each flow into a directory with the flow's name; other ACKs stay where they are."""
    flows = Flows(recording)
    for file in [*directory.glob("*.csv.gz")]:
        src, sport, dst, dport = file.name.removesuffix(".csv.gz").split("-")
        found = flows.flow_of((src, int(sport), dst, int(dport)))
        if found is not None:
            (directory / found[0]).mkdir(exist_ok=True)
            file.rename(directory / found[0] / file.name)


def arguments_of(scenario: Scenario, directory: Path) -> list[str]:
    """Return the arguments of `ccp rtcp attach` for a scenario that passed `problems`."""
    settings, records = wanted(scenario)
    found: list[str] = []
    for name, value in settings.items():
        found += ["--param", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    if records:
        found += ["--record", str(directory / ACKS)]
    return found
