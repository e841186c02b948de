"""`ccp regime apply` applies decisions; bus and actuator are fakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path as File
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from broker.options import BusOptions
from ccplane.agent import cli
from ccplane.agent.features.regime import commands as command
from ccplane.agent.features.regime import host
from ccplane.agent.features.regime import loop as looping
from ccplane.agent.features.regime.actuator import FAIL_SAFE, REFUSED, SWITCHED, RegimeEvent, Regimes
from ccplane.agent.features.regime.errors import SLUGS, SwitchError
from ccplane.agent.features.regime.loop import Loop
from ccplane.agent.features.regime.namespace import inside
from ccplane.agent.features.regime.sockets import cgroup_root
from telemetry.regime.detector import SHARED, SINGLE_OWNER
from telemetry.regime.follow import Follower, Path
from telemetry.schema import AgentStatus, Body, FlowId, RegimeDecision, Sample
from telemetry.status import online

ME, NEAR = "10.0.0.1", "10.0.0.2"
PATH = Path(ME, NEAR)
FLOW = FlowId(src=ME, src_port=5000, dst=NEAR, dst_port=80)
SECOND_US = 1_000_000
TESTS = File(__file__).parents[2]


class FakeInbox:
    def __init__(
        self, options: BusOptions, *, sender: str, status: AgentStatus, wake: Any, kinds: Any
    ) -> None:
        self.sender, self.kinds = sender, kinds
        self.samples: list[Sample] = []
        self.published: list[Body] = []
        self.connected = True
        self.said: list[str] = []

    def start(self) -> None:
        self.said.append("start")

    def drain(self) -> list[Sample]:
        samples, self.samples = self.samples, []
        return samples

    def publish(self, body: Body) -> None:
        self.published.append(body)

    def flush(self, timeout_s: float) -> bool:
        self.said.append("flush")
        return True

    def stop(self) -> None:
        self.said.append("stop")


class FakeActuator:
    def __init__(self) -> None:
        self.regimes: list[dict[Path, str]] = []
        self.left: bool | None = None
        self.each_turn: Callable[[], None] = lambda: None

    def apply(self, regimes: Regimes) -> list[RegimeEvent]:
        self.each_turn()
        self.regimes.append({path: standing.regime for path, standing in regimes.items()})
        return [RegimeEvent(kind=SWITCHED, flow=FLOW, before="cubic", after="dctcp")] if regimes else []

    def close(self, *, leave: bool) -> list[RegimeEvent]:
        self.left = leave
        return [RegimeEvent(kind=SWITCHED, flow=FLOW, before="dctcp", after="cubic", reason="put back")]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> tuple[Loop, FakeInbox, FakeActuator, list[RegimeEvent]]:
    monkeypatch.setattr(looping, "Inbox", FakeInbox)
    actuator, reported = FakeActuator(), []
    loop = Loop(
        BusOptions(), actuator, Follower(stale_ms=1000), reported.append, sender="me", status=online("client")
    )
    return loop, loop._inbox, actuator, reported


def decision(received_us: int, ttl_us: int = SECOND_US) -> Sample:
    return Sample(
        kind="regime_decision",
        body=RegimeDecision(regime=SINGLE_OWNER, peer=ME, address=NEAR),
        sender="rx",
        topic="t",
        received_us=received_us,
        expires_us=received_us + ttl_us,
    )


def test_a_decision_is_carried_out_and_what_happened_is_reported_and_published(scene) -> None:
    loop, inbox, actuator, reported = scene
    inbox.samples = [decision(0)]
    loop.turn(0)
    assert actuator.regimes == [{PATH: SINGLE_OWNER}]
    assert [event.after for event in reported] == ["dctcp"]
    (message,) = inbox.published
    assert (message.algorithm, message.event, message.flow) == ("dctcp", "regime:switched", FLOW)
    assert message.detail == {"before": "cubic", "after": "dctcp"}
    assert inbox.kinds == ("regime_decision", "agent_status")


def test_time_alone_makes_a_path_shared(scene) -> None:
    loop, inbox, actuator, _ = scene
    inbox.samples = [decision(0)]
    for now_us in (0, 2 * SECOND_US - 1, 2 * SECOND_US):
        loop.turn(now_us)
    assert [regimes[PATH] for regimes in actuator.regimes] == [SINGLE_OWNER, SINGLE_OWNER, SHARED]


def test_so_does_a_broker_that_is_away(scene) -> None:
    loop, inbox, actuator, _ = scene
    inbox.samples = [decision(0, ttl_us=60 * SECOND_US)]
    loop.turn(0)
    inbox.connected = False
    for now_us in (SECOND_US, 2 * SECOND_US):
        loop.turn(now_us)
    assert [regimes[PATH] for regimes in actuator.regimes] == [SINGLE_OWNER, SINGLE_OWNER, SHARED]


@pytest.mark.parametrize("leave", [False, True])
def test_the_end_is_reported_before_the_bus_is_left(scene, leave: bool) -> None:
    loop, inbox, actuator, reported = scene
    begun: list[str] = []
    actuator.each_turn = loop.request_stop
    loop.run(leave=leave, on_start=lambda: begun.append("started"))
    assert (actuator.left, begun, inbox.said) == (leave, ["started"], ["start", "flush", "stop"])
    assert [event.reason for event in reported] == ["put back"]
    assert len(inbox.published) == 1


def test_what_cannot_be_carried_out_ends_it_and_all_is_put_back(scene) -> None:
    loop, inbox, actuator, reported = scene

    def fail() -> None:
        raise SwitchError("switch.not_permitted", "no")

    actuator.each_turn = fail
    with pytest.raises(SwitchError):
        loop.run(leave=False, on_start=lambda: None)
    assert (actuator.left, inbox.said[-1]) == (False, "stop")
    assert [event.reason for event in reported] == ["put back"]


def test_an_event_as_json_has_what_there_is_to_say_and_both_clocks() -> None:
    event = RegimeEvent(kind=REFUSED, flow=FLOW, wanted="dctcp", why="no ECN", t_wall_us=2, t_mono_us=1)
    assert msgspec.json.decode(msgspec.json.encode(event)) == {
        "kind": "regime:refused",
        "t_wall_us": 2,
        "t_mono_us": 1,
        "flow": {"src": ME, "src_port": 5000, "dst": NEAR, "dst_port": 80, "protocol": "tcp"},
        "wanted": "dctcp",
        "why": "no ECN",
    }


# --- the command ---


class Recorded:
    """Replaces an actuator and the loop: records its arguments, and ends immediately."""

    made: tuple[Any, ...]
    options: dict[str, Any]

    def __init__(self, *made: Any, **options: Any) -> None:
        Recorded.made, Recorded.options = made, options


class FakeLoop:
    def __init__(
        self, options: BusOptions, actuator: Any, follower: Follower, emit: Any, **named: Any
    ) -> None:
        self.emit = emit
        FakeLoop.named = named

    def request_stop(self) -> None:
        """Not called."""

    def run(self, *, leave: bool, on_start: Callable[[], None]) -> None:
        on_start()
        self.emit(RegimeEvent(kind=FAIL_SAFE, flow=FLOW, regime=SHARED, why="rx is offline"))
        self.emit(RegimeEvent(kind=SWITCHED, flow=FLOW, before="cubic", after="reno", regime=SHARED))
        self.emit(RegimeEvent(kind=REFUSED, wanted="fq", why="no such qdisc"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(command, "SocketActuator", Recorded)
    monkeypatch.setattr(host, "HostActuator", Recorded)
    monkeypatch.setattr(command, "Loop", FakeLoop)
    return lambda *words: CliRunner().invoke(
        cli.app, ["regime", "apply", "--broker", "mqtt://broker", *words], env={"COLUMNS": "200"}
    )


def test_options_reach_the_sockets(run: Callable[..., Any]) -> None:
    done = run(
        "--rule",
        "dport=80 -> destination",
        "--rule",
        f"sport=1 -> {NEAR}",
        "--single-rate",
        "5",
        "--netns",
        "red",
    )
    assert done.exit_code == 0, done.output
    treatments, rules = Recorded.made
    assert treatments[SINGLE_OWNER].rate_bytes_per_s == 5
    assert (treatments[SINGLE_OWNER].congestion, treatments[SHARED].congestion) == ("dctcp", "cubic")
    assert [rule.receiver for rule in rules] == [None, NEAR]
    assert Recorded.options == {"netns": File("/var/run/netns/red"), "cgroup": None}
    assert "following the decisions at broker:1883" in done.stderr


def test_options_reach_the_host(run: Callable[..., Any]) -> None:
    assert run("--how", "host", "--shared", "reno", "--shared-rate", "7").exit_code == 0
    assert Recorded.made == ("dctcp", "reno", None, 7, None)


def test_events_are_lines_for_people_or_json(run: Callable[..., Any]) -> None:
    lines = run().stdout.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == [
        f"regime:fail_safe  {ME} 5000 > {NEAR} 80  SHARED  rx is offline",
        f"regime:switched  {ME} 5000 > {NEAR} 80  cubic -> reno  SHARED",
        "regime:refused  host  fq  no such qdisc",
    ]
    kinds = [msgspec.json.decode(line)["kind"] for line in run("--json").stdout.splitlines()]
    assert kinds == ["regime:fail_safe", "regime:switched", "regime:refused"]


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["--how", "hosts"], "switch.bad_option"),
        (["--how", "host", "--rule", "dport=1 -> destination"], "switch.bad_option"),
        (["--how", "host", "--cgroup", "/"], "switch.bad_option"),
        (["--rule", "dport=0 -> destination"], "rule.bad_value"),
        (["--broker", "http://broker"], "bus.bad_url"),
    ],
)
def test_options_that_cannot_be_are_refused(run: Callable[..., Any], words: list[str], slug: str) -> None:
    done = run(*words)
    assert done.exit_code == 1
    assert slug in done.stderr


def test_a_machine_without_cgroup_v2_is_reported_so(tmp_path: File) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n")
    with pytest.raises(SwitchError) as caught:
        cgroup_root(mounts)
    assert caught.value.slug == "switch.no_cgroup"
    mounts.write_text(mounts.read_text() + "none /sys/fs/cgroup/unified cgroup2 rw 0 0\n")
    assert cgroup_root(mounts) == File("/sys/fs/cgroup/unified")


def test_a_namespace_that_is_not_there_is_named(tmp_path: File) -> None:
    with pytest.raises(SwitchError) as caught, inside(tmp_path / "none"):
        pytest.fail("nowhere to be")
    assert (caught.value.slug, caught.value.where) == ("switch.no_netns", str(tmp_path / "none"))


def test_every_slug_is_raised_and_tested() -> None:
    sources = "".join(file.read_text() for file in (TESTS.parent / "ccplane/agent").rglob("*.py"))
    tests = "".join(file.read_text() for file in TESTS.rglob("*.py"))
    raised = set(re.findall(r'SwitchError\(\s*"(switch\.\w+)"', sources))
    assert raised == set(SLUGS)
    assert [slug for slug in SLUGS if f'"{slug}"' not in tests] == []
