import subprocess
import sys
from pathlib import Path

import pytest

from ccplane.agent.deadline import deadline
from ccplane.base.errors import CcpError
from experiments.demo.runs import EDITED, MINE
from experiments.play.session import Session, Setting

SLOW = MINE.read_text()
FAST = EDITED.read_text()
AIMD = Path("ccp_algs/example_aimd.py").read_text()
LOSSY = Setting(loss=0.005)


def of_kind(messages: list[dict], kind: str) -> list[dict]:
    return [one for one in messages if one["type"] == kind]


def goodput_mbit(messages: list[dict], flow: int = 0) -> list[float]:
    samples = of_kind(messages, "samples")
    return [8e-6 * (value or 0) for one in samples for value in one["flows"][flow]["goodput_bytes_per_s"]]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_samples_have_a_value_of_each_flow_every_50_ms() -> None:
    session = Session(Setting(flows=2, against="kernel/cubic"), AIMD)
    (samples,) = of_kind(session.advance(2.0), "samples")
    assert samples["t_s"] == pytest.approx([0.05 * number for number in range(1, 41)])
    assert [flow["name"] for flow in samples["flows"]] == ["aimd 1", "aimd 2", "kernel/cubic"]
    for flow in samples["flows"]:
        assert {len(flow[name]) for name in ("cwnd_bytes", "srtt_us", "goodput_bytes_per_s")} == {40}
        assert flow["srtt_us"][-1] >= 50_000
        assert flow["cwnd_bytes"][0] is None  # the handshake takes the first 50 ms
    total = sum(flow["goodput_bytes_per_s"][-1] for flow in samples["flows"])
    assert 0.8 * 12.5e6 < total < 12.5e6


def test_equal_messages_give_equal_samples_however_time_is_sliced() -> None:
    sessions = [Session(LOSSY, SLOW) for _ in range(2)]
    for session, slices in zip(sessions, ([1.0], [0.03] * 33 + [0.01]), strict=True):
        for piece in slices:
            session.advance(piece)
        session.handle({"type": "param", "name": "decrease", "value": 0.8})
        session.advance(1.0)
    assert sessions[0].digest == sessions[1].digest


def test_seed_source_and_message_change_the_digest() -> None:
    digests = set()
    for setting, source, message in (
        (LOSSY, SLOW, {"type": "pause"}),
        (Setting(loss=0.005, seed=2), SLOW, {"type": "pause"}),
        (LOSSY, FAST, {"type": "pause"}),
        (LOSSY, SLOW, {"type": "path", "rate_bytes_per_s": 1e6}),
    ):
        session = Session(setting, source)
        session.advance(2.0)
        session.handle(message)
        session.handle({"type": "resume"})
        session.advance(2.0)
        digests.add(session.digest)
    assert len(digests) == 4


def test_flows_switch_to_an_edited_version() -> None:
    session = Session(LOSSY, SLOW)
    before = goodput_mbit(session.advance(10))
    (mark,) = of_kind(session.handle({"type": "edit", "source": FAST}), "mark")
    after = goodput_mbit(session.advance(10))
    assert (mark["kind"], mark["t_s"]) == ("save", 10.0)
    assert mean(after) > 5 * mean(before)


def test_saving_without_a_change_does_nothing() -> None:
    session = Session(LOSSY, SLOW)
    (mark,) = of_kind(session.handle({"type": "edit", "source": SLOW}), "mark")
    assert mark["text"] == "saved without a change"


@pytest.mark.parametrize(
    ("wrong", "slug"),
    [
        (AIMD.replace("def on_report", "def on_report(("), "reload.import_failed"),
        (AIMD.replace("report.lost", "report.lst"), "contract.unknown_field"),
        (AIMD.replace("Ack.lost_pkts_sample)", "Ack.nothing)"), "fold.unknown_primitive"),
        (
            AIMD.replace("self.flow.set(cwnd_bytes=cwnd)", "self.flow.set(cwnd_bytes=-1)"),
            "contract.bad_value",
        ),
        ("", "reload.no_algorithm"),
    ],
)
def test_a_refused_source_leaves_the_flows_as_they_were(wrong: str, slug: str) -> None:
    edited, untouched = Session(LOSSY, AIMD), Session(LOSSY, AIMD)
    for session in (edited, untouched):
        session.advance(1.0)
    said = edited.handle({"type": "edit", "source": wrong})
    assert [one["kind"] for one in of_kind(said, "mark")] == ["error"]
    assert of_kind(said, "error")[0]["text"].startswith(slug)
    for session in (edited, untouched):
        session.advance(2.0)
    assert edited.digest == untouched.digest


