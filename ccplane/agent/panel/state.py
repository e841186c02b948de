"""State of the agent for the panel: algorithms, parameters, fields of reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccplane.agent.panel.samples import QUANTITIES
from ccplane.base.errors import CcpError, Several

if TYPE_CHECKING:
    from ccplane.agent.client import Client

Row = dict[str, Any]


def state_of(client: Client, flow: int | None, algorithm: str | None) -> Row:
    """Return the state, which changes rarely, as one message.

    Args:
        client: The agent.
        flow: Only parameters of this flow; None for all flows.
        algorithm: Only parameters of this algorithm.

    Raises:
        CcpError: If the agent does not answer, or has no such flow or algorithm.
    """
    status = client.status()
    params = client.get_params(None if flow is not None else algorithm, flow)
    return {
        "kind": "state",
        "address": client.address,
        "pid": status["pid"],
        "default": status["default"],
        "algorithms": [one["name"] for one in status["algorithms"]],
        "kinds": (status["telemetry"] or {}).get("kinds"),
        "params": [_shown(owner, row) for owner, rows in params.items() for row in rows],
        "quantities": [quantity._asdict() for quantity in QUANTITIES],
        "flow": flow,
    }


def _shown(owner: str, row: Row) -> Row:
    whole = isinstance(row["default"], int) and not isinstance(row["default"], bool)
    return {**row, "owner": owner, "full": f"{owner}.{row['name']}", "whole": whole}


def fields_of(client: Client, flows: list[Row]) -> list[str]:
    """Return the report fields of the running algorithms, from the last report of one flow of each."""
    found: dict[str, None] = {}
    asked: set[str] = set()
    for row in flows:
        if row["algorithm"] in asked or not row["reports"]:
            continue
        asked.add(row["algorithm"])
        try:
            report = client.flow(row["flow_id"])["report"]
        except CcpError:  # closed meanwhile
            continue
        found.update(dict.fromkeys(report["fields"] if report else ()))
    return list(found)


def plain_errors(error: CcpError) -> list[dict[str, str]]:
    """Return the fields of one or several errors as plain data."""
    singles = error.errors if isinstance(error, Several) else (error,)
    return [one.as_dict() for one in singles]
