"""The work of `ccp play`: starts a player and a display, and carries messages between the two."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import typer
from rich.console import Console

from ccplane.agent import params
from ccplane.agent.algorithms import find
from ccplane.agent.source import read
from ccplane.base.errors import UsageError
from ccplane.datapath import registry
from experiments.demo.where import choose
from experiments.play.history import History
from experiments.play.player import Player, SimPlayer
from experiments.play.screen import FullScreen, Lines, Screen, line_of
from experiments.play.server import Browser, must_have_page
from experiments.play.session import Session
from experiments.play.setting import Setting

WAIT_S: Final = 0.03
"""Time that one turn waits for keys [s]."""


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

    Attributes:
        file: File of the algorithm: `FILE.py` or `FILE.py:Class`.
        setting: The path and the flows.
        params: `NAME=VALUE` each.
        sim: Whether to use the simulator in any case.
        speed: Virtual seconds per second, in the simulator.
        browser: Whether to show a page instead of the terminal.
    """

    file: str
    setting: Setting
    params: Sequence[str] = field(default_factory=tuple)
    sim: bool = False
    speed: float = 1.0
    browser: bool = False


def play(order: Order) -> None:
    """Play until the duration is over, the user ends it, or Ctrl-C.

    Raises:
        CcpError: If the algorithm, a parameter or the path is invalid, or the datapath cannot be used.
    """
    file, _, class_name = order.file.partition(":")
    if not file.endswith(".py"):
        raise UsageError(
            "play.no_file",
            f"`{order.file}` is not the file of an algorithm",
            where=order.file,
            why="`ccp play` reloads a file whenever it is saved",
            fix=_fix(order.file),
        )
    source = read(file)
    values = params.parse(order.params)
    if order.browser:
        must_have_page()
    where = choose(registry.SIM if order.sim else None)
    logging.getLogger("ccplane").addHandler(logging.NullHandler())  # the display shows errors
    player: Player
    if where.datapath == registry.SIM:
        session = Session(
            order.setting,
            source.text,
            file=source.file,
            class_name=class_name,
            params=values,
            speed=order.speed,
        )
        player = SimPlayer(session)
    else:
        from experiments.play.kernel import KernelPlayer  # takes long to import

        with Console(stderr=True).status("building the network and starting the agent"):
            player = KernelPlayer(order.setting, order.file, values)
    history = History()
    history.take([player.state()])
    title = f"ccp play {Path(file).name}  {where.name}"
    notice = (
        f"not on real sockets: {where.why}" + (f"; {where.fix}" if where.fix else "") if where.why else ""
    )
    is_expected = os.geteuid() != 0
    if notice and not is_expected:
        typer.echo(notice)
    with contextlib.closing(player), _ended_by_signals():
        if order.browser:
            _serve(player, history, title)
        else:
            _show(player, history, title, "" if is_expected else notice)
    typer.echo(goodbye(order, history))
    if notice and is_expected:
        typer.echo(notice)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the block at SIGTERM and SIGHUP as at Ctrl-C, so that nothing stays behind."""

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(player: Player, history: History, title: str, notice: str) -> None:
    console = Console()
    if console.is_terminal and sys.stdin.isatty():
        screen = FullScreen(history, title, console, notice)
        with screen.on():
            carry(player, screen)
    else:
        typer.echo(f"{title}: {Setting.of(history.state['setting']).path_text()}")
        carry(player, Lines(history, console))


def _serve(player: Player, history: History, title: str) -> None:
    browser = Browser(history, player.source)
    with browser.serving():
        typer.echo(f"{title}\n{browser.url}\nOpen this address in a browser on this machine; Ctrl-C ends.")
        carry(player, browser)


def carry(player: Player, screen: Screen) -> None:
    """Carry messages between a player and a display until one of the two ends."""
    while not player.over:
        asked = screen.wait(WAIT_S)
        if asked is None:
            break
        said = [answer for message in asked for answer in player.handle(message)]
        screen.show(said + player.poll())


def goodbye(order: Order, history: History) -> str:
    """Return the last lines: what was seen, and how to continue from there."""
    state = history.state
    setting = Setting.of(state["setting"])
    flows = "".join(f"\n  {line_of(flow, len(history.times))}" for flow in history.flows)
    words = ["ccp play", order.file, *path_options(setting), *(["--sim"] if order.sim else [])]
    given = dict(value.partition("=")[::2] for value in order.params)
    for one in state["params"]:
        if one["value"] != one["default"] or one["name"] in given:
            words += ["-p", f"{one['name']}={one['value']}"]
    return (
        f"{history.now_s:.1f} s{flows and ', means:'}{flows}\ndigest {state['digest']}\n"
        f"continue:  {' '.join(words)}\non this machine's connections:  sudo ccp run {order.file} --reload"
    )


def path_options(setting: Setting) -> list[str]:
    """Return the options that describe a setting; defaults are left out."""
    usual = Setting()
    options = {
        "--rate": (
            setting.rate_bytes_per_s,
            usual.rate_bytes_per_s,
            f"{setting.rate_bytes_per_s / 125_000:.6g}mbit",
        ),
        "--rtt": (setting.rtt_us, usual.rtt_us, f"{setting.rtt_us / 1000:g}ms"),
        "--loss": (setting.loss, usual.loss, f"{100 * setting.loss:g}%"),
        "--buffer": (setting.buffer_bdp, usual.buffer_bdp, f"{setting.buffer_bdp:.6g}bdp"),
        "--flows": (setting.flows, usual.flows, str(setting.flows)),
        "--against": (setting.against, usual.against, str(setting.against)),
        "--seed": (setting.seed, usual.seed, str(setting.seed)),
    }
    return [
        word for name, (value, default, text) in options.items() if value != default for word in (name, text)
    ]


def _fix(name: str) -> str:
    try:
        find(name)
    except UsageError:
        return "give a file that ends in .py; `ccp new mine` writes one"
    return f"`ccp new mine` writes a file to start from; `ccp simulate {name}` simulates this algorithm"
