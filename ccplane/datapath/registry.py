"""The datapaths that there are: their names, and what each can measure and set.

`ccp run --datapath`, scenarios and messages take the names from here, and docs/datapaths.md its table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ccplane.base.names import close_names

EBPF: Final = "ebpf"
SIM: Final = "sim"
CCP_UNIX: Final = "ccp:unix"
QUIC: Final = "quic"


@dataclass(frozen=True, slots=True)
class Kind:
    """A datapath.

    Attributes:
        name: Its name.
        flows: Where its flows are.
        runs: `ccp run` serves it.
        scenarios: Scenarios run on it.
        traffic: Kind of traffic by which flows of a scenario on real sockets are its; empty for none.
        needs: What it needs.
        measures: Primitives that fold programs may read.
        sets: What an algorithm may set.
        programs: How long programs may be.
        alone: What has its flows while no agent has.
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


KINDS: Final = (
    Kind(
        name=EBPF,
        flows="this kernel's TCP sockets",
        runs=True,
        scenarios=True,
        needs="root, a kernel with struct_ops",
        measures="all",
        sets="window, rate, registers, extensions",
        programs="1024 instructions, 64 registers of a kind",
        alone="the fallback law, in the kernel",
    ),
    Kind(
        name=SIM,
        flows="simulated TCP connections, in virtual time",
        runs=False,
        scenarios=True,
        needs="nothing",
        measures="all",
        sets="window, rate, registers, extensions that it has",
        programs="1024 instructions, 64 registers of a kind",
        alone="the fallback law",
    ),
    Kind(
        name=CCP_UNIX,
        flows="those of any datapath that is built on libccp 1.2, over Unix sockets",
        runs=True,
        scenarios=False,
        needs="the datapath, of the same user",
        measures="CCP's 15, and what is derived from them",
        sets="window below 1 GiB, rate below 4.3 GB/s, registers",
        programs="255 instructions, 110 registers of a kind, 8 programs at a time",
        alone="what the datapath does by itself",
    ),
    Kind(
        name=QUIC,
        flows="connections of quinn, with the crate `ccp-quic`, and of aioquic, with "
        "`ccplane.datapath.aioquic`",
        runs=True,
        scenarios=False,
        needs="the program, of the same user",
        measures="CCP's 15, and what is derived from them",
        sets="window, rate as a bound of the window, registers",
        programs="1024 instructions, 64 registers of a kind, 63 programs at a time",
        alone="quinn's CUBIC, one of aioquic's laws",
        traffic="quic",
    ),
)


def names(*, scenarios: bool) -> Sequence[str]:
    """Return the names of datapaths that `ccp run` serves, or that scenarios run on."""
    return [kind.name for kind in KINDS if (kind.scenarios if scenarios else kind.runs)]


def refusal(name: str, *, scenarios: bool) -> tuple[str, str] | None:
    """Return what is wrong with a name, and what to do; None if it is one.

    Args:
        name: What was asked for.
        scenarios: For a scenario; else for `ccp run`.
    """
    known = names(scenarios=scenarios)
    if name in known:
        return None
    who = "scenarios" if scenarios else "`ccp run`"
    there_is = name in [kind.name for kind in KINDS]
    traffic = next((kind.traffic for kind in KINDS if kind.name == name), "")
    message = f"{who} cannot use the datapath `{name}`" if there_is else f"there is no datapath `{name}`"
    if scenarios and traffic:
        return (
            message,
            f"leave `datapath` out (`ebpf`), and give its flows the traffic `{traffic}`",
        )
    return message, close_names(name, known, "datapath")


def _in_scenarios(kind: Kind) -> str:
    if kind.scenarios:
        return "yes"
    return f"traffic `{kind.traffic}`" if kind.traffic else "no"


def table() -> str:
    """Return the table of all datapaths, in Markdown."""
    rows = [
        ("", [f"`{kind.name}`" for kind in KINDS]),
        ("flows", [kind.flows for kind in KINDS]),
        ("needs", [kind.needs for kind in KINDS]),
        ("primitives", [kind.measures for kind in KINDS]),
        ("algorithms set", [kind.sets for kind in KINDS]),
        ("room for", [kind.programs for kind in KINDS]),
        ("without an agent", [kind.alone for kind in KINDS]),
        ("`ccp run`", ["yes" if kind.runs else "`ccp simulate`" for kind in KINDS]),
        ("scenarios", [_in_scenarios(kind) for kind in KINDS]),
    ]
    lines = [f"| {' | '.join([name, *cells])} |" for name, cells in rows]
    lines.insert(1, "| --- " * (len(KINDS) + 1) + "|")
    return "\n".join(lines)
