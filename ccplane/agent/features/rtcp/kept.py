"""What a start found of those before: of `ccp rtcp attach`, and of an agent's rate limits."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from ccp_algs.rtcp.limit import EXTENSION

log = logging.getLogger("ccplane.rtcp")


class Kept(NamedTuple):
    """What a start found of those before.

    Attributes:
        what: `nothing`; `table`: it goes on, with all clients; `verdicts`: another version made it, or for
            another number of clients, so a new one has the limited clients; `lost`: it cannot be read, or the
            new one has no room for so many.
        clients: How many they are.
    """

    what: str
    clients: int

    @property
    def sentence(self) -> str:
        """What to tell people; empty if there was nothing."""
        return {
            "nothing": "",
            "table": f"goes on with the table of {self.clients} clients that was there",
            "verdicts": f"has kept the verdicts on {self.clients} clients",
            "lost": f"could not keep what was known of {self.clients} clients: the table was another "
            "version's, or this one has no room (--max-clients)",
        }[self.what]


def report(datapath: Any) -> None:
    """Log what became of the rate limits of an agent before."""
    kept = Kept(*datapath.resumed(EXTENSION))
    if kept.sentence:
        log.log(logging.WARNING if kept.what == "lost" else logging.INFO, "rate limits: %s", kept.sentence)
