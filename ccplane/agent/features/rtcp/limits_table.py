"""Tables of clients for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from ccplane.agent.features.rtcp.tables import Clients

_COLUMNS = ("client", "netns", "by", "state", "bucket_KB", "rate_Mbit/s", "tokens_KB", "flows", "active")
_OF_WORDS = ("client", "by", "state")


def render(known: Sequence[Clients]) -> RenderableType:
    """Return the table of all clients, with remarks below."""
    table = Table(box=None, header_style="bold")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in _OF_WORDS else "right")
    for by, one in ((found.by, client) for found in known for client in found.clients or ()):
        table.add_row(
            one["client"],
            str(one["netns"]),
            by,
            one["state"],
            f"{one['bucket_bytes'] / 1e3:.0f}",
            f"{one['rate_bytes_per_s'] * 8 / 1e6:.3f}",
            f"{one['tokens_bytes'] / 1e3:.0f}",
            str(one["open_flows"]),
            str(one["active_flows"]),
        )
    return Group(table, *_remarks(known))


def _remarks(known: Sequence[Clients]) -> Iterator[str]:
    for found in known:
        if found.no_room:
            yield (
                f"{found.by}: {found.no_room} connections are not limited, because the table of clients is "
                f"full ({found.max_clients})"
            )
        if found.clients is None:
            yield f"{found.by}: this table has another version; read it with that version's `ccp rtcp show`"
