"""A simulated path that is watched and changed while it runs, by messages.

    session = Session(Setting(loss=0.005), Path("mine.py").read_text())
    session.advance(1.0)                                             # samples of the first second
    session.handle({"type": "param", "name": "decrease", "value": 0.7})
    session.handle({"type": "edit", "source": edited})               # flows switch to the new version

A session uses no thread, socket or file, so it also runs in a browser, on Pyodide. Virtual time passes in
whole intervals of 50 ms, and everything that `handle` does happens between two of them. So equal settings,
seeds, sources and messages at equal times give equal samples, whatever the calls of `advance`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ccp_algs.api import AnyAlgorithm
from ccp_algs.params import set_params
from ccplane.agent.agent_loop import POLL_MS, AgentLoop
from ccplane.agent.algorithms import Running, compile_programs, find, name_of
from ccplane.agent.candidate import Candidate, again, check_takeover, drop_module, prepare
from ccplane.agent.deadline import TooSlow
from ccplane.agent.events import Event
from ccplane.agent.names import derived
from ccplane.agent.rules import Which
from ccplane.agent.source import Past, Source
from ccplane.agent.swap import successor
from ccplane.base.errors import CcpError, UsageError
from ccplane.datapath import ebpf, sim
from experiments.netlab.network_spec import emulator_spec
from experiments.netlab.routes import graph_of
from experiments.play import messages
from experiments.play.messages import Message
from experiments.play.series import FIRST_PORT, INTERVAL_US, ROWS_US, STATE_SAMPLES, Series
from experiments.play.setting import Setting, flow_names
from experiments.runs import one_path
from experiments.runs.sim_network import SimNetwork

if TYPE_CHECKING:
    from ccplane.base._native import SimDatapath

__all__ = ["Session", "Setting"]

PASTS: Final = 5
"""Maximum earlier versions to which the flows can return if a callback raises."""

MAX_SPEED: Final = 100.0
"""Maximum speed, relative to real time."""

EDITOR: Final = "<mine.py>"
"""Name of a source that is in no file."""

RIVAL: Final = "rival"
"""Name of the competitor in the agent, if the algorithm already has its own."""


class Session:
    """An algorithm over a simulated path.

    Messages that `handle` takes are JSON objects with a `type`:

    - `edit` (`source`): the flows switch to a new version, or keep the current one if it is refused.
    - `param` (`name`, `value`): set a parameter for all flows of the algorithm.
    - `path` (any of `rate_bytes_per_s`, `rtt_us`, `loss`, `buffer_bdp`): change the path.
    - `restart` (`setting`, `source`; each may be missing): begin again at time 0.
    - `pause`, `resume`, `speed` (`value`): virtual seconds per second of `advance`.

    `advance` and `handle` return messages: `samples` (to be appended), `mark`, `error` and `state`.
    """

    def __init__(
        self,
        setting: Setting,
        source: str,
        *,
        file: str = EDITOR,
        class_name: str = "",
        params: Mapping[str, object] | None = None,
        speed: float = 1.0,
    ) -> None:
        """Import the algorithm and connect the flows; time is 0.

        Args:
            setting: The path and the flows.
            source: Source text of the algorithm.
            file: Its file, in whose directory its imports are looked up; or a name in angle brackets.
            class_name: The class, if the source defines several algorithms.
            params: Values of parameters, or their text, for all flows of the algorithm.
            speed: Virtual seconds per second of `advance`.

        Raises:
            CcpError: What is wrong with the source, a parameter or the setting.
            Several: Several problems.
        """
        self._file, self._class_name = file, class_name
        self._source, self._params = source, dict(params or {})
        self._speed = _checked_speed(speed)
        self._paused = False
        self._owed_us = 0.0
        self._run = self._begun(setting, source)

    # What a page or a terminal asks

    @property
    def digest(self) -> str:
        """Hash of all samples since the start or restart."""
        return self._run.series.digest

    @property
    def name(self) -> str:
        """Name of the algorithm in the agent."""
        return self._run.name

    @property
    def over(self) -> bool:
        """Whether the duration has passed."""
        return self._run.over

    @property
    def running(self) -> bool:
        """Whether time can pass: neither paused nor over."""
        return not self._paused and not self._run.over

    @property
    def agent_loop(self) -> AgentLoop:
        """The agent loop since the start or restart."""
        return self._run.agent_loop

    @property
    def t_s(self) -> float:
        """Time since the start or restart [s]."""
        return self._run.t_s

    @property
    def speed(self) -> float:
        """Virtual seconds per second of `advance`."""
        return self._speed

    def state(self) -> Message:
        """Return the state."""
        run = self._run
        return messages.state(
            "sim",
            run.t_s,
            run.name,
            messages.params(run.algorithm),
            run.setting,
            self.digest,
            running=self.running,
            speed=self._speed,
        )

    def advance(self, seconds: float) -> list[Message]:
        """Let `seconds` times the speed of virtual time pass; return what happened.

        Time passes in whole intervals of 50 ms; the rest is added to the next call.
        """
        if not self.running:
            return []
        run = self._run
        self._owed_us += seconds * self._speed * 1e6
        said: list[Message] = []
        begun = run.series.count
        while self._owed_us >= INTERVAL_US and not run.over:
            self._owed_us -= INTERVAL_US
            said += run.step()
        if (samples := run.series.message()) is not None:
            said.insert(0, samples)
        if run.over or run.series.count // STATE_SAMPLES != begun // STATE_SAMPLES:
            said.append(self.state())
        return said

    def handle(self, message: Mapping[str, Any]) -> list[Message]:
        """Do what a message asks; return what happened. Mistakes become `error` messages."""
        return [*messages.answered(self._handled, message, self._run.t_s), self.state()]

    def _handled(self, message: Mapping[str, Any]) -> list[Message]:
        run = self._run
        match message:
            case {"type": "edit", "source": str(source)}:
                said = run.edit(self._as_source(source))
                self._source = source
                return said
            case {"type": "param", "name": str(name), "value": value}:
                return run.set_param(name, value)
            case {"type": "path", **fields}:
                return run.change_path(fields)
            case {"type": "restart"}:
                self._restart(message)
                return []
            case {"type": "pause"}:
                self._paused = True
                return []
            case {"type": "resume"}:
                self._paused = False
                return []
            case {"type": "speed", "value": float() | int() as value}:
                self._speed = _checked_speed(value)
                return []
        raise messages.not_understood(message)

    def _restart(self, message: Mapping[str, Any]) -> None:
        setting = self._run.setting
        if "setting" in message:
            setting = Setting.of(message["setting"])
        source = str(message.get("source", self._source))
        params = {one["name"]: one["value"] for one in messages.params(self._run.algorithm)}
        before, self._run = self._run, self._begun(setting, source, params if "source" not in message else {})
        before.close()
        self._source = source
        self._paused, self._owed_us = False, 0.0

    def _begun(self, setting: Setting, source: str, params: Mapping[str, object] | None = None) -> _Run:
        candidate = prepare(self._as_source(source), ebpf.compile_program, self._class_name)
        try:
            set_params(candidate.algorithm, self._params if params is None else params)
            return _Run(setting, candidate)
        except BaseException:
            candidate.drop()
            raise

    def _as_source(self, text: str) -> Source:
        return Source(text, self._file)

    def close(self) -> None:
        """End the simulation."""
        self._run.close()


class _Run:
    """One simulation, from time 0 on.

    Attributes:
        setting: The setting, with the current path.
        name: Name of the algorithm in the agent.
        series: The samples.
        agent_loop: The agent.
    """

    def __init__(self, setting: Setting, candidate: Candidate) -> None:
        self.setting = setting
        self.name = candidate.name
        self._pasts: list[Past] = []
        self._failed: list[Event] = []
        own = _running(candidate.algorithm, candidate.name, candidate.programs)
        rival = _rival(setting.against, candidate.name)
        graph = graph_of(setting.network())
        spec = emulator_spec(graph, setting.seed) | {"sample_interval_us": ROWS_US}
        self._datapath: SimDatapath = sim.open_world(spec, host_mtu_bytes=graph.host_mtu_bytes)
        self._net = SimNetwork(self._datapath, graph)
        self._begun_us = self._datapath.now_us
        self.agent_loop = AgentLoop(
            self._datapath,
            [own] if rival is None else [own, rival],
            clock=lambda: self._datapath.now_us / 1e6,
        )
        self.agent_loop.hosts[self.name].version = candidate.version
        self.agent_loop.events.listen(self._listen)
        names = flow_names(setting, self.name)
        self.series = Series(names)
        for host in self.agent_loop.hosts.values():
            self._datapath.register(host.cc_name, host.algorithm.needs_ecn)
        for number, flow in enumerate(names, 1):
            self._connect(number, flow, own if number <= setting.flows else rival)

    @property
    def algorithm(self) -> AnyAlgorithm:
        """The current version."""
        return self.agent_loop.hosts[self.name].algorithm

    @property
    def t_s(self) -> float:
        """Time since the start [s]."""
        return self.series.count * INTERVAL_US / 1e6

    @property
    def over(self) -> bool:
        """Whether the duration has passed."""
        return self.setting.duration_s is not None and self.t_s >= self.setting.duration_s

    def close(self) -> None:
        """Release the simulated network and the algorithm's module."""
        self._datapath.close()
        drop_module(self.algorithm)

    def _connect(self, number: int, name: str, running: Running | None) -> None:
        sender, receiver = one_path.ends(self.setting.total_flows, number)
        against = self.setting.against or ""
        plan = {
            "name": name,
            "sender": sender,
            "receiver": receiver,
            "congestion": against.removeprefix(one_path.KERNEL) if running is None else running.cc_name,
            "ecn": running is not None and running.needs_ecn,
            "dport": FIRST_PORT + number - 1,
            "app": {"kind": "bulk"},
        }
        self._datapath.connect(msgspec.json.encode(plan))

    def step(self) -> list[Message]:
        """Let an interval pass; return what happened in it."""
        end_us = self._begun_us + (self.series.count + 1) * INTERVAL_US
        self._datapath.horizon_us = end_us
        while self._datapath.now_us < end_us:
            try:
                self.agent_loop.turn(POLL_MS)
            except TooSlow:
                self._stop_slow()
        self.series.take(self._datapath.latest())
        self.series.sample()
        return self._after_failures()

    # Changes

    def edit(self, source: Source) -> list[Message]:
        """Switch the flows to a new version; raises what is wrong with it."""
        host = self.agent_loop.hosts[self.name]
        if host.version.sha256 == source.sha256:
            return [messages.mark(self.t_s, "save", messages.UNCHANGED)]
        candidate = prepare(source, ebpf.compile_program, host.version.class_name)
        try:
            check_takeover(host.algorithm, candidate)
            past = host.past
            notes = self._take_over(candidate)
        except BaseException:
            candidate.drop()
            raise
        self._pasts = [*self._pasts, past][-PASTS:]
        return [messages.mark(self.t_s, "save", "; ".join(["saved", *notes]))]

    def _take_over(self, candidate: Candidate, *, fresh: bool = False) -> list[str]:
        host = self.agent_loop.hosts[self.name]
        before = host.algorithm
        after = successor(candidate, self.name, self._datapath, host)
        done = self.agent_loop.changes.reload(self.name, after, fresh=fresh)
        drop_module(before)
        return done.notes

    def set_param(self, name: str, value: object) -> list[Message]:
        """Set a parameter; raises if there is none or it does not accept the value."""
        self.agent_loop.changes.set_params({name: value}, Which(algorithm=self.name))
        return [messages.mark(self.t_s, "param", f"{name}={getattr(self.algorithm, name)}")]

    def change_path(self, fields: Mapping[str, Any]) -> list[Message]:
        """Change the path; raises if a field or value is wrong."""
        setting = self.setting.changed_path(fields)
        one_path.change(self._net, setting.total_flows, *setting.path)
        self.setting = setting
        return [messages.mark(self.t_s, "path", setting.path_text())]

    # Callbacks that raise or hang

    def _listen(self, event: Event) -> None:
        if event.kind == "flow:failed":
            self._failed.append(event)

    def _stop_slow(self) -> None:
        """Move the algorithm's flows to the fallback after a callback that was interrupted."""
        error = UsageError(
            "play.too_slow",
            f"a callback of `{self.name}` was interrupted",
            why="it has an endless loop, or does too much work per report",
            fix="make the callback faster, and save the file",
        )
        for live in list(self.agent_loop.flows.values()):
            if live.host.name == self.name and not live.failed:
                self.agent_loop.fail(live, error, "on_report")

    def _after_failures(self) -> list[Message]:
        """Return the flows to the previous version if the current one raised."""
        failed, self._failed = self._failed, []
        said: list[Message] = []
        own = [event for event in failed if event.algorithm == self.name]
        for event in [one for one in failed if one.algorithm != self.name][:1]:
            said += messages.failure(
                self.t_s, messages.failed(event.algorithm, event.detail, messages.RIVAL_FAILED)
            )
        if not own:
            return said
        outcome = messages.FIRST_FAILED
        while self._pasts:
            past = self._pasts.pop()
            try:
                self._take_over(again(past, self.name, ebpf.compile_program), fresh=True)
            except CcpError:
                continue
            outcome = messages.RETURNED
            break
        return [*said, *messages.failure(self.t_s, messages.failed(self.name, own[0].detail, outcome))]


def _running(algorithm: AnyAlgorithm, name: str, programs: Mapping[str, Any]) -> Running:
    return Running(algorithm, name, programs, next(iter(programs)), derived(name))


def _rival(against: str | None, taken: str) -> Running | None:
    """Return the competitor, None if there is none or the kernel's algorithm controls it."""
    if against is None or against.startswith(one_path.KERNEL):
        return None
    algorithm = find(against)
    name = name_of(algorithm, against)
    return _running(
        algorithm,
        RIVAL if derived(name) == derived(taken) else name,
        compile_programs(algorithm, ebpf.compile_program),
    )


def _checked_speed(value: float) -> float:
    if not 0 < value <= MAX_SPEED:
        raise UsageError(
            "play.bad_setting",
            f"the speed cannot be {value:g}",
            where="speed",
            fix=f"give a number above 0, at most {MAX_SPEED:g}",
        )
    return float(value)
