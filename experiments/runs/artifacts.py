"""Names of the files that a run writes to its directory; most are converted to tables and removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from experiments.features import features
from experiments.netlab.inband import node_ids
from experiments.runs.check import own_of
from experiments.runs.recording import IntFiles, RegimeFiles
from experiments.traffic.spec import TCP

if TYPE_CHECKING:
    from experiments.scenario import Scenario

AGENT_LOG: Final = "agent.log"
"""Log of the agent."""
QUIC_AGENT_LOG: Final = "quic-agent.log"
"""Log of the agent of QUIC flows."""
LINKS_CSV: Final = "links.csv"
"""Samples of the links."""

SUMMARIES: Final = "int_summaries.jsonl"
"""Summaries of telemetry sinks."""
RECORDS: Final = "int_records.csv"
"""Sinks' records of every packet."""
DECISIONS: Final = "int_decisions.csv"
"""Times at which algorithms reacted."""

_REGIMES: Final = "regimes-*.jsonl"
AGENT_REGIMES: Final = _REGIMES.replace("*", "agent")
"""Regimes and switches of flows."""


def made_into_tables() -> tuple[str, ...]:
    """Return patterns for the files of a run whose content is also in its tables."""
    return (
        LINKS_CSV,
        SUMMARIES,
        RECORDS,
        DECISIONS,
        _REGIMES,
        *(f"{one.name}-*.jsonl" for one in features()),
    )


def records_path(scenario: Scenario, directory: Path) -> Path | None:
    """Return the file for the sinks' records; None if sinks write no records."""
    telemetry = scenario.network.telemetry
    return directory / RECORDS if telemetry is not None and telemetry.records else None


def int_files(scenario: Scenario, directory: Path) -> IntFiles | None:
    """Return the files of in-band telemetry, and how to read them; None without telemetry."""
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


def publishes_regimes(scenario: Scenario) -> bool:
    """Return whether a scenario has receiver agents or switches."""
    return bool(scenario.receivers or scenario.switches)


def regime_files(scenario: Scenario, directory: Path) -> RegimeFiles | None:
    """Return the files with records of regimes; None if there are none."""
    if not publishes_regimes(scenario):
        return None
    switches = [switch_lines(directory, one.host) for one in scenario.switches]
    return RegimeFiles(
        {one.host: receiver_lines(directory, one.host) for one in scenario.receivers},
        (directory / AGENT_REGIMES, *switches),
    )


def receiver_lines(directory: Path, host: str) -> Path:
    """Return the file for the output of the receiver agent on a host."""
    return directory / _REGIMES.replace("*", f"receiver-{host}")


def switch_lines(directory: Path, host: str) -> Path:
    """Return the file for the output of the switch on a host."""
    return directory / _REGIMES.replace("*", f"switch-{host}")


def reports(scenario: Scenario, directory: Path) -> dict[str, tuple[Path, ...]]:
    """Return the report files of features, by the name of the feature."""
    agent = bool(own_of(scenario, (TCP,)))
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
    """Return the file for a feature's reports about the congestion controls that it added to the kernel."""
    return directory / f"{feature}-kernel.jsonl"
