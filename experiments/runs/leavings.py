"""Files that a run leaves in its directory, by name; most of them become tables and go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from experiments.features import features
from experiments.netlab.inband import node_ids
from experiments.runs.check import ours_of
from experiments.runs.recording import IntFiles, RegimeFiles
from experiments.traffic.spec import TCP

if TYPE_CHECKING:
    from experiments.scenario import Scenario

AGENT_LOG: Final = "agent.log"
"""What the agent wrote."""
QUIC_AGENT_LOG: Final = "quic-agent.log"
"""What the agent of QUIC flows wrote."""
LINKS_CSV: Final = "links.csv"
"""Samples of the links."""

SUMMARIES: Final = "int_summaries.jsonl"
"""What sinks of in-band telemetry told."""
RECORDS: Final = "int_records.csv"
"""What they saw of every packet."""
DECISIONS: Final = "int_decisions.csv"
"""When algorithms had answered."""

_REGIMES: Final = "regimes-*.jsonl"
AGENT_REGIMES: Final = _REGIMES.replace("*", "agent")
"""What became of flows with their regimes."""


def made_into_tables() -> tuple[str, ...]:
    """Return the files of a run that its tables hold as well, as patterns."""
    return (
        LINKS_CSV,
        SUMMARIES,
        RECORDS,
        DECISIONS,
        _REGIMES,
        *(f"{one.name}-*.jsonl" for one in features()),
    )


def records_path(scenario: Scenario, directory: Path) -> Path | None:
    """Return where sinks of in-band telemetry write their records; None if they write none."""
    telemetry = scenario.network.telemetry
    return directory / RECORDS if telemetry is not None and telemetry.records else None


def int_files(scenario: Scenario, directory: Path) -> IntFiles | None:
    """Return what in-band telemetry leaves, and how to read it; None if there is none."""
    telemetry = scenario.network.telemetry
    if telemetry is None:
        return None
    names = [node.name for node in telemetry.nodes]
    return IntFiles(
        summaries=directory / SUMMARIES,
        records=records_path(scenario, directory),
        decisions=directory / DECISIONS,
        nodes=dict(zip(node_ids(telemetry), names, strict=True)),
    )


def tells_regimes(scenario: Scenario) -> bool:
    """Return whether anybody tells regimes apart, or follows them, outside of the agent."""
    return bool(scenario.receivers or scenario.switches)


def regime_files(scenario: Scenario, directory: Path) -> RegimeFiles | None:
    """Return the files in which it is told what happens to regimes; None if there are none."""
    if not tells_regimes(scenario):
        return None
    switches = [switch_lines(directory, one.host) for one in scenario.switches]
    return RegimeFiles(
        {one.host: receiver_lines(directory, one.host) for one in scenario.receivers},
        (directory / AGENT_REGIMES, *switches),
    )


def receiver_lines(directory: Path, host: str) -> Path:
    """Return the file in which the receiver agent of a host tells what it measures and decides."""
    return directory / _REGIMES.replace("*", f"receiver-{host}")


def switch_lines(directory: Path, host: str) -> Path:
    """Return the file in which what switches a host's sockets tells of them."""
    return directory / _REGIMES.replace("*", f"switch-{host}")


def reports(scenario: Scenario, directory: Path) -> dict[str, tuple[Path, ...]]:
    """Return the files in which features report what happens, by the name of the feature."""
    agent = bool(ours_of(scenario, (TCP,)))
    found = {}
    for feature in features():
        own = [reported(directory, feature.name)] if feature.serves(scenario) else []
        found[feature.name] = (
            *own,
            *([agent_events(directory, feature.name)] if agent and feature.events else []),
        )
    return found


def agent_events(directory: Path, feature: str) -> Path:
    """Return the file for the agent's events that a feature keeps."""
    return directory / f"{feature}-agent.jsonl"


def reported(directory: Path, feature: str) -> Path:
    """Return the file for what a feature reports of its own congestion controls."""
    return directory / f"{feature}-kernel.jsonl"
