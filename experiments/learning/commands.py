"""`ccp train`: train policies, look at what they do, export them."""

from __future__ import annotations

import datetime
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from experiments.learning.errors import LearningError

if TYPE_CHECKING:
    import pandas as pd

    from experiments.learning.training import Progress, Trainer

# The modules that work are imported by the commands: PyTorch takes seconds, and `ccp --help` imports this
# one.

OUT: Final = Path("out/training")
STEPS: Final = 2_500_000
CHECKPOINT_EVERY: Final = 100_000
_PIPE_WIDTH: Final = 120

app = typer.Typer(help="Train the policies of learned algorithms, in simulated worlds.", no_args_is_help=True)


@app.callback()
def _train() -> None:
    """Train the policies of learned algorithms, in simulated worlds."""


@app.command("hyvar")
def hyvar(
    out: Annotated[
        Path | None, typer.Option(help="Directory for checkpoints; by default one in out/training/.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the training of this directory, from its last checkpoint.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Intervals of all worlds, in total.")] = STEPS,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, actions and paths.")] = 1,
    worlds: Annotated[int, typer.Option(min=1, help="Simulated at once.")] = 256,
    domain: Annotated[
        Path | None, typer.Option(help="Paths to train on, a file as `ccp train domain` prints it.")
    ] = None,
    reward: Annotated[
        Path | None, typer.Option(help="What is good, a file as `ccp train reward` prints it.")
    ] = None,
    export_to: Annotated[
        Path | None,
        typer.Option("--export", help="At the end, write the policy to this file (*.safetensors)."),
    ] = None,
) -> None:
    """Train Hyvar's policy by PPO. Ctrl-C stops and keeps what was learned; `--resume` goes on.

    Needs the extra `train` of ccplane (docs/learning.md). Nothing of it is needed to run the policy.
    """
    from experiments.learning import export, files, training

    if resume is not None:
        if domain is not None or reward is not None:
            raise LearningError(
                "learning.other_checkpoint",
                "a training that goes on keeps its domain and reward",
                "--resume",
                fix="leave out --domain and --reward, or begin a training anew",
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
    if export_to is not None:
        typer.echo(f"{export_to}: sha256 {export.export(checkpoint, export_to)}")


@app.command("domain")
def domain_() -> None:
    """Print the domain that the shipped policy met, the paths of its training, to begin one's own from."""
    from experiments.learning import files

    typer.echo(files.text_of(files.DOMAIN), nl=False)


@app.command("reward")
def reward_(
    name: Annotated[
        str, typer.Argument(help="hyvar, what the shipped policy was trained with, or slides.")
    ] = "hyvar",
) -> None:
    """Print a reward, what a training calls good, to begin one's own from."""
    from experiments.learning import files

    typer.echo(files.text_of(files.named(name)), nl=False)


@app.command("export")
def export_(
    directory: Annotated[Path, typer.Argument(help="Of a training.")],
    file: Annotated[Path, typer.Argument(help="Where to, *.safetensors; the hash goes beside it.")],
) -> None:
    """Write the policy of a training's last checkpoint as the file that Hyvar reads."""
    from experiments.learning import export, training

    typer.echo(f"{file}: sha256 {export.export(training.last_checkpoint(directory), file)}")


@app.command("evaluate")
def evaluate_(
    policy: Annotated[
        Path | None, typer.Argument(help="A *.safetensors; by default the policy that ccplane comes with.")
    ] = None,
    training_directory: Annotated[
        Path | None, typer.Option("--training", help="Also the initial weights of this training.")
    ] = None,
    paths: Annotated[int, typer.Option(min=1, help="How many paths.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print every path as JSON.")] = False,
) -> None:
    """Show what a policy does on a fixed set of paths, beside CUBIC, Reno and BBR."""
    from ccp_algs.hyvar.policy import SHIPPED, load_policy
    from experiments.learning.evaluation import Contender, evaluate

    act = load_policy(policy or SHIPPED).actions
    contenders = {
        "hybrid": Contender(act),
        "policy": Contender(act, heuristic=None),
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
        # A pipe has no width; names should be whole there, too.
        (Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)).print(_table(found))


def _table(found: pd.DataFrame) -> Table:
    """Return medians over the paths, and quartiles of what is compared with CUBIC path by path."""
    table = Table(title=f"{found['path'].nunique()} paths: medians; [quartiles]", title_justify="left")
    table.add_column("")
    for name in ("utilisation", "queueing [ms]", "loss", "throughput/CUBIC's", "queueing/CUBIC's"):
        table.add_column(name, justify="right")
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
    return table


def _quartiles(values: pd.Series) -> str:
    low, median, high = np.nanquantile(values, [0.25, 0.5, 0.75])
    return f"{median:.3f} [{low:.3f}, {high:.3f}]"


def _run(trainer: Trainer, steps: int) -> None:
    """Train with a bar; Ctrl-C stops in front of the next step, a second one at once."""
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

            def told(progress: Progress) -> None:
                bar.update(task, completed=progress.steps, description=_said(progress))

            trainer.run(steps, checkpoint_every=CHECKPOINT_EVERY, told=told, stopped=lambda: stopped)
    finally:
        signal.signal(signal.SIGINT, before)


def _said(progress: Progress) -> str:
    return (
        f"{progress.steps:,} steps  reward {progress.reward:.3f}  utilisation {progress.utilisation:.1%}"
        f"  RTT {progress.rtt_ratio:.2f} of the empty path's  loss {progress.loss_ratio:.2%}"
    )
