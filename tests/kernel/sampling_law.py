"""Watch the flows of a datapath until standard input ends, with the build that this is run with.

Prints, as JSON: `flows`, how many there are at the end; `steered`, how many of them an algorithm steers;
`longest_s`, the longest time that a flow had the fallback law; `longest_acking_s`, the longest until the last
ACK that the law handled: an idle flow takes its first letter when it next has something to do;
`longest_gap_s`, the longest time between two looks, by which a stay may be told too long.
"""

from __future__ import annotations

import json
import select
import sys
import time

from ccplane.base import _native
from ccplane.base.errors import CcpError

EACH_S = 0.01
OPEN_EACH_S = 0.2
"""Another datapath may have taken the place of the one that was there."""


def main(pin_dir: str) -> None:
    """Watch."""
    view, room, opened_s = None, 0, 0.0
    acks: dict[tuple[int, int], int] = {}
    longest_us = longest_acking_us = longest_gap_us = 0.0
    looked_us = 0.0
    began_us = time.monotonic() * 1e6
    stats: list[_native.FlowStats] = []
    while not select.select([sys.stdin], [], [], EACH_S)[0]:
        now_s = time.monotonic()
        if now_s > opened_s + OPEN_EACH_S:
            try:
                view, opened_s = _native.EbpfDatapath.observe(pin_dir), now_s
                room = view.counters()["max_flows"]
            except CcpError:
                pass  # another build's; what was there before may still have flows
        if view is None:
            continue
        stats = view.all_stats()
        now_us = time.monotonic() * 1e6
        longest_gap_us = max(longest_gap_us, now_us - (looked_us or now_us))
        looked_us = now_us
        for one in stats:
            stayed_us = (one.law_left_us or now_us) - one.law_entered_us
            if one.law_entered_us >= began_us:
                longest_us = max(longest_us, stayed_us)
            if not one.law:
                acks.pop((room, one.flow_id), None)
            elif acks.setdefault((room, one.flow_id), one.acks) != one.acks:
                acks[room, one.flow_id] = one.acks
                longest_acking_us = max(longest_acking_us, stayed_us)
    steered = sum(not one.law and one.program != 0 for one in stats)
    print(
        json.dumps(
            {
                "flows": len(stats),
                "steered": steered,
                "longest_s": round(longest_us / 1e6, 3),
                "longest_acking_s": round(longest_acking_us / 1e6, 3),
                "longest_gap_s": round(longest_gap_us / 1e6, 3),
            }
        )
    )


main(sys.argv[1])