RAISING = (
    "        if report.now_us > 3_500_000:\n            raise ValueError('too late')\n        cwnd, mss ="
)


def test_flows_return_to_the_previous_version_if_a_callback_raises() -> None:
    session = Session(Setting(), AIMD)
    session.advance(2.0)
    session.handle({"type": "edit", "source": AIMD.replace("        cwnd, mss =", RAISING)})
    said = session.advance(1.0)
    assert "returned to the previous version" in of_kind(said, "error")[0]["text"]
    assert "ValueError: too late" in of_kind(said, "error")[0]["text"]
    session.handle({"type": "param", "name": "increase_pkts", "value": 2})
    assert of_kind(session.advance(1.0), "error") == []


def test_a_first_version_that_raises_leaves_the_flow_to_the_fallback_until_the_next_edit() -> None:
    session = Session(Setting(), AIMD.replace("        cwnd, mss =", RAISING))
    said = session.advance(4.0)
    assert [one["kind"] for one in of_kind(said, "mark")] == ["error"]
    assert "fallback" in of_kind(said, "error")[0]["text"]
    assert mean(goodput_mbit(session.advance(2.0))) > 80
    session.handle({"type": "edit", "source": AIMD.replace("min=0.1, max=0.9", "min=0.2, max=0.9")})
    session.handle({"type": "path", "rate_bytes_per_s": 1e6})
    assert 2 < mean(goodput_mbit(session.advance(5.0))[-40:]) < 8


def test_an_endless_loop_in_a_callback_can_be_interrupted() -> None:
    looping = RAISING.replace("raise ValueError('too late')", "\n            while True: pass")
    session = Session(Setting(flows=2), AIMD.replace("        cwnd, mss =", looping))
    with deadline(2.0):
        said = session.advance(4.0)
    assert "play.too_slow" in of_kind(said, "error")[0]["text"]
    assert len(of_kind(said, "samples")[0]["t_s"]) == 80
    assert sum(mean(goodput_mbit(session.advance(1.0), flow)) for flow in (0, 0)) > 40


def test_parameters_are_set_and_checked() -> None:
    session = Session(Setting(), AIMD, params={"decrease": "0.7"})
    values = {one["name"]: one for one in session.state()["params"]}
    assert (values["decrease"]["value"], values["decrease"]["max"]) == (0.7, 0.9)
    session.advance(0.5)
    said = session.handle({"type": "param", "name": "decrease", "value": "0.8"})
    assert of_kind(said, "mark") == [{"type": "mark", "t_s": 0.5, "kind": "param", "text": "decrease=0.8"}]
    for name, value in (("decrease", 8), ("decrese", 0.8), ("decrease", None)):
        said = session.handle({"type": "param", "name": name, "value": value})
        assert of_kind(said, "error")[0]["text"].startswith("param.")
    assert {one["name"]: one["value"] for one in session.state()["params"]}["decrease"] == 0.8


def test_the_path_changes_while_flows_run() -> None:
    session = Session(Setting(), AIMD)
    session.advance(5.0)
    said = session.handle({"type": "path", "rate_bytes_per_s": 1.25e6, "rtt_us": 20_000, "loss": 0.001})
    assert of_kind(said, "mark")[0]["text"] == "10 Mbit/s, 20 ms, buffer 1 BDP, loss 0.1%"
    assert of_kind(said, "state")[0]["setting"]["rtt_us"] == 20_000
    (samples,) = of_kind(session.advance(5.0), "samples")
    (flow,) = samples["flows"]
    assert 7 < 8e-6 * mean(flow["goodput_bytes_per_s"][-20:]) < 10
    assert min(flow["srtt_us"][-20:]) >= 20_000
    assert max(flow["srtt_us"][-20:]) < 45_000  # at most one BDP of the new path is queued


