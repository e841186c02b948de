import io
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from ccplane.agent.monitor.spark import axis_top
from ccplane.base.errors import CcpError
from experiments.play import terminal
from experiments.play.chart import LABEL_WIDTH, Curve, Span, axis, chart
from experiments.play.controls import Controls, buffer_of
from experiments.play.history import History
from experiments.play.picture import picture
from experiments.play.screen import FullScreen, Lines, line_of
from experiments.play.session import Session, Setting
from experiments.play.terminal import split

AIMD = Path("ccp_algs/example_aimd.py").read_text()


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session(Setting(against="kernel/cubic"), AIMD)
    yield made
    made.close()


@pytest.fixture
def history(session: Session) -> History:
    history = History()
    history.take([session.state()])
    history.take(session.advance(3.0))
    return history


def lines_of(history: History, width: int = 100, lines: int = 30) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(picture(history, "ccp play", width, lines))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


def test_a_chart_draws_values_where_they_belong() -> None:
    span = Span(0.0, 10.0, 10)
    rising = Curve([(float(t_s), 10.0 * t_s) for t_s in range(11)], "red")
    lines = [line.plain[LABEL_WIDTH:] for line in chart([rising], span, 5)]
    assert [line.plain[:LABEL_WIDTH].strip() for line in chart([rising], span, 5)] == [
        "100┤",
        "│",
        "50┤",
        "│",
        "0┤",
    ]
    first = [min(column for column in range(10) if line[column] != " ") for line in lines]
    assert first == sorted(first, reverse=True)
    assert (lines[0][9] != " ", lines[4][0] != " ") == (True, True)
    flat = chart([Curve([(0.0, 0.0), (5.0, None), (7.0, 0.0), (10.0, 0.0)], "red")], span, 3)
    assert flat[2].plain[LABEL_WIDTH:].count(" ") > 4  # no line where there is no value


