"""The table of nodes: how a sink interprets their data.

    7: {name: ap1}
    8: {name: router, queue_depth_unit: bytes}
    10: {name: ap2, queue_is_unlimited: true}

For nodes that write ccplane's snapshot, queue depths are in packets unless the table says otherwise. For
other nodes that are not listed, such as Linux's own, the unit of the queue depth is unknown, and summaries
omit it.
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
    """Prior knowledge about a node.

    Attributes:
        name: Display name.
        queue_depth_unit: Unit of its queue depth; None for packets if it writes ccplane's snapshot, else
            unknown.
        queue_is_unlimited: Whether its queue is known never to be full although the node does not report
            that, such as that of a radio after a slower link. Otherwise the cause of its losses is unknown.
    """

    name: str = ""
    queue_depth_unit: Literal["packets", "bytes"] | None = None
    queue_is_unlimited: bool = False


NodeTable = dict[Annotated[int, Meta(ge=0, le=MAX_NODE_ID)], NodeInfo]
"""Node number -> what is known of the node."""


def node_table(data: Any) -> NodeTable:
    """Convert plain data (a mapping from numbers to mappings) to a table of nodes.

    Raises:
        InbandError: `int.bad_nodes`.
    """
    try:
        return msgspec.convert(data, NodeTable, strict=False)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        raise _bad(where.replace("`", ""), what) from None


def read_nodes(path: Path) -> NodeTable:
    """Read the table of nodes in a YAML file.

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
        "this is not a valid table of nodes",
        where,
        why,
        "give a mapping such as `7: {name: ap1, queue_depth_unit: packets}`",
    )
