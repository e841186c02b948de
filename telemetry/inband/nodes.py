"""What nodes mean by their numbers: the table that a sink reads their data by.

    7: {name: ap1}
    8: {name: router, queue_depth_unit: bytes}
    10: {name: ap2, queue_is_unlimited: true}

A node that writes ccplane's snapshot counts packets unless the table says otherwise. Of one that is not
listed and writes none, such as Linux's own, nobody knows what its queue depth means: it is left out of
summaries.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import yaml
from msgspec import Meta, Struct

from telemetry.inband.errors import InbandError

MAX_NODE_ID: Final = (1 << 56) - 1


class NodeInfo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is known of a node beforehand.

    Attributes:
        name: What people call it.
        queue_depth_unit: What its queue depth is measured in; None for packets if it writes our snapshot, and
            unknown if not.
        queue_is_unlimited: Whether its queue is known never to be full, though the node says nothing of it,
            as that of a radio behind a slower link. Else the cause of a loss is not known where it is.
    """

    name: str = ""
    queue_depth_unit: Literal["packets", "bytes"] | None = None
    queue_is_unlimited: bool = False


NodeTable = dict[Annotated[int, Meta(ge=0, le=MAX_NODE_ID)], NodeInfo]
"""Number of a node -> what is known of it."""


def node_table(data: Any) -> NodeTable:
    """Return the table in plain data: numbers and mappings, as YAML or JSON have them.

    Raises:
        InbandError: `int.bad_nodes`.
    """
    try:
        return msgspec.convert(data, NodeTable, strict=False)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        raise _bad(where.replace("`", ""), what) from None


def read_nodes(path: Path) -> NodeTable:
    """Return the table in a YAML file.

    Raises:
        InbandError: `int.bad_nodes`.
    """
    try:
        data = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise _bad(str(path), str(error)) from None
    return node_table({} if data is None else data)


def _bad(where: str, why: str) -> InbandError:
    return InbandError(
        "int.bad_nodes",
        "this is no table of nodes",
        where,
        why,
        "give a mapping such as `7: {name: ap1, queue_depth_unit: packets}`",
    )
