"""`ccp paper`: repeat the experiments of papers."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from ccplane.base import options
from ccplane.base.errors import CcpError, UsageError
from ccplane.base.names import close_names
from experiments.run_options import Jobs, NoRun, On, ReportFile

if TYPE_CHECKING:
    from experiments.papers.paper import Findings, Paper, Part, Runs, Size
    from experiments.papers.tables import Check, Table
    from experiments.report import Picture

# Commands import the modules that do the work: pandas is slow, and `ccp --help` imports this module.

OUT: Final = Path("out/papers")
_PIPE_WIDTH: Final = 160

_ABOUT: Final = "Repeat the experiments of papers: tables, figures and claims."
_HOW: Final = """--dry-run lists the parts, what each part shows, and how long each part takes.
Ctrl-C interrupts; the same command resumes."""

app = typer.Typer(help=_ABOUT, no_args_is_help=True, add_completion=False)

_Quick = Annotated[bool, typer.Option("--quick", help="Run fewer points, for a shorter time each.")]
_Part = Annotated[
    list[str] | None, typer.Option("--part", metavar="PART", help="Run only this part; repeatable.")
]
_Out = Annotated[
    Path | None,
    options.out(
        "Folder for runs and figures; runs already there are not repeated.", show_default="out/papers/NAME"
    ),
]
_Repeats = Annotated[
    int | None, typer.Option(min=1, help="Runs of each point.", show_default="as in the paper")
]
_Seconds = Annotated[
    int | None,
    options.seconds("Duration of each run", min=1, whole=True, show_default="as in the paper"),
]
_Datapath = Annotated[
    str,
    typer.Option(
        "--datapath", metavar="ebpf|sim", help="ebpf: real sockets (needs root); sim: the simulator."
    ),
]
_Format = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="File format of figures: png, svg or pdf; repeatable.",
        show_default="png",
        rich_help_panel=options.ADVANCED,
    ),
]
_Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        metavar="FOLDER",
        help="Save tables and checks as JSON in this folder; documents are made from docs/results/papers.",
        rich_help_panel=options.ADVANCED,
    ),
]
_Results = Annotated[
    Path | None,
    typer.Option(
        "--results",
        metavar="FOLDER",
        help="Folder of results that `ccp paper NAME --keep FOLDER` saved.",
        show_default="docs/results/papers",
    ),
]


@app.callback()
def _papers() -> None:
    """Repeat the experiments of papers: tables, figures and claims."""


def _add(
    name: str,
    module: str,
    text: str,
    part: str,
    *,
    video: bool = False,
    cellular: bool = False,
    simulated: bool = True,
) -> None:
    """Add the command of a paper.

    Args:
        name: Name of the command.
        module: Package in `experiments.papers` whose module `paper` has the `PAPER`.
        text: First line of the help.
        part: A part for the example.
        video: Whether the paper has parts with video.
        cellular: Whether the paper has cellular paths.
        simulated: Whether the example's part can be simulated.
    """
    with_traces: Any = typer.Option(
        None,
        "--trace",
        metavar="FILE",
        hidden=not cellular,
        help="Add a recorded Mahimahi trace as a cellular path; repeatable.",
        rich_help_panel=options.ADVANCED,
    )
    with_video: Any = typer.Option(
        False,
        "--video",
        hidden=not video,
        help="Include the parts with video; `make setup-video` installs what they need.",
    )
    one_part = f"ccp paper {name} --quick --part {part}"
    one_part = f"{one_part} --datapath sim" if simulated else f"sudo {one_part}"
    report = f"{one_part} --report {name}.html"
    epilog = options.examples(f"ccp paper {name} --quick --dry-run", one_part, report)

    @app.command(name, help=f"{text}\n\n{_HOW}", epilog=epilog)
    def command(
        quick: _Quick = False,
        part: _Part = None,
        out: _Out = None,
        jobs: Jobs = 1,
        repeats: _Repeats = None,
        seconds: _Seconds = None,
        dry_run: options.DryRun = False,
        no_run: NoRun = False,
        formats: _Format = None,
        as_json: options.AsJson = False,
        report: ReportFile = None,
        keep: _Keep = None,
        datapath: _Datapath = "ebpf",
        on: On = None,
        video: bool = with_video,
        traces: list[str] | None = with_traces,
    ) -> None:
        from experiments.papers.paper import Size
        from experiments.runs.check import SIM

        paper: Paper = importlib.import_module(f"experiments.papers.{module}.paper").PAPER
        if traces and not cellular:
            raise UsageError(
                "paper.no_cells", f"no part of {name} has a cellular path", "--trace", fix="leave out --trace"
            )
        size = Size(quick, repeats, seconds, datapath, tuple(traces or ()))
        chosen = _parts(paper, part, video)
        if not part and size.datapath == SIM:
            chosen = _that_can_be_simulated(chosen, size)
        _do(paper, chosen, size, out, jobs, on, dry_run, no_run, formats or ["png"], as_json, keep, report)


_add(
    "flex-cubic",
    "flex_cubic",
    "Repeat the experiments of Flex-Cubic, a loss-tolerant CUBIC, and experiments that its paper left open.",
    "reroute",
)
_add(
    "int-adaptive",
    "int_adaptive",
    "Repeat the experiments of CUBIC with in-band telemetry, and check what the telemetry reports.",
    "fig4",
)
_add(
    "hyvar",
    "hyvar",
    "Repeat the evaluation of Hyvar (CUBIC with a learned policy whose interval adapts to the network).",
    "mtp",
    cellular=True,
)
_add(
    "r-hybrid",
    "r_hybrid",
    "Repeat the experiments of R-Hybrid (DCTCP or CUBIC, as the receiver decides): figures, and E1 to E17.",
    "fig2",
)
_add(
    "r-tcp",
    "r_tcp",
    "Repeat the experiments of R-TCP, which detects rate limits and stays below them.",
    "download",
    video=True,
)
_add(
    "published",
    "published",
    "Repeat published measurements of Linux' CUBIC and BBR, and compare the results.",
    "loss",
    simulated=False,
)


@app.command("claims", epilog=options.examples("ccp paper claims", "ccp paper claims hyvar r-tcp --json"))
def claims_(
    papers: Annotated[
        list[str] | None, typer.Argument(metavar="PAPER", help="Papers.", show_default="all five")
    ] = None,
    results: _Results = None,
    as_json: options.AsJson = False,
) -> None:
    """Print every claim of papers with the verdict from saved results; run nothing."""
    from experiments.papers import claims

    console = _console()
    every: list[claims.Judged] = []
    for name in papers or claims.PAPERS:
        paper = _paper(name)
        rows = claims.judge(paper, claims.kept(name, results or claims.KEPT))
        every += rows
        if not as_json:
            claims.show(console, paper.title, rows)
    if as_json:
        reported = [row.records() for row in every]
        own = claims.with_own_rules(every)
        counts = {
            name: claims.side_counts(rows) for name, rows in (("paper", claims.of_paper(every)), ("own", own))
        }
        typer.echo(json.dumps({"counts": counts, "claims": reported}, indent=2))
    elif len(papers or claims.PAPERS) > 1:
        console.print(claims.summary(every), style="bold", highlight=False)


@app.command(
    epilog=options.examples(
        "ccp paper show r-tcp --part download", "ccp paper show r-tcp --report r-tcp.html"
    )
)
def show(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Name of the paper.")],
    part: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Print this part, or (PART-sim) its simulated runs; repeatable."),
    ] = None,
    results: _Results = None,
    report: ReportFile = None,
) -> None:
    """Print the tables and checks of saved results, or write a report of them; run nothing."""
    from experiments.papers import claims
    from experiments.papers import report as reports
    from experiments.report import write

    found, folder = _paper(paper), results or claims.KEPT
    name = found.name
    kept = claims.kept(name, folder)
    for one in part or []:
        if one not in {*kept, *(there.removesuffix("-sim") for there in kept)}:
            raise UsageError(
                "paper.not_kept",
                f"no saved results of a part `{one}` of {name}",
                f"--part {one}",
                f"{folder / name} has: {', '.join(kept) or 'nothing'}",
                f"ccp paper {name} --part {one} --keep {folder}",
            )
    chosen = {
        there: one
        for there, one in kept.items()
        if not part or {there, there.removesuffix("-sim")} & set(part)
    }
    if report is not None:
        typer.echo(write(reports.report_of(found, chosen), report))
        return
    for saved in chosen.values():
        _print(f"{saved.part}: {saved.source}", saved.tables, saved.checks)


def _paper(name: str) -> Paper:
    from experiments.papers import claims

    known = {**claims.PAPERS, **claims.OTHERS}
    if name not in known:
        raise UsageError(
            "paper.unknown", f"no paper `{name}`", "PAPER", fix=close_names(name, known, "paper")
        )
    return claims.paper_of(name)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_PIPE_WIDTH)


def _do(
    paper: Paper,
    parts: list[Part],
    size: Size,
    out: Path | None,
    jobs: int,
    on: str | None,
    dry_run: bool,
    no_run: bool,
    formats: list[str],
    as_json: bool,
    keep: Path | None,
    report: Path | None,
) -> None:
    """Run parts of a paper, and report the results."""
    from experiments.papers import report as reports
    from experiments.papers.kept import Kept
    from experiments.papers.paper import draw, findings, read_part, run_part
    from experiments.report import write
    from experiments.runs.reports import Screen

    out = out or OUT / (paper.name if size.datapath == "ebpf" else f"{paper.name}-{size.datapath}")
    if dry_run or not no_run:
        extents = _print_extents(parts, size, out, jobs, as_json and dry_run)
    if dry_run:
        if as_json:
            typer.echo(json.dumps(extents, indent=2))
        return
    document: dict[str, Any] = {"paper": paper.name, "title": paper.title, "directory": str(out), "parts": {}}
    complete = True
    kept: dict[str, Kept] = {}
    pictures: dict[str, list[Picture]] = {}
    for part in parts:
        if not no_run:
            run_part(part, size, out, jobs=jobs, on=on, report=Screen())
        runs = read_part(part, size, out)
        found = findings(part, runs)
        complete = complete and runs.done == runs.planned
        files = [str(one) for one in draw(found, out, formats)]
        document["parts"][part.name] = {
            "about": part.about,
            "planned": runs.planned,
            "done": runs.done,
            "left_out": dict(runs.left_out),
            "checks": [one.records() for one in found.checks],
            "tables": [one.records() for one in found.tables],
            "figures": files,
        }
        if runs.done or not runs.planned:
            own = Kept.of(paper, part, runs, found)
            kept[own.part] = own
            if keep is not None:
                own.keep(keep)
            if report is not None:
                pictures[own.part] = reports.pictures_of(found)
        if not as_json:
            _show(part, found, runs, files)
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    if report is not None:
        typer.echo(write(reports.report_of(paper, kept, pictures), report), err=as_json)
    if not complete:
        raise typer.Exit(1)


def _parts(paper: Paper, names: list[str] | None, video: bool) -> list[Part]:
    """Return the named parts; without names, all parts, and those with video only if `video` is set."""
    for name in names or []:
        if name not in paper.parts:
            raise UsageError(
                "paper.unknown_part",
                f"{paper.name} has no part `{name}`",
                f"--part {name}",
                fix=close_names(name, paper.parts, "part"),
            )
        if paper.parts[name].video and not video:
            raise UsageError(
                "paper.needs_video",
                f"part {name} plays video",
                f"--part {name}",
                "this part needs a browser and a video server; the other parts do not",
                f"ccp paper {paper.name} --video --part {name}",
            )
    if video and not any(part.video for part in paper.parts.values()):
        raise UsageError(
            "paper.no_video", f"no part of {paper.name} plays video", "--video", fix="leave out --video"
        )
    return [
        part for name, part in paper.parts.items() if (name in names if names else video or not part.video)
    ]


def _that_can_be_simulated(parts: list[Part], size: Size) -> list[Part]:
    """Return the parts that can be simulated; print for each other part why it cannot."""
    from experiments.papers.paper import grids_of

    found = []
    for part in parts:
        try:
            for grid in grids_of(part, size):
                grid.points()
        except CcpError as error:
            typer.echo(f"{part.name} ({part.about}): not simulated: {error.message} ({error.why})", err=True)
        else:
            found.append(part)
    return found


def _print_extents(
    parts: list[Part], size: Size, out: Path, jobs: int, quietly: bool
) -> dict[str, dict[str, float | None]]:
    """Print the number of runs and the time that each part needs; return the same as plain data."""
    from experiments.papers.paper import extent
    from experiments.runs.reports import duration

    extents = {part.name: extent(part, size, out, jobs) for part in parts}
    if not quietly:
        for part in parts:
            one = extents[part.name]
            time = "" if one.estimate_s is None else f", about {duration(one.estimate_s)}"
            typer.echo(f"{part.name} ({part.about}): {one.planned} runs, {one.missing} to do{time}", err=True)
        known_s = [one.estimate_s for one in extents.values() if one.estimate_s is not None]
        if len(known_s) > 1:
            total_s = sum(known_s)
            typer.echo(
                f"together about {duration(total_s)}; Ctrl-C interrupts, and the same command resumes",
                err=True,
            )
    return {name: vars(one) for name, one in extents.items()}


def _show(part: Part, found: Findings, runs: Runs, files: list[str]) -> None:
    from experiments.papers.kept import reported_left_out

    left_out = reported_left_out(runs.left_out)
    missing = (
        ""
        if runs.done == runs.planned and not left_out
        else f" ({runs.done} of {runs.planned} runs{left_out})"
    )
    _print(f"{part.name}: {part.about}{missing}", found.tables, found.checks)
    for file in files:
        typer.echo(file)


def _print(title: str, tables: Sequence[Table], checks: Sequence[Check]) -> None:
    console = _console()
    console.print(title, style="bold", markup=False, highlight=False)
    for table in tables:
        console.print(table.screen())
    for check in checks:
        console.print(str(check), markup=False, highlight=False)