@pytest.mark.parametrize(
    ("message", "slug"),
    [
        ({"type": "path", "loss": 2}, "play.bad_setting"),
        ({"type": "path", "rate_bytes_per_s": "much"}, "play.bad_setting"),
        ({"type": "path", "flows": 3}, "play.bad_setting"),
        ({"type": "speed", "value": 0}, "play.bad_setting"),
        ({"type": "edit"}, "play.bad_message"),
        ({"type": "restart", "setting": {"rate": 5}}, "play.bad_setting"),
        ({"type": "restart", "source": "import nothing_of_this_name"}, "reload.import_failed"),
        ({"type": "jump"}, "play.bad_message"),
        ({}, "play.bad_message"),
    ],
)
def test_wrong_messages_change_nothing(message: dict, slug: str) -> None:
    session = Session(Setting(), AIMD)
    session.advance(0.5)
    before = session.state()
    said = session.handle(message)
    (error,) = of_kind(said, "error")
    assert error["text"].startswith(slug)
    assert said[-1] == before


def test_a_restart_begins_at_time_0() -> None:
    session = Session(Setting(), AIMD)
    session.advance(1.0)
    first = session.digest
    setting = {"rate_bytes_per_s": 1e6, "flows": 2, "duration_s": 0.5}
    (state,) = session.handle({"type": "restart", "setting": setting, "source": SLOW})
    assert (state["t_s"], state["algorithm"], state["setting"]["flows"]) == (0.0, "mine", 2)
    said = session.advance(5.0)
    assert of_kind(said, "samples")[0]["t_s"][-1] == 0.5
    assert not session.running
    assert session.advance(1.0) == []
    session.handle({"type": "restart", "setting": {}, "source": AIMD})
    session.advance(1.0)
    assert session.digest == first


def test_pause_and_speed() -> None:
    session = Session(Setting(), AIMD)
    session.handle({"type": "pause"})
    assert session.advance(1.0) == []
    session.handle({"type": "resume"})
    session.handle({"type": "speed", "value": 4})
    assert of_kind(session.advance(0.5), "samples")[0]["t_s"][-1] == 2.0


@pytest.mark.parametrize(
    ("against", "name"), [("kernel/reno", "kernel/reno"), ("cubic", "cubic"), ("aimd", "aimd (rival)")]
)
def test_a_competitor_shares_the_path(against: str, name: str) -> None:
    session = Session(Setting(against=against), AIMD)
    said = session.advance(20.0)
    assert [flow["name"] for flow in of_kind(said, "samples")[0]["flows"]] == ["aimd", name]
    shares = [mean(goodput_mbit(said, flow)[-200:]) for flow in range(2)]
    assert min(shares) > 5
    assert sum(shares) > 80


@pytest.mark.parametrize("against", ["kernel/none", "none_of_ours"])
def test_unknown_competitors_are_refused(against: str) -> None:
    with pytest.raises(CcpError, match="none"):
        Session(Setting(against=against), AIMD)


def test_settings_are_checked() -> None:
    for data, place in (({"rtt_us": 0}, "rtt_us"), ({"rate": 1}, "rate"), ({"flows": 99}, "flows")):
        with pytest.raises(CcpError) as caught:
            Setting.of(data)
        assert (caught.value.slug, caught.value.where) == ("play.bad_setting", place)
    setting = Setting(against="cubic", duration_s=3)
    assert Setting.of(setting.as_dict()) == setting


def test_a_session_imports_nothing_that_a_browser_lacks() -> None:
    shown = "import sys, experiments.play.session; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    lacking = {"numpy", "zmq", "paho", "pandas", "rich", "typer", "yaml", "pyroute2", "multiprocessing"}
    assert not lacking & set(done.stdout.split())
