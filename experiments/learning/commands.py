"""`ccp train`: train, evaluate and export policies."""

from __future__ import annotations

import datetime
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from ccplane.base import options
from experiments.learning.errors import LearningError

if TYPE_CHECKING:
    import pandas as pd

    from experiments.learning.training import Progress, Trainer

# Commands import the modules that do the work: PyTorch is slow, and `ccp --help` imports this module.

OUT: Final = Path("out/training")
STEPS: Final = 2_500_000
CHECKPOINT_EVERY: Final = 100_000
_PIPE_WIDTH: Final = 120

_ABOUT: Final = "Train, evaluate and export the policies of learned algorithms, in simulated networks."

app = typer.Typer(help=_ABOUT, no_args_is_help=True, add_completion=False)


@app.callback()
def _train() -> None:
    """Train, evaluate and export the policies of learned algorithms, in simulated networks."""


@app.command(
    "hyvar",
    epilog=options.examples("ccp train hyvar -o out/mine", "ccp train export out/mine -o mine.safetensors"),
)
def hyvar(
    out: Annotated[
        Path | None, options.out("Folder for checkpoints.", show_default="out/training/hyvar-TIME")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Resume the training run in this folder at its last checkpoint."),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Total number of intervals to train on.")] = STEPS,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of weights, actions and paths.")] = 1,
    worlds: Annotated[
        int,
        typer.Option(
            "--environments", min=1, help="Simultaneous environments.", rich_help_panel=options.ADVANCED
        ),
    ] = 256,
    domain: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Distribution of network paths: a file as printed by `ccp train domain`.",
            show_default="as printed",
        ),
    ] = None,
    reward: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Reward function: a file as printed by `ccp train reward`.",
            show_default="as printed",
        ),
    ] = None,
) -> None:
    """Train Hyvar's policy with PPO. Ctrl-C stops and saves a checkpoint; `--resume` continues from it.

    Training needs ccplane's extra `train` (docs/learning.md); running a policy does not need it.
    """
    from experiments.learning import files, training

    if resume is not None:
        if domain is not None or reward is not None:
            raise LearningError(
                "learning.other_checkpoint",
                "a resumed training run keeps its domain and reward",
                "--resume",
                fix="leave out --domain and --reward, or start a new training run without --resume",
            )
        trainer, directory = training.resume(resume), resume
    else:
        directory = out or OUT / f"hyvar-{datetime.datetime.now():%Y%m%d-%H%M%S}"
        paths = files.load_domain(domain or files.DOMAIN)
        begun = training.Training(seed=seed, worlds=worlds, domain=paths)
        trainer = training.start(begun, directory, None if reward is None else files.load_reward(reward))
    _run(trainer, steps)
    checkpoint = training.last_checkpoint(directory)
    typer.echo(f"{checkpoint}: {trainer.steps} steps")


@app.command("domain", epilog=options.examples("ccp train domain > mine.yaml"))
def domain_() -> None:
    """Print the distribution of network paths that the shipped policy was trained on."""
    from experiments.learning import files

    typer.echo(files.text_of(files.DOMAIN), nl=False)


@app.command("reward", epilog=options.examples("ccp train reward hyvar > mine.py"))
def reward_(
    name: Annotated[
        str,
        typer.Argument(
            help="hyvar: reward of the shipped policy's training; slides: reward of Hyvar's slides."
        ),
    ] = "hyvar",
) -> None:
    """Print the Python file of a reward function."""
    from experiments.learning import files

    typer.echo(files.text_of(files.named(name)), nl=False)


@app.command("export", epilog=options.examples("ccp train export out/mine -o mine.safetensors"))
def export_(
    directory: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a training run.")],
    out: Annotated[
        Path,
        options.out(
            "File for the policy, *.safetensors. The SHA-256 of the policy goes next to the file, with the "
            "suffix .sha256.",
            metavar="FILE",
        ),
    ],
) -> None:
    """Write the policy of a training's last checkpoint to a file that Hyvar can load."""
    from experiments.learning import export, training

    typer.echo(f"{out}: sha256 {export.export(training.last_checkpoint(directory), out)}")


