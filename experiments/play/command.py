"""`ccp play`: an algorithm over a path, drawn live while its file is edited."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from ccplane.base import options
from experiments.units import MBIT

# The modules that play are imported by the command: `ccp --help` imports this module.

RATE_MBIT: Final = 100.0
RTT_MS: Final = 50.0

app = typer.Typer(add_completion=False)


def _buffer(text: object) -> float:
    from experiments.play.controls import buffer_of

    return buffer_of(text)


@app.command(
    epilog=options.examples(
        "ccp new mine",
        "ccp play mine.py",
        "ccp play mine.py --rate 20mbit --rtt 80ms --loss 0.5% --against kernel/cubic",
        "ccp play mine.py -p decrease=0.7 --flows 3 --speed 5 -t 60",
        "sudo ccp play mine.py --browser",
    )
)
def play(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="File of the algorithm: FILE.py, or FILE.py:Class.")
    ],
    param: Annotated[list[str] | None, options.param()] = None,
    rate_mbit: Annotated[
        float, options.rate("--rate", unit="mbit", help="Rate of the path", min=0.01, max=10_000)
    ] = options.in_unit(RATE_MBIT, "mbit"),
    rtt_ms: Annotated[
        float,
        options.duration("--rtt", unit="ms", help="RTT of the path without queueing", min=0.01, max=10_000),
    ] = options.in_unit(RTT_MS, "ms"),
    loss: Annotated[float, options.ratio("--loss", help="Random packet loss")] = 0.0,
    buffer_bdp: Annotated[
        float,
        typer.Option(
            "--buffer",
            parser=_buffer,
            metavar="BDP",
            help="Buffer of the path in bandwidth-delay products, such as 0.5 or 2bdp.",
        ),
    ] = options.in_unit(1.0, "bdp"),
    flows: Annotated[int, typer.Option(min=1, max=8, help="Flows of the algorithm.")] = 1,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="ALGORITHM",
            help="Add a competing flow: kernel/NAME, or an algorithm of ccplane.",
            show_default="none",
        ),
    ] = None,
    sim: Annotated[
        bool, typer.Option("--sim", help="Simulate, even where real sockets could be used.")
    ] = False,
    speed: Annotated[
        float, typer.Option(min=0.01, max=100, help="Simulated seconds per second; simulator only.")
    ] = 1.0,
    browser: Annotated[
        bool, typer.Option("--browser", help="Show a page on this machine instead, and print its address.")
    ] = False,
    seconds: Annotated[
        float | None, options.seconds("Duration of the flows", min=0.1, show_default="until Ctrl-C")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the losses.", rich_help_panel=options.ADVANCED)
    ] = 1,
) -> None:
    """Play an algorithm over a path, and draw it live; change file, parameters and path while it runs.

    Every save of FILE reloads it. Keys, listed on the screen, change the path and the parameters.
    As root on a prepared host: real sockets over an emulated path; else: the simulator, in real time.
    """
    from experiments.play.play import Order
    from experiments.play.play import play as run
    from experiments.play.setting import Setting

    setting = Setting.of(
        {
            "rate_bytes_per_s": float(rate_mbit * MBIT),
            "rtt_us": round(rtt_ms * 1000),
            "loss": loss,
            "buffer_bdp": float(buffer_bdp),
            "flows": flows,
            "against": against,
            "seed": seed,
            "duration_s": seconds,
        }
    )
    run(Order(file, setting, param or (), sim=sim, speed=speed, browser=browser))
