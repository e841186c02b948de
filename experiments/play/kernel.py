"""Real sockets over an emulated path, with an agent in a process of its own: `ccp run FILE --reload`.

The messages are those of a simulated session. Time is real time, so there is no pause and no other speed.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from ccp_algs.params import checked_params
from ccplane.agent.algorithms import find, name_of
from ccplane.agent.client import Client
from ccplane.agent.names import derived, duplicate_algorithm
from ccplane.agent.source import read
from ccplane.base import clock
from ccplane.base.errors import CcpError, UsageError
from ccplane.base.native import TcpTrace
from experiments.agent_process import PIN_DIR, AgentProcess, running_agent
from experiments.errors import RunError
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.play import messages
from experiments.play.messages import Message
from experiments.play.series import FIRST_PORT, INTERVAL_US, ROWS_US, STATE_SAMPLES, Series
from experiments.play.setting import Setting, flow_names
from experiments.runs import one_path
from experiments.runs.steering import turn
from experiments.traffic import RunningTraffic, start_traffic
from experiments.traffic.running import FlowSockets
from experiments.traffic.spec import Iperf3

LATE_US: Final = 20_000
"""Time after the end of an interval at which its rows have arrived [us]."""

MAX_S: Final = 86_400.0
"""Longest duration of a flow: iperf3's [s]."""

PARAM_FIELDS: Final = {"low": "min", "high": "max"} | {
    field: field for field in ("name", "value", "default", "unit", "doc")
}
"""Field of the agent's answer -> field of a message."""


@dataclass(frozen=True)
class Algorithm:
    """An algorithm as the agent runs it.

    Attributes:
        asked: As named on the command line of `ccp run`.
        name: Its name in the agent.
        needs_ecn: Whether its flows negotiate ECN.
    """

    asked: str
    name: str
    needs_ecn: bool

    @classmethod
    def of(cls, asked: str, params: Mapping[str, object]) -> Algorithm:
        """Import an algorithm and check its parameters; raises what is wrong."""
        found = find(asked)
        checked_params(found, params)
        return cls(asked, name_of(found, asked), found.needs_ecn)


class KernelPlayer:
    """Flows of real sockets, and the agent that controls them."""

    def __init__(self, setting: Setting, asked: str, params: Mapping[str, object]) -> None:
        """Build the network, start the agent, and connect the flows.

        Args:
            setting: The path and the flows.
            asked: `FILE.py` or `FILE.py:Class`.
            params: Values of parameters by name.

        Raises:
            CcpError: If an algorithm or a parameter is invalid, or the network or the agent does not start.
        """
        self._asked = asked
        self._open(setting, params)

    def _open(self, setting: Setting, params: Mapping[str, object], source: str | None = None) -> None:
        own, rival = self._algorithms(setting, params)
        with contextlib.ExitStack() as stack:
            self._run = stack.enter_context(_running(setting, own, rival, params, source))
            self._after = stack.pop_all()

    def _algorithms(
        self, setting: Setting, params: Mapping[str, object]
    ) -> tuple[Algorithm, Algorithm | None]:
        """Return the algorithm and its competitor, None if that is the kernel's; raises what is wrong."""
        own = Algorithm.of(self._asked, params)
        if setting.against is None or setting.against.startswith(one_path.KERNEL):
            return own, None
        rival = Algorithm.of(setting.against, {})
        if derived(rival.name) == derived(own.name):
            raise duplicate_algorithm(own.name, f"--against {setting.against}")
        return own, rival

    @property
    def over(self) -> bool:
        """Whether the duration has passed."""
        setting = self._run.setting
        return setting.duration_s is not None and self._run.t_s >= setting.duration_s

    def state(self) -> Message:
        """Return the state, as `Session.state`."""
        return self._run.state()

    def source(self) -> str:
        """Return the source text of the current version."""
        return self._run.source()

    def poll(self) -> list[Message]:
        """Return the samples and the agent's events since the last call."""
        return self._run.poll()

    def handle(self, message: Mapping[str, Any]) -> list[Message]:
        """Do what a message asks, as `Session.handle`."""
        return [*messages.answered(self._handled, message, self._run.t_s), self.state()]

    def _handled(self, message: Mapping[str, Any]) -> list[Message]:
        match message:
            case {"type": "edit", "source": str(source)}:
                self._run.edit(source)
            case {"type": "param", "name": str(name), "value": value}:
                self._run.set_param(name, value)
            case {"type": "path", **fields}:
                return self._run.change_path(fields)
            case {"type": "restart"}:
                setting = Setting.of(message["setting"]) if "setting" in message else self._run.setting
                text = message.get("source")
                params = {} if text else {one["name"]: one["value"] for one in self._run.params()}
                self._algorithms(setting, params)
                if text is not None:
                    self._run.check(text)
                self.close()
                self._open(setting, params, text)
            case {"type": "pause" | "resume" | "speed"}:
                raise UsageError(
                    "play.real_time",
                    "real sockets run in real time",
                    fix="simulate, with --sim, to pause and to change the speed",
                )
            case _:
                raise messages.not_understood(message)
        return []

    def close(self) -> None:
        """End the flows and the agent, and remove the network."""
        self._after.close()