@app.command(
    "evaluate",
    epilog=options.examples("ccp train evaluate mine.safetensors", "ccp train evaluate seed-*.safetensors"),
)
def evaluate_(
    policies: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Policies, *.safetensors. Several policies, such as those of several seeds, are evaluated "
            "on top of CUBIC.",
            show_default="the shipped policy",
        ),
    ] = None,
    training_directory: Annotated[
        Path | None,
        typer.Option(
            "--training",
            metavar="FOLDER",
            help="Also evaluate the initial weights of the training run in this folder.",
        ),
    ] = None,
    paths: Annotated[int, typer.Option(min=1, help="Number of simulated paths.")] = 64,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one object for each path and algorithm.")
    ] = False,
) -> None:
    """Compare a policy with CUBIC, Reno and BBR on a fixed set of simulated paths."""
    from ccp_algs.hyvar.policy import SHIPPED, load_policy
    from experiments.learning.evaluation import Contender, evaluate

    acts = {file.stem: load_policy(file).actions for file in policies or [SHIPPED]}
    if len(acts) == 1:
        (act,) = acts.values()
        learned = {"hybrid": Contender(act), "policy": Contender(act, heuristic=None)}
    else:
        learned = {name: Contender(act) for name, act in acts.items()}
    contenders = {
        **learned,
        "cubic": Contender(),
        "reno": Contender(heuristic="reno"),
        "bbr": Contender(heuristic="bbr"),
    }
    if training_directory is not None:
        from experiments.learning import export, training

        config = training.training_of(training.last_checkpoint(training_directory))
        contenders["initial"] = Contender(export.initial_policy(config).actions)
    found = evaluate(contenders, n_paths=paths)
    if as_json:
        typer.echo(found.to_json(orient="records"))
    else:
        # A pipe has no width; names must not be cut there.
        (Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)).print(
            _table(found, list(acts) if len(acts) > 1 else [])
        )


def _table(found: pd.DataFrame, several: Sequence[str] = ()) -> Table:
    """Return medians over the paths, and quartiles of the per-path ratios to CUBIC.

    Args:
        found: Rows of `evaluate`.
        several: Contenders for which the last row has the median, minimum and maximum of those medians.
    """
    title = f"{found['path'].nunique()} paths: medians; [quartiles]"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("")
    for name in ("utilisation", "queueing [ms]", "loss", "throughput / CUBIC", "queueing / CUBIC"):
        table.add_column(escape(name), justify="right")
    cubic = found[found["contender"] == "cubic"].set_index("path")
    for name in found["contender"].unique():
        each = found[found["contender"] == name].set_index("path")
        ratios = [each[figure] / cubic[figure] for figure in ("utilisation", "queueing_us")]
        table.add_row(
            str(name),
            f"{each['utilisation'].median():.3f}",
            f"{each['queueing_us'].median() / 1e3:.2f}",
            f"{each['loss_ratio'].median():.2%}",
            *(_quartiles(ratio) for ratio in ratios),
        )
    if several:
        of = found[found["contender"].isin(several)]
        medians = of.groupby("contender")[["utilisation", "queueing_us", "loss_ratio"]].median()
        table.add_section()
        table.add_row(
            escape(f"median of {len(several)} [ends]"),
            _spread(medians["utilisation"], "{:.3f}"),
            _spread(medians["queueing_us"] / 1e3, "{:.2f}"),
            _spread(medians["loss_ratio"], "{:.2%}"),
        )
    return table


def _spread(values: pd.Series, text: str) -> str:
    return "{} [{}, {}]".format(*(text.format(one) for one in (values.median(), values.min(), values.max())))


def _quartiles(values: pd.Series) -> str:
    low, median, high = np.nanquantile(values, [0.25, 0.5, 0.75])
    return f"{median:.3f} [{low:.3f}, {high:.3f}]"


def _run(trainer: Trainer, steps: int) -> None:
    """Train with a progress bar; Ctrl-C stops before the next step, a second Ctrl-C immediately."""
    stopped = False

    def stop(_number: int, _frame: Any) -> None:
        nonlocal stopped
        stopped = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, stop)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    try:
        with Bar(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=steps, completed=trainer.steps)

            def reported(progress: Progress) -> None:
                bar.update(task, completed=progress.steps, description=_said(progress))

            trainer.run(steps, checkpoint_every=CHECKPOINT_EVERY, reported=reported, stopped=lambda: stopped)
    finally:
        signal.signal(signal.SIGINT, before)


def _said(progress: Progress) -> str:
    return (
        f"{progress.steps:,} steps  reward {progress.reward:.3f}  utilisation {progress.utilisation:.1%}"
        f"  RTT {progress.rtt_ratio:.2f} x base RTT  loss {progress.loss_ratio:.2%}"
    )
