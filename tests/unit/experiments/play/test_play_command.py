import os
import pty
import re
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ccplane.base.errors import CcpError
from experiments.agent_process import ccp
from experiments.demo.where import Where
from experiments.play.command import app
from experiments.play.messages import Message
from experiments.play.player import SimPlayer
from experiments.play.session import Session, Setting

AIMD = Path("ccp_algs/example_aimd.py").read_text()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "mine.py"
    made.write_text(AIMD)
    return made


@pytest.fixture
def player(file: Path) -> Iterator[SimPlayer]:
    made = SimPlayer(Session(Setting(), AIMD, file=str(file)))
    yield made
    made.close()


def until(player: SimPlayer, wanted: Callable[[Message], bool]) -> Message:
    for _ in range(6000):
        for message in player.poll():
            if wanted(message):
                return message
        time.sleep(0.01)
    raise AssertionError("the message did not come")


def is_mark(kind: str) -> Callable[[Message], bool]:
    return lambda message: message["type"] == "mark" and message["kind"] == kind


def test_a_saved_file_reaches_the_flows(file: Path, player: SimPlayer) -> None:
    file.write_text(AIMD.replace("0.5, min", "0.6, min"))
    until(player, is_mark("save"))
    state = until(player, lambda message: message["type"] == "state")
    assert {one["name"]: one["value"] for one in state["params"]}["decrease"] == 0.6


def test_a_refused_file_is_reported_and_ends_with_the_next_save(file: Path, player: SimPlayer) -> None:
    file.write_text(AIMD + "no such statement")
    mark = until(player, is_mark("error"))
    assert mark["text"].startswith("reload.import_failed")
    file.write_text(AIMD)
    assert until(player, is_mark("save"))["text"] == "saved without a change"


def test_an_endless_loop_is_refused_before_it_reaches_the_session(
    file: Path, player: SimPlayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player._loader, "_prepare_s", 0.5)
    file.write_text(AIMD.replace("cwnd, mss =", "while True: pass\n        cwnd, mss ="))
    assert until(player, is_mark("error"))["text"].startswith("reload.too_slow")
    assert until(player, lambda message: message["type"] == "samples")


def test_a_module_next_to_the_file_and_a_replaced_link(tmp_path: Path) -> None:
    for version, value in (("one", 0.6), ("two", 0.7)):
        folder = tmp_path / version
        folder.mkdir()
        (folder / "mine.py").write_text(
            "from beside import DECREASE\n" + AIMD.replace("0.5, min", "DECREASE, min")
        )
        (folder / "beside.py").write_text(f"DECREASE = {value}\n")
    (tmp_path / "current").symlink_to("one")
    file = tmp_path / "current/mine.py"
    player = SimPlayer(Session(Setting(), file.read_text(), file=str(file)))
    try:
        (tmp_path / "next").symlink_to("two")
        os.replace(tmp_path / "next", tmp_path / "current")  # as a ConfigMap is updated
        until(player, is_mark("save"))
        state = until(player, lambda message: message["type"] == "state")
        assert {one["name"]: one["value"] for one in state["params"]}["decrease"] == 0.7
    finally:
        player.close()


def test_sources_of_a_page_are_checked_first(player: SimPlayer) -> None:
    assert player.handle({"type": "edit", "source": "no"}) == []
    assert until(player, is_mark("error"))["text"].startswith("reload.import_failed")
    assert player.handle({"type": "restart", "setting": {"flows": 2}, "source": AIMD}) == []
    until(player, lambda message: message["type"] == "samples" and len(message["flows"]) == 2)


def test_a_restart_keeps_watching_the_file(file: Path, player: SimPlayer) -> None:
    player.handle({"type": "restart", "setting": {"flows": 2}})
    file.write_text(AIMD + "\n")
    until(player, is_mark("save"))


def test_plain_output(file: Path) -> None:
    done = subprocess.run(
        [
            *ccp(
                "play",
                str(file),
                "--sim",
                "--speed",
                "20",
                "-t",
                "3",
                "--rate",
                "20mbit",
                "--against",
                "kernel/reno",
                "--buffer",
                "2bdp",
                "-p",
                "decrease=0.7",
            )
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "ccp play mine.py  simulated: 20 Mbit/s, 50 ms, buffer 2 BDP, loss 0%"
    assert [line.split()[0] for line in lines[1:4]] == ["1.00", "2.00", "3.00"]
    assert "continue:  ccp play" in done.stdout
    (again,) = re.findall("continue:  ccp (.*)", done.stdout)
    assert shlex.split(again)[2:] == [
        "--rate", "20mbit", "--buffer", "2bdp", "--against", "kernel/reno", "--sim", "-p", "decrease=0.7"
    ]  # fmt: skip
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        (["cubic"], "play.no_file"),
        (["absent.py"], "reload.not_readable"),
        (["{file}", "--against", "nothing"], "registry.unknown"),
        (["{file}", "--buffer", "64kb"], "option.bad_quantity"),
        (["{file}", "-p", "decrease=5"], "param.out_of_range"),
        (["{file}", "-p", "decrees=5"], "param.unknown"),
    ],
)
def test_mistakes_on_the_command_line(file: Path, arguments: list[str], slug: str) -> None:
    words = [word.format(file=file) for word in arguments]
    result = CliRunner().invoke(app, [*words, "--sim", "-t", "1"])
    assert isinstance(result.exception, CcpError)
    assert result.exception.slug == slug


def test_root_sees_first_why_the_flows_are_not_on_real_sockets(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.play.play.choose", lambda _: Where("sim", "no iperf3", "install iperf3"))
    for user, place in ((0, 0), (1000, -1)):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        lines = CliRunner().invoke(app, [str(file), "-t", "0.1"]).stdout.splitlines()
        assert lines[place] == "not on real sockets: no iperf3; install iperf3"
        assert lines.count(lines[place]) == 1


def test_a_terminal_shows_the_picture_and_keys_work(file: Path) -> None:
    own, other = pty.openpty()
    process = subprocess.Popen(
        ccp("play", str(file), "--sim"),
        stdin=other,
        stdout=other,
        stderr=other,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"},
        start_new_session=True,
    )
    os.close(other)
    killer = threading.Timer(100, process.kill)
    killer.start()
    seen = ""
    keys = {"window [kB]": b":rate=40mbit\r", "40 Mbit/s": b"\t+", "decrease=0.54": b"q"}
    try:
        while True:
            select.select([own], [], [])
            try:
                data = os.read(own, 65536)
            except OSError:  # the process has ended
                break
            seen += data.decode(errors="replace")
            for text in [text for text in keys if text in seen]:
                os.write(own, keys.pop(text))
    finally:
        killer.cancel()
        os.close(own)
    assert process.wait() == 0
    assert keys == {}
    assert f"continue:  ccp play {file} --rate 40mbit --sim -p decrease=0.54" in seen
