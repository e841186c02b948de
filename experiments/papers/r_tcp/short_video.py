"""R-TCP: an app for short videos, over operators that limit the rate (tables 3 and 10).

The paper let a phone swipe through sixty videos of a service, behind a proxy. Here a client of our own
behaves like such an app (`experiments.traffic.swipes`): three connections that stay open and load at once,
videos loaded ahead, bitrates chosen by what came so far. It is no app that anybody has: figures compare with
one another, not with the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiments import plots
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.operators import LIMITED
from experiments.papers.r_tcp.runs import APART_S
from experiments.papers.r_tcp.video import claims, row, sessions, viewed
from experiments.papers.tables import Table
from experiments.sweep import Grid
from experiments.traffic.spec import ShortVideo

PAPERS_REDUCTION: Final[Mapping[str, float]] = {"kernel/cubic": 0.4, "kernel/bbr": 0.5, "bbr3": 0.5}
"""Of tables 3 and 10, the lower of both operators, rounded."""
PATIENCE: Final = 2.0
"""A session is given up after so many times what there is to watch."""


def _grids(size: Size) -> list[Grid]:
    n_videos, operators = (8, LIMITED[:1]) if size.quick else (60, LIMITED)
    traffic = ShortVideo(videos=n_videos)
    duration_s = size.seconds(PATIENCE * n_videos * traffic.view_s, PATIENCE * n_videos * traffic.view_s)
    return [
        Grid(sessions(operators, number, traffic, APART_S, duration_s), {}, f"{size.name}-round-{number}")
        for number in range(1, size.times(1, 10) + 1)
    ]


def _findings(runs: Runs) -> Findings:
    found = runs.rows(viewed)
    values = [
        "retrans_pct",
        "bitrate_bytes_per_s",
        "stalls_per_min",
        "stalled_ratio",
        "startup_s",
        "connections",
    ]
    title = "Short videos over operators that limit the rate"
    return Findings(
        [Table.of(found, title, ["operator", "algorithm"], values)],
        {
            "short-video-retrans": plots.bars(
                found, "retrans_pct", group="operator", title="Short videos over limited networks: sent again"
            )
        },
        claims(found, PAPERS_REDUCTION, "bitrate_bytes_per_s", "bitrate_bytes_per_s"),
    )


SHORT_VIDEO: Final = Part("short-video", "an app for short videos", _grids, _findings, row, video=True)
