"""A soak: rounds of disturbances, then a time to settle, a look whether all is well, and samples."""

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
"""Each sample is the median of so many looks."""
LOOK_EACH_S: Final = 0.5
ORPHANS_S: Final = 30.0
"""How long slots of connections that vanished may stay after the others have settled [s]."""
TOLD_SLOTS: Final = 5
DISK_KB: Final = 256


@dataclass(frozen=True, slots=True)
class Options:
    """What a soak is.

    Attributes:
        hours: How long [h].
        seed: Of what is drawn.
        pairs: Of hosts.
        load: Traffic of each pair.
        settle_s: Time to settle, at least [s].
        patience_s: How long each thing may take to be well after a round [s].
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
    """What came of it.

    Attributes:
        options: What was asked for.
        kernel: Release of the kernel.
        began: When, by the wall clock.
        seconds: How long it took [s].
        rounds: How many it had.
        connections: What became of them.
        disturbances: What was done, when, and what came of it.
        violations: What should not be, and when.
        longest_law_s: Longest time from the end of a round's disturbances and its long transfer until no flow
            had the fallback law [s].
        series: What was measured.
        trends: What is judged of it.
        interrupted: Whether it was ended before its time.
    """

    options: Options
    kernel: str = platform.release()
    began: str = ""
    seconds: float = 0.0
    rounds: int = 0
    connections: dict[str, int] = field(default_factory=dict)
    disturbances: list[dict[str, Any]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    longest_law_s: float = 0.0
    series: samples.Series = field(default_factory=samples.Series)
    trends: dict[str, Trend] = field(default_factory=dict)
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in ("series", "trends")}
        plain["options"] = asdict(self.options)
        plain["trends"] = {name: asdict(trend) for name, trend in self.trends.items()}
        return {**plain, "series": self.series.as_dict()}


def soak(options: Options, say: Callable[[str], None]) -> Outcome:
    """Soak, until time is up or Ctrl-C.

    Args:
        options: How.
        say: Takes a line of progress.

    Raises:
        CcpError: If it cannot begin.
    """
    with _prepared(options, say) as run:
        try:
            run.go_on()
        except KeyboardInterrupt:
            run.outcome.interrupted = True
            say("interrupted: cleaning up")
        except Exception as error:  # what was measured until then is told
            run.outcome.violations.append(f"the soak itself ended: {type(error).__name__}: {error}")
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
        say(f"an agent runs: {plant.agent.greeting}")
        hosts = stack.enter_context(network(options.pairs, options.load, options.seed))
        disturber = Disturber(plant, hosts)
        disturber.start_receiver()
        yield _Run(options, plant, hosts, disturber, say)


def slots_without(sockets: Set[Ends]) -> list[str]:
    """Tell of each flow that has a slot and is none of these connections, since when it has been silent."""
    now_us = time.monotonic_ns() // 1000
    view = ebpf.observe(PIN_DIR)
    seen_us = {stats.flow_id: stats.now_us for stats in view.all_stats()}
    told = []
    for info in view.flows():
        if Ends(info.netns_inum, info.src_port, info.dst_port) not in sockets:
            silent_s = (now_us - seen_us.get(info.flow_id, now_us)) / 1e6
            told.append(
                f"{info.cc_name} {info.src_addr}:{info.src_port} -> {info.dst_addr}:{info.dst_port} "
                f"in namespace {info.netns_inum}, begun {(now_us - info.created_us) / 1e6:.0f} s ago, "
                f"silent for {silent_s:.0f} s"
            )
    return told


class _Run:
    """A soak under way."""

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
        self._tell = say
        self._began_s = time.monotonic()
        self.outcome = Outcome(options, began=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    @property
    def _at_s(self) -> float:
        return time.monotonic() - self._began_s

    def _say(self, what: str) -> None:
        self._tell(f"{self._at_s:7.1f} s  {what}")

    def _violated(self, what: str) -> None:
        self.outcome.violations.append(f"{self._at_s:.1f} s: {what}")
        self._say(f"VIOLATION: {what}")

    def go_on(self) -> None:
        """Take rounds until time is up."""
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
        told = {name: getattr(what, name) for name in ("after_s", "lasts_s", "which")}
        self.outcome.disturbances.append({"at_s": at_s, "kind": what.kind, **told, "came": came})

    def _revive(self) -> None:
        """Start what has ended, so that a defect is told once and not in each round."""
        alive = self._plant.pids()
        if "agent" not in alive:
            self._say(f"the agent said: {self._plant.log('agent').strip()}")
            self._plant.start_agent()
        if "receiver" not in alive:
            self._disturber.start_receiver()

    def _settled(self, number: int) -> None:
        """Have nothing begin and end; wait until all is well, look, and go on."""
        self._network.order("hold")
        began_s = time.monotonic()
        for name in ("agent", "broker", "receiver"):
            if name not in self._plant.pids():
                self._violated(f"the {name} has ended: {self._plant.log(name).strip()}")
                self._revive()
        try:
            self._wait_for_agent()
            self.outcome.longest_law_s = max(self.outcome.longest_law_s, round(time.monotonic() - began_s, 1))
            time.sleep(max(0.0, began_s + self._options.settle_s - time.monotonic()))
            self._wait_for_agent()  # nor do flows come to the law while nothing happens
            self._wait_for_slots()
            self._wait_for_telemetry()
        except (CcpError, RuntimeError, OSError) as error:
            self._violated(f"{type(error).__name__}: {error}")
            self._revive()
        told = self._sampled()
        self._connections(self._network.order("churn"))
        made = self.outcome.connections["made"]
        self._say(f"round {number} settled: {told}; {made} connections made")

    def _sampled(self) -> str:
        """Add a sample to each series; returns the gist of it."""
        looks = [self._look() for _ in range(LOOKS)]
        lives = {name: f"{name} {pid}" for name, pid in self._plant.pids().items()}
        lives["kernel"] = f"room for {self._plant.max_flows}"
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
        """Wait until an algorithm steers all flows."""
        began_s = time.monotonic()
        while in_law := [stats for stats in ebpf.observe(PIN_DIR).all_stats() if stats.law]:
            if time.monotonic() - began_s > self._options.patience_s:
                causes = sorted({stats.law_cause for stats in in_law})
                waited = f"{self._options.patience_s:g} s"
                self._violated(f"{len(in_law)} flows have the fallback law after {waited}: {causes}")
                return
            time.sleep(0.2)

    def _wait_for_slots(self) -> None:
        """Wait until connections whose namespace vanished have given their slots back."""
        end_s = time.monotonic() + ORPHANS_S
        while True:
            sockets = self._network.ccp_sockets()
            left = ebpf.observe(PIN_DIR).counters()["flows_active"] - len(sockets)
            if left == 0:
                return
            if time.monotonic() > end_s:
                told = "; ".join(slots_without(sockets)[:TOLD_SLOTS])
                self._violated(f"{left} more slots are taken than there are connections: {told}")
                return
            time.sleep(1.0)

    def _wait_for_telemetry(self) -> None:
        """Wait until what the receiver measured reaches flows."""
        with self._plant.client() as client:

            def delivered() -> int:
                return int(client.status()["telemetry"]["delivered"])

            before = delivered()
            try:
                wait_for("telemetry", lambda: delivered() > before, self._options.patience_s)
            except TimeoutError as error:
                self._violated(str(error))

    def _connections(self, told: list[dict[str, Any]]) -> None:
        sums = {name: sum(one[name] for one in told) for name in ("open", "made", "ended", "turns", "failed")}
        new = sums["failed"] - self.outcome.connections.get("failed", 0)
        self.outcome.connections = {**sums, "vanished_pairs": self._network.vanished}
        if new:
            said = [failure for one in told for failure in one["failures"]]
            self._violated(f"{new} connections failed: {said[-5:]}")
