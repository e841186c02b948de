"""`ccp run --datapath sim`: what it is told, and where the simulator's part of it is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import typer

from ccp_base.errors import Collector, UsageError

DATAPATHS: Final = "ccplane.datapaths"
"""Entry-point group of what runs algorithms on other datapaths than the kernel's: it is above `agent`."""
SIM: Final = "sim"

PATH_OPTIONS: Final = ("rate_mbit", "rtt_ms", "buffer_bdp", "loss", "seconds", "flows")
OPTIONS: Final = (*PATH_OPTIONS, "scenario", "seed", "out", "as_json")
_COMMON: Final = ("algorithm", "param", "datapath")


@dataclass(frozen=True, slots=True)
class SimOrder:
    """What to simulate.

    Attributes:
        algorithms: As scenarios name them: one flow each, or those for ccplane's flows of the scenarios.
        params: `NAME=VALUE` or `ALGORITHM.NAME=VALUE`.
        scenarios: Files of scenarios; a single path as below, if there are none.
        rate_mbit: Rate of the path [Mbit/s].
        rtt_ms: Its RTT without queues [ms].
        buffer_bdp: Its buffer, in bandwidth-delay products.
        loss: Share of packets that it loses at random.
        seconds: How long flows send [s].
        flows: How many of each algorithm.
        seed: Of all that is random; None: 1, or that of the scenario.
        out: Directory for the results; None keeps none.
        as_json: Print JSON instead of tables.
    """

    algorithms: Sequence[str]
    params: Sequence[str] = ()
    scenarios: Sequence[Path] = ()
    rate_mbit: float = 100.0
    rtt_ms: float = 50.0
    buffer_bdp: float = 1.0
    loss: float = 0.0
    seconds: float = 10.0
    flows: int = 1
    seed: int | None = None
    out: Path | None = None
    as_json: bool = False


def check_options(context: typer.Context, datapath: str) -> None:
    """See whether only options were given that mean something there.

    Raises:
        UsageError: `param.unknown`.
        Several: If there are more.
    """
    problems = Collector()
    for name in context.params:
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        why = _meaningless(name, datapath, with_scenario=bool(context.params["scenario"])) if given else ""
        with problems.check():
            if why:
                option = "--json" if name == "as_json" else "--" + name.replace("_", "-")
                message, fix = f"`{option}` has no meaning here", "leave it out"
                raise UsageError("param.unknown", message, f"--datapath {datapath}", why, fix)
    problems.finish()


def _meaningless(name: str, datapath: str, *, with_scenario: bool) -> str:
    """Return why an option has no meaning; empty if it has one."""
    if name in _COMMON:
        return ""
    if datapath != SIM:
        return f"it is about what is simulated (--datapath {SIM})" if name in OPTIONS else ""
    if name not in OPTIONS:
        return "a simulation touches no kernel, and has no agent that others could reach"
    return "the scenario says that" if with_scenario and name in PATH_OPTIONS else ""


def simulate(order: SimOrder) -> None:
    """Run a simulation, and print what came of it.

    Raises:
        UsageError: `command.broken`, if the simulator's part is not installed.
        CcpError: What is wrong with the order.
    """
    _found(SIM)(order)


def _found(datapath: str) -> Callable[[SimOrder], Any]:
    found = [entry for entry in metadata.entry_points(group=DATAPATHS) if entry.name == datapath]
    if not found:
        raise UsageError(
            "command.broken",
            f"what runs algorithms on the datapath `{datapath}` is not installed",
            f"entry point {datapath} of {DATAPATHS}",
            fix="install the package again",
        )
    run: Callable[[SimOrder], Any] = found[0].load()
    return run
