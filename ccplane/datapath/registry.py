"""The registry of datapaths: their names, and what each can measure and set.

`ccp run --datapath`, scenarios, errors and the table in docs/datapaths.md use the registry. A module in
`ccplane/datapath/kinds` adds a feature's datapaths with a sequence `KINDS`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccplane.base.names import close_names

if TYPE_CHECKING:
    from ccplane.datapath.protocol import Datapath

EBPF: Final = "ebpf"
SIM: Final = "sim"


@dataclass(frozen=True, slots=True)
class Kind:
    """A datapath.

    Attributes:
        name: Its name.
        flows: Its flows.
        runs: Whether `ccp run` supports it.
        scenarios: Whether scenarios run on it.
        traffic: Kind of traffic in a scenario on real sockets that uses it; empty for none.
        needs: Requirements.
        measures: Primitives available to fold programs.
        sets: What an algorithm can set.
        programs: Limits of programs.
        alone: What controls its flows without an agent.
        socket: Default socket of the agent; None if it has none.
        opens: Opens the socket.
    """

    name: str
    flows: str
    runs: bool
    scenarios: bool
    needs: str
    measures: str
    sets: str
    programs: str
    alone: str
    traffic: str = ""
    socket: Path | None = None
    opens: Callable[[Path], Datapath] | None = None


_OWN: Final = (
    Kind(
        name=EBPF,
        flows="this kernel's TCP sockets",
        runs=True,
        scenarios=True,
        needs="root, a kernel with struct_ops",
        measures="all",
        sets="window, rate, registers, extensions",
        programs="1024 instructions, 64 registers of each kind",
        alone="the in-kernel fallback",
    ),
    Kind(
        name=SIM,
        flows="simulated TCP connections, in virtual time",
        runs=False,
        scenarios=True,
        needs="nothing",
        measures="all",
        sets="window, rate, registers, some extensions",
        programs="1024 instructions, 64 registers of each kind",
        alone="the fallback",
    ),
)


@cache
def kinds() -> Sequence[Kind]:
    """Return all datapaths: first the core's, then the features'."""
    package = f"{__package__}.kinds"
    found = pkgutil.iter_modules([str(Path(__file__).with_name("kinds"))])
    return [*_OWN, *(kind for module in found for kind in import_module(f"{package}.{module.name}").KINDS)]


def kind_of(name: str) -> Kind:
    """Return the datapath with an existing name."""
    return next(kind for kind in kinds() if kind.name == name)


def names(*, scenarios: bool) -> Sequence[str]:
    """Return the names of datapaths for scenarios, or else for `ccp run`."""
    return [kind.name for kind in kinds() if (kind.scenarios if scenarios else kind.runs)]


def refusal(name: str, *, scenarios: bool) -> tuple[str, str] | None:
    """Return the error and the fix for an unsupported name; None if it is supported."""
    known = names(scenarios=scenarios)
    if name in known:
        return None
    who = "scenarios" if scenarios else "`ccp run`"
    there_is = name in [kind.name for kind in kinds()]
    traffic = next((kind.traffic for kind in kinds() if kind.name == name), "")
    message = f"{who} cannot use the datapath `{name}`" if there_is else f"there is no datapath `{name}`"
    if scenarios and traffic:
        return (
            message,
            f"omit `datapath` (the default is `ebpf`), and set the traffic of its flows to `{traffic}`",
        )
    return message, close_names(name, known, "datapath")


def _in_scenarios(kind: Kind) -> str:
    if kind.scenarios:
        return "yes"
    return f"traffic `{kind.traffic}`" if kind.traffic else "no"


def table() -> str:
    """Return the table of all datapaths, in Markdown."""
    rows = [
        ("", [f"`{kind.name}`" for kind in kinds()]),
        ("flows", [kind.flows for kind in kinds()]),
        ("needs", [kind.needs for kind in kinds()]),
        ("primitives", [kind.measures for kind in kinds()]),
        ("algorithms can set", [kind.sets for kind in kinds()]),
        ("limits of programs", [kind.programs for kind in kinds()]),
        ("without an agent", [kind.alone for kind in kinds()]),
        ("`ccp run`", ["yes" if kind.runs else "`ccp simulate`" for kind in kinds()]),
        ("scenarios", [_in_scenarios(kind) for kind in kinds()]),
    ]
    lines = [f"| {' | '.join([name, *cells])} |" for name, cells in rows]
    lines.insert(1, "| --- " * (len(kinds()) + 1) + "|")
    return "\n".join(lines)