@contextlib.contextmanager
def _running(
    setting: Setting,
    own: Algorithm,
    rival: Algorithm | None,
    params: Mapping[str, object],
    source: str | None,
) -> Iterator[_Run]:
    with contextlib.ExitStack() as after:
        after.enter_context(turn())
        net = after.enter_context(emulated(setting.network(), seed=setting.seed))
        given = [word for name, value in params.items() for word in ("--param", f"{own.name}.{name}={value}")]
        asked = [own.asked] if rival is None else [own.asked, rival.asked]
        agent = after.enter_context(running_agent(*asked, "--reload", *given))
        client = after.enter_context(Client(pin_dir=PIN_DIR))
        if source is not None:
            client.load(source, own.name)
        inodes = [FlowSockets.of(host).netns for host in net.hosts.values()]
        trace = after.enter_context(TcpTrace(ROWS_US, inodes))
        loads = after.enter_context(contextlib.closing(_Loads(client.another())))
        traffic = after.enter_context(_flows(net, setting, own, rival))
        yield _Run(setting, own.name, net, agent, client, loads, trace, traffic)


@contextlib.contextmanager
def _flows(
    net: EmulatedNetwork, setting: Setting, own: Algorithm, rival: Algorithm | None
) -> Iterator[list[RunningTraffic]]:
    """Run the flows for a `with` block."""
    begun: list[RunningTraffic] = []
    try:
        for number in range(1, setting.total_flows + 1):
            sender, receiver = one_path.ends(setting.total_flows, number)
            algorithm = own if number <= setting.flows else rival
            if algorithm is not None and algorithm.needs_ecn:
                for host in (sender, receiver):
                    net.hosts[host].set_sysctl("net.ipv4.tcp_ecn", 1)
            begun.append(
                start_traffic(
                    Iperf3(),
                    net.hosts[sender],
                    net.hosts[receiver],
                    congestion=(setting.against or "").removeprefix(one_path.KERNEL)
                    if algorithm is None
                    else derived(algorithm.name),
                    duration_s=setting.duration_s or MAX_S,
                    port=FIRST_PORT + number - 1,
                )
            )
        yield begun
    finally:
        for one in begun:
            one.stop()


