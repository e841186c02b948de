"""Rate limits that are taken over, at a start, from an earlier `ccp rtcp attach` or agent."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from ccp_algs.rtcp.limit import EXTENSION

log = logging.getLogger("ccplane.rtcp")


class Kept(NamedTuple):
    """Rate limits found at the start.

    Attributes:
        what: `nothing`: none; `table`: the table continues with all clients; `verdicts`: the table had
            another version or size, so only the limited clients were copied; `lost`: the table cannot be
            read, or the new table is too small.
        clients: Number of clients.
    """

    what: str
    clients: int

    @property
    def sentence(self) -> str:
        """Human-readable description; empty if nothing was found."""
        return {
            "nothing": "",
            "table": f"continues with the existing table of {self.clients} clients",
            "verdicts": f"keeps the verdicts on {self.clients} clients",
            "lost": f"lost the verdicts on {self.clients} clients: the table has another version, or the new "
            "table is too small (--max-clients)",
        }[self.what]


def report(datapath: Any) -> None:
    """Log what happened to the rate limits of an earlier agent."""
    kept = Kept(*datapath.resumed(EXTENSION))
    if kept.sentence:
        log.log(logging.WARNING if kept.what == "lost" else logging.INFO, "rate limits: %s", kept.sentence)
