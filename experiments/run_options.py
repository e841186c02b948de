"""Options that several commands that run experiments share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.base import options

Datapath = Annotated[
    str | None,
    typer.Option(
        metavar="ebpf|sim",
        help="ebpf: real sockets (needs root); sim: the simulator.",
        show_default="as the scenario says",
    ),
]

On = Annotated[
    str | None,
    typer.Option(
        metavar="dask://HOST:PORT",
        help="Distribute the runs over the workers of this Dask scheduler.",
        rich_help_panel=options.ADVANCED,
    ),
]

JOBS_HELP: Final = (
    "Simultaneous runs. On real sockets, more than processors disturb each other, and runs of ccplane's "
    "algorithms take turns."
)
Jobs = Annotated[
    int,
    typer.Option(
        min=1,
        help=JOBS_HELP,
        rich_help_panel=options.ADVANCED,
    ),
]

NoRun = Annotated[
    bool, typer.Option("--no-run", help="Report the runs in --out; run nothing (needs no root).")
]

ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write an HTML report: verdicts, intervals, figures and tables in one file for a browser.",
    ),
]
