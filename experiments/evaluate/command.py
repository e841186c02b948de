"""`ccp evaluate` and `ccp compare`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ccplane.base import options
from experiments.run_options import JOBS_HELP, NoRun, On, ReportFile

if TYPE_CHECKING:
    from experiments.report import Report

# The modules that evaluate are imported by the commands: `ccp --help` imports this module.

OUT: Final = Path("out/evaluate")
REPEATS: Final = 9
"""Usual number of seeds: the interval of the median leaves out the lowest and the highest value."""

_ALGORITHM: Final = "FILE.py, FILE.py:Class, an algorithm of ccplane such as cubic, or kernel/NAME."

Quick = Annotated[bool, typer.Option("--quick", help="Simulate only: no root, a few minutes.")]
Repeats = Annotated[int, typer.Option(min=1, max=1000, help="Seeds of each case; intervals need at least 6.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="CASE", help="Run only this case; repeatable.", show_default="all"),
]
Out = Annotated[
    Path,
    options.out("Folder for the runs; runs already there, such as those of CUBIC, are not repeated."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=JOBS_HELP,
        show_default="processors; 1 on real sockets",
        rich_help_panel=options.ADVANCED,
    ),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all values and effects as JSON.")
]
Sample = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        metavar="SHARE",
        help="Share of the cases that also run on real sockets, drawn at random for each algorithm.",
        rich_help_panel=options.ADVANCED,
    ),
]
SampleSeed = Annotated[
    int, typer.Option("--seed", help="Seed of --sample.", rich_help_panel=options.ADVANCED)
]
MarkdownFile = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write the report as Markdown.")
]

app = typer.Typer(add_completion=False)
compare_app = typer.Typer(add_completion=False)


def _list(value: bool) -> None:
    if value:
        from experiments.evaluate.cases import all_cases

        for case in all_cases(OUT):
            typer.echo(f"{case.key:24}{case.criterion.section:8}{case.criterion.title}: {case.title}")
        raise typer.Exit


def write_files(
    json_file: tuple[Path | None, Callable[[], str]],
    markdown: tuple[Path | None, Callable[[], str]],
    page: tuple[Path | None, Callable[[], Report]],
) -> None:
    """Write the files that were asked for: each with what it is to contain.

    Raises:
        ResultError: `result.cannot_write`.
    """
    from experiments.report import write
    from experiments.writing import write_text

    for option, (file, text) in (("--json", json_file), ("--markdown", markdown)):
        if file is not None:
            write_text(file, text(), f"choose another file with {option}")
    file, report = page
    if file is not None:
        typer.echo(f"report: {write(report(), file)}")


def _share(sample: float, quick: bool) -> float:
    if quick and sample < 1:
        raise typer.BadParameter("--quick runs nothing on real sockets", param_hint="--sample")
    return sample


@app.command(
    epilog=options.examples(
        "ccp evaluate mine.py --quick --report mine.html",
        "sudo ccp evaluate kernel/bbr --against kernel/reno --markdown bbr.md",
        "ccp evaluate mine.py --quick --json new.json --baseline old.json",
    )
)
def evaluate(
    algorithm: Annotated[str, typer.Argument(metavar="ALGORITHM", help=_ALGORITHM)],
    quick: Quick = False,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ALGORITHM",
            help="Compare with this one in addition to the kernel's CUBIC; repeatable.",
            show_default="none",
        ),
    ] = None,
    only: Only = None,
    repeats: Repeats = REPEATS,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Compare with an earlier --json; exit code 1 if a figure is worse."
        ),
    ] = None,
    json_file: JsonFile = None,
    markdown: MarkdownFile = None,
    report: ReportFile = None,
    out: Out = OUT,
    no_run: NoRun = False,
    jobs: Jobs = None,
    on: On = None,
    sample: Sample = 1.0,
    seed: SampleSeed = 1,
    list_: Annotated[
        bool, typer.Option("--list", help="List all cases.", is_eager=True, callback=_list)
    ] = False,
) -> None:
    """Evaluate a congestion control by the criteria of RFC 9743, compared with CUBIC.

    Runs simulated scenarios; without --quick, as root, also the same scenarios on real sockets.
    Ctrl-C interrupts; the same command resumes.
    Exit code 1: runs failed, or a figure is worse than in the baseline.
    """
    from experiments.evaluate import markdown as texts
    from experiments.evaluate import page, screen
    from experiments.evaluate.baseline import changes
    from experiments.evaluate.evaluating import Order, evaluated
    from experiments.evaluate.evaluation import read

    before = None if baseline is None else read(baseline)
    found = evaluated(
        Order(
            (algorithm,),
            against or (),
            quick,
            repeats,
            only or (),
            out,
            jobs,
            on,
            run=not no_run,
            sample=_share(sample, quick),
            seed=seed,
        )
    )
    changed = None if before is None else changes(before, found, str(baseline))
    screen.show(found)
    write_files(
        (json_file, found.to_json),
        (markdown, lambda: texts.of(found, changed)),
        (report, lambda: page.report_of(found, changed)),
    )
    if changed is not None:
        screen.show_changes(changed)
    if not found.complete or (changed is not None and changed.with_verdict("worse")):
        raise typer.Exit(1)


@compare_app.command(
    epilog=options.examples(
        "ccp compare cubic bbr3 mine.py --quick --report compare.html",
        "sudo ccp compare kernel/reno kernel/cubic kernel/bbr --only fair-own --only queue-8bdp",
    )
)
def compare(
    algorithm: Annotated[
        list[str], typer.Argument(metavar="ALGORITHM...", help=f"Two or more: {_ALGORITHM}")
    ],
    quick: Quick = False,
    only: Only = None,
    repeats: Repeats = REPEATS,
    json_file: JsonFile = None,
    markdown: MarkdownFile = None,
    report: ReportFile = None,
    out: Out = OUT,
    no_run: NoRun = False,
    jobs: Jobs = None,
    on: On = None,
    sample: Sample = 1.0,
    seed: SampleSeed = 1,
) -> None:
    """Rank congestion controls by the criteria of RFC 9743, and show where each one wins.

    Runs the cases of `ccp evaluate`, which shares its runs. Ctrl-C interrupts; the same command resumes.
    Exit code 1: runs failed.
    """
    from experiments.evaluate import markdown as texts
    from experiments.evaluate import page, screen
    from experiments.evaluate.comparing import ranking
    from experiments.evaluate.evaluating import Order, evaluated

    if len(algorithm) < 2:
        raise typer.BadParameter("name two or more to compare", param_hint="ALGORITHM")
    found = evaluated(
        Order(
            algorithm,
            (),
            quick,
            repeats,
            only or (),
            out,
            jobs,
            on,
            run=not no_run,
            sample=_share(sample, quick),
            seed=seed,
        )
    )
    rankings = {side: one for side in found.sides if (one := ranking(found, side)) is not None}
    screen.show_comparison(found, rankings)
    write_files(
        (json_file, found.to_json),
        (markdown, lambda: texts.of_comparison(found, rankings)),
        (report, lambda: page.comparison_of(found, rankings)),
    )
    if not found.complete:
        raise typer.Exit(1)
