"""`ccp paper`: the experiments of papers, run again."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from ccplane.base.errors import CcpError, UsageError
from ccplane.base.names import close_names
from experiments.commands import On

if TYPE_CHECKING:
    from experiments.papers.paper import Findings, Paper, Part, Runs, Size
    from experiments.papers.tables import Check, Table

# The modules that work are imported by the commands: pandas takes a while, and `ccp --help` imports this one.

OUT: Final = Path("out/papers")
_PIPE_WIDTH: Final = 160

_HOW: Final = (
    "--dry-run names the parts, says what each shows, and how long it takes; with --quick for a few points."
    " Ctrl-C interrupts; the same command goes on."
)

app = typer.Typer(help="Run the experiments of papers again: tables, figures, claims.", no_args_is_help=True)

_Quick = Annotated[bool, typer.Option("--quick", help="A few points with short runs.")]
_Part = Annotated[list[str] | None, typer.Option("--part", help="Only this part; several times for several.")]
_Out = Annotated[
    Path | None, typer.Option(help="Directory for results; by default one in out/papers/. Goes on there.")
]
_Jobs = Annotated[int, typer.Option(min=1, help="Runs at once. Those with ccplane's algorithms take turns.")]
_Repeats = Annotated[int | None, typer.Option(min=1, help="How often each point is run.")]
_Seconds = Annotated[int | None, typer.Option(min=1, help="How long each run sends, in seconds.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say how many runs there are, and for how long.")]
_NoRun = Annotated[bool, typer.Option("--no-run", help="Report what is there; run nothing (needs no root).")]
_Datapath = Annotated[
    str,
    typer.Option("--datapath", help="Where: ebpf, on real sockets (needs root), or sim, in virtual time."),
]
_Format = Annotated[
    list[str] | None,
    typer.Option("--format", help="Of figures: png, svg or pdf; several times for several."),
]
_Keep = Annotated[
    Path | None,
    typer.Option(help="Keep what parts come to in this folder, as JSON; documents show docs/results/papers."),
]
_Claims = Annotated[
    bool,
    typer.Option("--claims", help="Print every claim of the paper with its verdict; run nothing."),
]
_Kept = Annotated[
    Path | None,
    typer.Option(
        help="Print what is kept of parts in this folder, docs/results/papers; run nothing. With --claims:"
        " judge by that; by default by docs/results/papers, with --out by what is in that directory."
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


@app.callback()
def _papers() -> None:
    """Run the experiments of papers again: tables, figures, claims."""


def _add(name: str, module: str, text: str, *, video: bool = False, cellular: bool = False) -> None:
    """Add the command of a paper.

    Args:
        name: Of the command.
        module: Where its `PAPER` is, in `experiments.papers`.
        text: What it is, in a line.
        video: Whether it has parts with video.
        cellular: Whether it has cellular paths.
    """
    with_traces: Any = typer.Option(
        None,
        "--trace",
        hidden=not cellular,
        help="A recorded Mahimahi trace as another cellular path; several times for several.",
    )
    with_video: Any = typer.Option(
        False,
        "--video",
        hidden=not video,
        help="Also the parts with video; `make setup-video` installs what they need.",
    )

    @app.command(name, help=f"{text}\n\n{_HOW}")
    def command(
        quick: _Quick = False,
        part: _Part = None,
        out: _Out = None,
        jobs: _Jobs = 1,
        repeats: _Repeats = None,
        seconds: _Seconds = None,
        dry_run: _DryRun = False,
        no_run: _NoRun = False,
        formats: _Format = None,
        as_json: _Json = False,
        keep: _Keep = None,
        datapath: _Datapath = "ebpf",
        on: On = None,
        claims: _Claims = False,
        kept: _Kept = None,
        video: bool = with_video,
        traces: list[str] | None = with_traces,
    ) -> None:
        from experiments.papers.paper import Size
        from experiments.runs.check import SIM

        paper: Paper = importlib.import_module(f"experiments.papers.{module}.paper").PAPER
        if traces and not cellular:
            raise UsageError(
                "paper.no_cells", f"no part of {name} has a cellular path", "--trace", fix="leave it out"
            )
        size = Size(quick, repeats, seconds, datapath, tuple(traces or ()))
        if claims:
            results = None if out is None else (size, out)
            _show_claims([paper.name], kept, results, as_json)
            return
        if kept is not None:
            _show_kept(paper, kept, part)
            return
        chosen = _parts(paper, part, video)
        if not part and size.datapath == SIM:
            chosen = _that_can_be_simulated(chosen, size)
        _do(paper, chosen, size, out, jobs, on, dry_run, no_run, formats or ["png"], as_json, keep)


_add(
    "flex-cubic",
    "flex_cubic",
    "Flex-Cubic, a loss-tolerant CUBIC: the paper's grid, and what it left open (needs root).",
)
_add(
    "int-adaptive",
    "int_adaptive",
    "CUBIC that listens to in-band telemetry: the paper's figures; whether telemetry is right (needs root).",
)
_add(
    "hyvar",
    "hyvar",
    "Hyvar, CUBIC and a learned policy with an interval that follows the network: the slides' evaluation.",
    cellular=True,
)
_add(
    "r-hybrid",
    "r_hybrid",
    "R-Hybrid, DCTCP or CUBIC as the receiver decides: the paper's figures and E1 to E17 (needs root).",
)
_add(
    "r-tcp",
    "r_tcp",
    "R-TCP, which finds rate limits and keeps within them: the paper's figures and tables (needs root).",
    video=True,
)


_add(
    "published",
    "published",
    "Published figures of others on Linux' CUBIC and BBR: does the same come out here (needs root)?",
)


@app.command("all")
def _all(claims: _Claims = False, kept: _Kept = None, as_json: _Json = False) -> None:
    """Print every claim of all papers with its verdict (--claims)."""
    from experiments.papers.claims import PAPERS

    if not claims:
        raise UsageError(
            "paper.all_runs",
            "all papers at once can only be asked for their claims",
            "ccp paper all",
            "their experiments take days",
            "ccp paper all --claims, or ccp paper NAME",
        )
    _show_claims(list(PAPERS), kept, None, as_json)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_PIPE_WIDTH)


def _show_claims(
    names: list[str], kept: Path | None, results: tuple[Size, Path] | None, as_json: bool
) -> None:
    """Print the claims of papers: by what was kept, or by the results of one in a directory."""
    from experiments.papers import claims

    console = _console()
    every: list[claims.Judged] = []
    for name in names:
        paper = claims.paper_of(name)
        if results is None:
            checks = claims.kept(name, kept or claims.KEPT)
        else:
            checks = claims.of_results(paper, *results)
        rows = claims.judge(paper, checks)
        every += rows
        if not as_json:
            claims.show(console, paper.title, rows)
    if as_json:
        told = [row.records() for row in every]
        typer.echo(json.dumps({"counts": claims.counted(every), "claims": told}, indent=2))
    elif len(names) > 1:
        console.print(claims.told_count(every), style="bold", highlight=False)


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
) -> None:
    """Run parts of a paper, and report what they come to."""
    from experiments.papers.kept import Kept
    from experiments.papers.paper import draw, findings, read_part, run_part
    from experiments.runs.reports import Screen

    out = out or OUT / (paper.name if size.datapath == "ebpf" else f"{paper.name}-{size.datapath}")
    if dry_run or not no_run:
        extents = _say_how_long(parts, size, out, jobs, as_json and dry_run)
    if dry_run:
        if as_json:
            typer.echo(json.dumps(extents, indent=2))
        return
    document: dict[str, Any] = {"paper": paper.name, "title": paper.title, "directory": str(out), "parts": {}}
    complete = True
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
        if keep is not None and (runs.done or not runs.planned):
            Kept.of(paper, part, runs, found).keep(keep)
        if not as_json:
            _show(part, found, runs, files)
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    if not complete:
        raise typer.Exit(1)


def _show_kept(paper: Paper, folder: Path, names: list[str] | None) -> None:
    """Print what is kept of parts; a name that ends in `-sim` is that of the simulated runs alone."""
    from experiments.papers.kept import Kept

    files = sorted((folder / paper.name).glob("*.json"))
    there = [file.stem for file in files]
    for name in names or []:
        if name not in {*there, *(one.removesuffix("-sim") for one in there)}:
            raise UsageError(
                "paper.not_kept",
                f"nothing is kept of a part `{name}`",
                f"--part {name}",
                f"there is: {', '.join(there) or 'nothing'}",
                f"ccp paper {paper.name} --part {name} --keep {folder}",
            )
    for file in files:
        if not names or {file.stem, file.stem.removesuffix("-sim")} & set(names):
            kept = Kept.read(file)
            _print(f"{kept.part}: {kept.source}", kept.tables, kept.checks)


def _parts(paper: Paper, names: list[str] | None, video: bool) -> list[Part]:
    """Return the parts that are asked for; without names all, with video only where that is wanted."""
    for name in names or []:
        if name not in paper.parts:
            raise UsageError(
                "paper.unknown_part",
                f"the experiments of {paper.name} have no part `{name}`",
                f"--part {name}",
                fix=close_names(name, paper.parts, "part"),
            )
        if paper.parts[name].video and not video:
            raise UsageError(
                "paper.needs_video",
                f"the part {name} plays video",
                f"--part {name}",
                "that needs a browser and more, which nothing else does",
                f"ccp paper {paper.name} --video --part {name}",
            )
    if video and not any(part.video for part in paper.parts.values()):
        raise UsageError(
            "paper.no_video", f"no part of {paper.name} plays video", "--video", fix="leave it out"
        )
    return [
        part for name, part in paper.parts.items() if (name in names if names else video or not part.video)
    ]


def _that_can_be_simulated(parts: list[Part], size: Size) -> list[Part]:
    """Return the parts that can be, and say of each other one why not."""
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


def _say_how_long(
    parts: list[Part], size: Size, out: Path, jobs: int, quietly: bool
) -> dict[str, dict[str, float | None]]:
    """Print for each part how much there is to do; returns the same as plain data."""
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
            typer.echo(f"together about {duration(total_s)}; Ctrl-C, and the same command goes on", err=True)
    return {name: vars(one) for name, one in extents.items()}


def _show(part: Part, found: Findings, runs: Runs, files: list[str]) -> None:
    from experiments.papers.kept import told_left_out

    left_out = told_left_out(runs.left_out)
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