def test_marks_are_vertical_lines_and_symbols() -> None:
    span = Span(0.0, 10.0, 41)
    assert all(line.plain[LABEL_WIDTH + 20] == "┊" for line in chart([], span, 4, marks=[5.0, 99.0]))
    ticks, times = axis(span, [(5.0, "S", "green")])
    assert ticks.plain[LABEL_WIDTH + 20] == "S"
    assert times.plain.split() == ["time", "[s]0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]


def test_tops_of_axes_are_round_and_above_the_value() -> None:
    for value in (0.003, 0.9, 1, 7, 62.5, 101, 125, 34_000):
        top = axis_top(value)
        assert value <= top <= 1.5 * value
        assert float(f"{top:.2g}") == top


@pytest.mark.parametrize(("width", "lines"), [(80, 24), (110, 34), (200, 60)])
def test_the_picture_fits_the_terminal(history: History, width: int, lines: int) -> None:
    shown = lines_of(history, width, lines)
    assert len(shown) <= lines
    assert max(map(len, shown)) <= width
    text = "\n".join(shown)
    for word in (
        "goodput [Mbit/s]",
        "RTT [ms]",
        "window [kB]",
        "time [s]",
        "━ aimd",
        "decrease=0.5",
        "q quit",
    ):
        assert word in text


def test_the_picture_shows_marks_errors_and_the_path(session: Session, history: History) -> None:
    history.take(session.handle({"type": "param", "name": "decrease", "value": 0.8}))
    history.take(session.handle({"type": "path", "rate_bytes_per_s": 1e6}))
    history.take(session.handle({"type": "edit", "source": "import \x1b[2Jno"}))
    shown = lines_of(history)
    assert "8 Mbit/s" in shown[0]
    assert "reload.import_failed" in "\n".join(shown)
    assert "\x1b" not in "\n".join(shown)
    history.take(session.handle({"type": "edit", "source": AIMD + "\n"}))
    shown = lines_of(history)
    assert [line for line in shown if line.startswith(("P 3.0 s", "N 3.0 s", "S 3.0 s", "E 3.0 s"))]
    assert any(line.count("┊") == 1 for line in shown)


def test_a_restart_clears_the_picture(session: Session, history: History) -> None:
    history.take(session.handle({"type": "restart", "setting": {}}))
    assert (history.now_s, list(history.marks)) == (0.0, [])
    history.take(session.advance(0.5))
    assert [flow.name for flow in history.flows] == ["aimd"]


def test_keys_change_path_parameters_and_speed(session: Session, history: History) -> None:
    controls = Controls(history)
    for key in ("up", "right", "L", "B", "+", ">", "tab", "-"):
        for message in controls.key(key):
            history.take(session.handle(message))
    state = session.state()
    setting = Setting.of(state["setting"])
    assert setting.path == (15_625_000, 62_500, 1.25, 0.001)
    values = {one["name"]: one["value"] for one in state["params"]}
    assert (values["increase_pkts"], values["decrease"]) == (1.1, 0.46)
    assert state["speed"] == 2
    for key in ("down", "left", "l", "b"):
        (message,) = controls.key(key)
        history.take(session.handle(message))
    assert Setting.of(session.state()["setting"]).path == (12.5e6, 50_000, 1.0, 0.0)
    for message in controls.key(" "):
        history.take(session.handle(message))
    assert not session.running
    assert controls.key(" ") == [{"type": "resume"}]
    assert controls.key("x") == []


def test_parameters_stay_in_their_range(session: Session, history: History) -> None:
    controls = Controls(history)
    controls.key("tab")
    for _ in range(30):
        for message in controls.key("+"):
            history.take(session.handle(message))
    assert controls.selected is not None
    assert (controls.selected["value"], history.error) == (0.9, "")


def test_typed_lines(history: History) -> None:
    controls = Controls(history)
    assert controls.typed("rate=20mbit rtt=80ms loss=1% buffer=2bdp decrease=0.8 speed=2") == [
        {"type": "path", "rate_bytes_per_s": 2.5e6, "rtt_us": 80_000, "loss": 0.01, "buffer_bdp": 2.0},
        {"type": "param", "name": "decrease", "value": "0.8"},
        {"type": "speed", "value": 2.0},
    ]
    assert controls.typed("  ") == []
    for line in ("rate", "rate=", "rate=fast", "loss=some", "rate=20mbit losss=1%"):
        with pytest.raises(CcpError):
            controls.typed(line)
    with pytest.raises(CcpError, match=r"option\.bad_quantity"):
        buffer_of("64kb")


def test_an_unknown_name_in_a_typed_line_is_refused_with_the_names_that_are_near(history: History) -> None:
    with pytest.raises(CcpError, match=r"`losss`") as caught:
        Controls(history).typed("losss=1%")
    assert "`loss`" in caught.value.fix
    with pytest.raises(CcpError) as caught:
        Controls(history).typed("x=1")
    assert {"rate", "rtt", "loss", "buffer", "speed", "decrease"} <= set(re.findall(r"\w+", caught.value.fix))


def test_a_typed_or_pasted_line_is_taken_at_once(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = FullScreen(history, "ccp play", Console(file=io.StringIO()))
    typed = [*":rate=20mbit", "enter", "tab", *":loss=1%", "enter", "q"]
    monkeypatch.setattr(terminal, "keys", lambda _timeout_s: [typed.pop(0) for _ in list(typed)])
    assert screen.wait(0.0) == [{"type": "path", "rate_bytes_per_s": 2.5e6}]
    assert screen.wait(0.0) == []
    assert screen.wait(0.0) == [{"type": "path", "loss": 0.01}]
    assert screen.wait(0.0) is None


def test_a_full_screen_begins_with_the_notice(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "single_keys", nullcontext)
    file = io.StringIO()
    console = Console(file=file, width=100, height=30, force_terminal=True, color_system=None)
    screen = FullScreen(history, "ccp play", console, "not on real sockets: no iperf3")
    with screen.on():
        screen.show([])
    assert "not on real sockets: no iperf3" in file.getvalue()


def test_what_terminals_send_terminals_send_for_keys() -> None:
    assert split("\x1b[A\x1bOBq:\t\r\x7f\x1b") == [
        "up",
        "down",
        "q",
        ":",
        "tab",
        "enter",
        "backspace",
        "escape",
    ]


def test_plain_output_has_a_line_per_second(session: Session) -> None:
    history = History()
    history.take([session.state()])
    file = io.StringIO()
    screen = Lines(history, Console(file=file))
    for _ in range(25):
        screen.show(session.advance(0.1))
    screen.show(session.handle({"type": "param", "name": "decrease", "value": 7}))
    screen.show(session.handle({"type": "param", "name": "decrease", "value": 0.7}))
    lines = file.getvalue().splitlines()
    assert [line[:10].strip() for line in lines[:2]] == ["1.00 s", "2.00 s"]
    assert "aimd: " in lines[0]
    assert "kernel/cubic: " in lines[0]
    assert lines[2].startswith("   2.50 s  error: param.out_of_range")
    assert lines[-1] == "   2.50 s  param: decrease=0.7"


def test_a_line_has_means_of_its_samples(history: History) -> None:
    flow = history.flows[0]
    flow.cwnd_bytes.extend([10_000, 30_000])
    flow.srtt_us.extend([20_000, 40_000])
    flow.goodput_bytes_per_s.extend([125_000, 375_000])
    assert line_of(flow, 2) == "aimd: 2.0 Mbit/s, RTT 30.0 ms, window 20.0 kB"
