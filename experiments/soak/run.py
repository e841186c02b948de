"""A soak test: rounds of disturbances, each followed by time to settle, checks, and samples."""

from __future__ import annotations

import contextlib
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from ccplane.agent.runfile import RUN_DIR
from ccplane.base import clock
from ccplane.base.errors import CcpError
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR
from experiments.soak import samples
from experiments.soak.disk import small
from experiments.soak.disturbances import BrokenError, Disturber
from experiments.soak.draw import Disturbance, rounds
from experiments.soak.judge import Trend, judge
from experiments.soak.network import Ends, Load, Network, network
from experiments.soak.plant import Plant, wait_for

LOOKS: Final = 3
"""Number of readings of which each sample is the median."""
LOOK_EACH_S: Final = 0.5
ORPHANS_S: Final = 30.0
"""Time for slots of vanished connections to be freed, after the other connections have settled [s]."""
REPORTED_SLOTS: Final = 5
DISK_KB: Final = 256


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a soak test.

    Attributes:
        hours: Duration [h].
        seed: Random seed.
        pairs: Number of pairs of hosts.
        load: Traffic of each pair.
        settle_s: Minimum time to settle [s].
        patience_s: Maximum time to recover after a round [s].
        clock: Whether the machine's clock may be stepped.
    """

    hours: float
    seed: int
    pairs: int
    load: Load
    settle_s: float
    patience_s: float
    clock: bool


@dataclass(slots=True)
class Outcome:
    """Outcome of a soak test.

    Attributes:
        options: Its options.
        kernel: Release of the kernel.
        began: Start, by the wall clock.
        seconds: Duration [s].
        rounds: Number of rounds.
        connections: Counters of connections.
        disturbances: The disturbances, with their times and effects.
        violations: Violated expectations, with their times.
        longest_fallback_s: Maximum time from the end of a round's disturbances and its long transfer
            until no flow used the fallback [s].
        series: Measured series.
        trends: Verdicts on the series.
        interrupted: Whether the test was interrupted.
    """

    options: Options
    kernel: str = platform.release()
    began: str = ""
    seconds: float = 0.0
    rounds: int = 0
    connections: dict[str, int] = field(default_factory=dict)
    disturbances: list[dict[str, Any]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    longest_fallback_s: float = 0.0
    series: samples.Series = field(default_factory=samples.Series)
    trends: dict[str, Trend] = field(default_factory=dict)
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as plain data."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in ("series", "trends")}
        plain["options"] = asdict(self.options)
        plain["trends"] = {name: asdict(trend) for name, trend in self.trends.items()}
        return {**plain, "series": self.series.as_dict()}


def soak(options: Options, say: Callable[[str], None]) -> Outcome:
    """Run until the time is over, or until Ctrl-C.

    Raises:
        CcpError: If the test cannot start.
    """
    with _prepared(options, say) as run:
        try:
            run.go_on()
        except KeyboardInterrupt:
            run.outcome.interrupted = True
            say("interrupted: cleaning up")
        except Exception as error:  # report the measurements so far
            run.outcome.violations.append(f"the soak test itself failed: {type(error).__name__}: {error}")
    run.outcome.trends = {
        name: judge(points, samples.limit_of(name)) for name, points in run.outcome.series.points.items()
    }
    return run.outcome


@contextlib.contextmanager
def _prepared(options: Options, say: Callable[[str], None]) -> Iterator[_Run]:
    ebpf.unload(PIN_DIR)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ccp-soak-")))
        stack.enter_context(small(RUN_DIR, DISK_KB))
        disk = stack.enter_context(small(folder / "disk", DISK_KB))
        plant = Plant(folder, disk)
        stack.callback(plant.close)
        plant.start_agent()
        say(f"agent started: {plant.agent.greeting}")
        hosts = stack.enter_context(network(options.pairs, options.load, options.seed))
        disturber = Disturber(plant, hosts)
        disturber.start_receiver()
        yield _Run(options, plant, hosts, disturber, say)


def slots_without(sockets: Set[Ends]) -> list[str]:
    """Describe each flow with a slot that is not one of these connections, and how long it has been idle."""
    now_us = clock.now_us()
    view = ebpf.observe(PIN_DIR)
    seen_us = {stats.flow_id: stats.now_us for stats in view.all_stats()}
    reported = []
    for info in view.flows():
        if Ends(info.netns_inum, info.src_port, info.dst_port) not in sockets:
            silent_s = (now_us - seen_us.get(info.flow_id, now_us)) / 1e6
            reported.append(
                f"{info.cc_name} {info.src_addr}:{info.src_port} -> {info.dst_addr}:{info.dst_port} "
                f"in namespace {info.netns_inum}, created {(now_us - info.created_us) / 1e6:.0f} s ago, "
                f"idle for {silent_s:.0f} s"
            )
    return reported


class _Run:
    def __init__(
        self,
        options: Options,
        plant: Plant,
        hosts: Network,
        disturber: Disturber,
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._plant = plant
        self._network = hosts
        self._disturber = disturber
        self._report = say
        self._began_s = time.monotonic()
        self.outcome = Outcome(options, began=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    @property
    def _at_s(self) -> float:
        return time.monotonic() - self._began_s

    def _say(self, what: str) -> None:
        self._report(f"{self._at_s:7.1f} s  {what}")

    def _violated(self, what: str) -> None:
        self.outcome.violations.append(f"{self._at_s:.1f} s: {what}")
        self._say(f"VIOLATION: {what}")

    def go_on(self) -> None:
        end_s = 3600 * self._options.hours
        try:
            for pair in self._network.pairs:
                pair.wait_until_busy()
            self._settled(0)
            for number, drawn in enumerate(rounds(self._options.seed, clock=self._options.clock), 1):
                if self._at_s > end_s:
                    return
                self._round(number, drawn)
        finally:
            self.outcome.seconds = round(self._at_s, 1)

    def _round(self, number: int, drawn: list[Disturbance]) -> None:
        seconds = round(sum(one.after_s + one.lasts_s for one in drawn)) + 5
        self._network.begin_transfer(seconds)
        for one in drawn:
            time.sleep(one.after_s)
            self._disturb(one)
        if failed := self._network.end_transfer():
            self._violated(failed)
        self._settled(number)
        self.outcome.rounds = number

    def _disturb(self, what: Disturbance) -> None:
        at_s = round(self._at_s, 1)
        self._say(f"{what.kind} ...")
        try:
            came = self._disturber.do(what)
        except (BrokenError, CcpError, RuntimeError, OSError, TimeoutError) as error:
            came = f"{type(error).__name__}: {error}"
            self._violated(f"{what.kind}: {came}")
            self._revive()
        self._say(f"{what.kind}: {came}")
        reported = {name: getattr(what, name) for name in ("after_s", "lasts_s", "which")}
        self.outcome.disturbances.append({"at_s": at_s, "kind": what.kind, **reported, "came": came})

    def _revive(self) -> None:
        """Restart exited programs, so that a defect is reported once instead of in each round."""
        alive = self._plant.pids()
        if "agent" not in alive:
            self._say(f"the agent's log: {self._plant.log('agent').strip()}")
            self._plant.start_agent()
        if "receiver" not in alive:
            self._disturber.start_receiver()

    def _settled(self, number: int) -> None:
        """Pause churn, wait for recovery, take samples, and resume."""
        self._network.order("hold")
        began_s = time.monotonic()
        for name in ("agent", "broker", "receiver"):
            if name not in self._plant.pids():
                self._violated(f"the {name} has exited: {self._plant.log(name).strip()}")
                self._revive()
        try:
            self._wait_for_agent()
            self.outcome.longest_fallback_s = max(
                self.outcome.longest_fallback_s, round(time.monotonic() - began_s, 1)
            )
            time.sleep(max(0.0, began_s + self._options.settle_s - time.monotonic()))
            self._wait_for_agent()  # no flow may fall back while nothing happens
            self._wait_for_slots()
            self._wait_for_telemetry()
        except (CcpError, RuntimeError, OSError) as error:
            self._violated(f"{type(error).__name__}: {error}")
            self._revive()
        reported = self._sampled()
        self._connections(self._network.order("churn"))
        made = self.outcome.connections["made"]
        self._say(f"round {number} settled: {reported}; {made} connections made")

    def _sampled(self) -> str:
        looks = [self._look() for _ in range(LOOKS)]
        lives = {name: f"{name} {pid}" for name, pid in self._plant.pids().items()}
        lives["kernel"] = f"max flows {self._plant.max_flows}"
        gist = []
        for what, life in lives.items():
            seen = samples.middle([look[what] for look in looks if what in look])
            self.outcome.series.add(self._at_s, what, life, seen)
            if samples.MEMORY in seen:
                gist.append(f"{what} {seen[samples.MEMORY] / 1e6:.1f} MB {seen['fds']:.0f} fds")
            else:
                gist.append(f"{seen['slots_without_socket']:+.0f} slots")
        return ", ".join(gist)

    def _look(self) -> dict[str, dict[str, float]]:
        time.sleep(LOOK_EACH_S)
        found: dict[str, dict[str, float]] = {}
        for name, pid in self._plant.pids().items():
            with contextlib.suppress(OSError):
                found[name] = samples.process(pid)
        found["kernel"] = samples.kernel(len(self._network.ccp_sockets()))
        return found

    def _wait_for_agent(self) -> None:
        began_s = time.monotonic()
        while in_fallback := [stats for stats in ebpf.observe(PIN_DIR).all_stats() if stats.fallback]:
            if time.monotonic() - began_s > self._options.patience_s:
                causes = sorted({stats.fallback_cause for stats in in_fallback})
                waited = f"{self._options.patience_s:g} s"
                self._violated(f"{len(in_fallback)} flows still use the fallback after {waited}: {causes}")
                return
            time.sleep(0.2)

    def _wait_for_slots(self) -> None:
        end_s = time.monotonic() + ORPHANS_S
        while True:
            sockets = self._network.ccp_sockets()
            left = ebpf.observe(PIN_DIR).counters()["flows_active"] - len(sockets)
            if left == 0:
                return
            if time.monotonic() > end_s:
                reported = "; ".join(slots_without(sockets)[:REPORTED_SLOTS])
                self._violated(f"{left} more slots than connections are in use: {reported}")
                return
            time.sleep(1.0)

    def _wait_for_telemetry(self) -> None:
        with self._plant.client() as client:

            def delivered() -> int:
                return int(client.status()["telemetry"]["delivered"])

            before = delivered()
            try:
                wait_for("telemetry", lambda: delivered() > before, self._options.patience_s)
            except TimeoutError as error:
                self._violated(str(error))

    def _connections(self, reported: list[dict[str, Any]]) -> None:
        sums = {
            name: sum(one[name] for one in reported) for name in ("open", "made", "ended", "turns", "failed")
        }
        new = sums["failed"] - self.outcome.connections.get("failed", 0)
        self.outcome.connections = {**sums, "vanished_pairs": self._network.vanished}
        if new:
            said = [failure for one in reported for failure in one["failures"]]
            self._violated(f"{new} connections failed: {said[-5:]}")
