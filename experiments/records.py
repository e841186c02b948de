"""JSON files of results in the repository, with one line per record."""

from __future__ import annotations

import json
from typing import Any


def dumped(document: dict[str, Any]) -> str:
    """Return a document as JSON with one line per record, and a final newline.

    A record is a member of a list of containers, or of an object with only containers. A container of records
    has a line for each of its members; everything else takes one line.
    """
    return _lines(document, "") + "\n"


def _lines(value: Any, indent: str) -> str:
    inner = indent + " "
    if isinstance(value, dict):
        members = [f"{inner}{json.dumps(name)}: {_member(member, inner)}" for name, member in value.items()]
        begin, end = "{}"
    else:
        members = [f"{inner}{_member(member, inner)}" for member in value]
        begin, end = "[]"
    return "\n".join([begin, ",\n".join(members), indent + end])


def _member(value: Any, indent: str) -> str:
    return _lines(value, indent) if _holds_records(value) else json.dumps(value)


def _holds_records(value: Any) -> bool:
    if not isinstance(value, dict | list | tuple) or not value:
        return False
    members = [*value.values()] if isinstance(value, dict) else value
    containers = [isinstance(one, dict | list | tuple) for one in members]
    every = all(containers) if isinstance(value, dict) else any(containers)
    return every or any(map(_holds_records, members))