class _Loads:
    """Loads versions without waiting; the agent's events tell the outcome."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._thread = ThreadPoolExecutor(1, "ccp-play-load")

    def submit(self, source: str, name: str) -> None:
        """Load a source as the new version of an algorithm."""

        def load() -> None:
            with contextlib.suppress(CcpError):
                self._client.load(source, name)

        self._thread.submit(load)

    def close(self) -> None:
        """Disconnect, after the current load."""
        self._thread.shutdown(cancel_futures=True)
        self._client.close()


class _Run:
    """Running flows, their agent, and the samples of their sockets."""

    def __init__(
        self,
        setting: Setting,
        name: str,
        net: EmulatedNetwork,
        agent: AgentProcess,
        client: Client,
        loads: _Loads,
        trace: TcpTrace,
        traffic: Sequence[RunningTraffic],
    ) -> None:
        self.setting = setting
        self._name = name
        self._net, self._agent, self._client, self._loads = net, agent, client, loads
        self._trace, self._traffic = trace, traffic
        self._series = Series(flow_names(setting, name))
        self._begun_us = min(one.started_us for one in traffic)
        self._rows: list[deque[tuple[int, int, int, int]]] = [deque() for _ in traffic]
        self._events = client.stream(kinds=("event",))
        self._returned_to = ""
        self._refused: tuple[str, str] | None = None  # file, and hash of the version that runs

    @property
    def t_s(self) -> float:
        """Time of the last sample [s]."""
        return self._series.count * INTERVAL_US / 1e6

    def params(self) -> list[Message]:
        """Return the parameters of the algorithm."""
        rows = self._client.get_params(self._name)[self._name]
        return [{field: row[its] for its, field in PARAM_FIELDS.items()} for row in rows]

    def source(self) -> str:
        """Return the source text of the current version."""
        return str(self._client.source(self._name)["text"])

    def state(self) -> Message:
        """Return the state."""
        return messages.state(
            "kernel", self.t_s, self._name, self.params(), self.setting, self._series.digest
        )

    # Samples and events

    def poll(self) -> list[Message]:
        """Return what happened since the last call."""
        if not self._agent.running:
            raise RunError(
                "run.agent",
                "the agent exited",
                where="ccp run",
                why=self._agent.log().strip()[-2000:],
                fix="`ccp check` and `ccp doctor` help to find the cause",
            )
        begun = self._series.count
        self._collect()
        said: list[Message] = []
        if (samples := self._series.message()) is not None:
            said.append(samples)
        for row in self._events.ready():
            said += self._event(row)
        said += self._after_refusal()
        if len(said) > 1 or self._series.count // STATE_SAMPLES != begun // STATE_SAMPLES:
            said.append(self.state())
        return said

    def _collect(self) -> None:
        rows = self._trace.drain()
        for one, own in zip(self._traffic, self._rows, strict=True):
            assert one.sockets is not None, "iperf3 uses TCP"
            found = rows[one.sockets.has(rows["netns"], rows["sport"], rows["dport"])]
            delivered = found["delivered_pkts"] * found["mss_bytes"]
            columns = (found["t_us"], found["cwnd_bytes"], found["srtt_us"], delivered)
            own.extend(zip(*(column.tolist() for column in columns), strict=True))
        while (end_us := self._begun_us + (self._series.count + 1) * INTERVAL_US) <= clock.now_us() - LATE_US:
            for number, waiting in enumerate(self._rows):
                while waiting and waiting[0][0] <= end_us:
                    self._series.put(number, *waiting.popleft()[1:])
            self._series.sample()

    def _event(self, row: Mapping[str, Any]) -> list[Message]:
        t_s = max(0.0, (row["t_us"] - self._begun_us) / 1e6)
        detail = row["detail"]
        match row["kind"], row["algorithm"]:
            case "algorithm:reloaded", self._name:
                self._refused = None
                if detail["new_sha256"] == self._returned_to:
                    self._returned_to = ""
                    return []
                return [messages.mark(t_s, "save", "; ".join(["saved", *detail["notes"]]))]
            case "algorithm:refused", _:
                is_other = detail["new_sha256"] != detail["old_sha256"]  # else an imported file is to blame
                self._refused = (detail["file"], detail["old_sha256"]) if is_other else None
                return messages.failure(t_s, str(CcpError(**detail["error"])))
            case "param:set", self._name:
                return [messages.mark(t_s, "param", f"{detail['name']}={detail['value']}")]
            case "flow:failed", name:
                outcome = self._after_failure() if name == self._name else messages.RIVAL_FAILED
                return messages.failure(t_s, messages.failed(name, detail, outcome))
        return []

    def _after_refusal(self) -> list[Message]:
        """Return a mark if the refused file is again what runs; the agent then has nothing to report."""
        if self._refused is None:
            return []
        file, running = self._refused
        with contextlib.suppress(CcpError):
            if read(file).sha256 == running:
                self._refused = None
                return [messages.mark(self.t_s, "save", messages.UNCHANGED)]
        return []

    def _after_failure(self) -> str:
        """Return the flows to the previous version, if there is one."""
        try:
            self._returned_to = self._client.rollback(self._name)["new_sha256"]
        except CcpError:
            return messages.FIRST_FAILED
        return messages.RETURNED

    # Changes

    def edit(self, source: str) -> None:
        """Load another version; an event tells the outcome."""
        self._loads.submit(source, self._name)

    def check(self, source: str) -> None:
        """Check another version; raises what is wrong with it."""
        self._client.check(source, self._name)

    def set_param(self, name: str, value: Any) -> None:
        """Set a parameter; an event tells the outcome."""
        self._client.set({name: value}, algorithm=self._name)

    def change_path(self, fields: Mapping[str, Any]) -> list[Message]:
        """Change the path."""
        setting = self.setting.changed_path(fields)
        one_path.change(self._net, setting.total_flows, *setting.path)
        self.setting = setting
        return [messages.mark(self.t_s, "path", setting.path_text())]
