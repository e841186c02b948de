"""What a case gets: paths to run the algorithm on, and comparisons."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, NoReturn

from ccp_algs import params_of
from ccplane.agent.algorithms import find
from experiments.conform.cases import Comparison, Ended, Undecided
from experiments.conform.net import Net, SimNet, Watch
from experiments.events import ParamValue
from experiments.netlab.spec import Buffer, Direction
from experiments.runs import one_path
from experiments.runs.check import SIM, is_own
from experiments.runs.shapes import Dumbbell, PointToPoint
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic.spec import Iperf3, Traffic
from experiments.units import MBIT

VARIED: Final = 1.2
"""Largest factor, up or down, by which seeds other than 1 change rate and RTT of a path."""
_LONGEST_S: Final = 3600.0


class Lab:
    """The laboratory of one case: its runs, and what was compared in them.

    Attributes:
        algorithm: The algorithm under test.
        seed: Seed of everything random. Seeds other than 1 also change rates and RTTs by up to 20 %.
        datapath: Where paths run: `sim` or `ebpf` (real sockets).
        runs: The runs so far.
        comparisons: The comparisons so far.
    """

    def __init__(
        self,
        algorithm: str,
        seed: int = 1,
        params: Mapping[str, ParamValue] | None = None,
        name: str = "",
        datapath: str = SIM,
    ) -> None:
        self.datapath = datapath
        self.algorithm = algorithm
        self.seed = seed
        self.runs: list[Net] = []
        self.comparisons: list[Comparison] = []
        self._params = dict(params or {})
        self._name = name
        self._random = Random(f"conform {seed}")
        self._open = contextlib.ExitStack()

    def path(
        self,
        *,
        rate_mbit: float = 20.0,
        rtt_ms: float = 40.0,
        buffer_bdp: float | None = None,
        buffer_pkts: int | None = None,
        ecn: bool = False,
        traffic: Traffic | None = None,
        flows: int = 1,
        against: Sequence[str] = (),
        params: Mapping[str, ParamValue] | None = None,
        watch: Watch | None = None,
        exact: bool = False,
        **direction: Any,
    ) -> Net:
        """Build a path with flows of the algorithm; nothing has been sent yet.

        Args:
            rate_mbit: Rate [Mbit/s].
            rtt_ms: RTT without queues [ms].
            buffer_bdp: Drop-tail buffer, in bandwidth-delay products; default 1.
            buffer_pkts: The same in packets, instead.
            ecn: Whether connections negotiate ECN.
            traffic: What the algorithm's application does; default a bulk transfer.
            flows: Number of flows of the algorithm, which start together.
            against: Algorithms of further flows, such as `kernel/reno`; each has a bulk transfer.
            params: Parameters of the algorithm for this path, where it has them.
            watch: Called with the instance of ccplane's algorithm and the report after each report.
            exact: Keep rate and RTT whatever the seed.
            **direction: Further fields of `experiments.netlab.spec.Direction`, such as `loss`.

        Raises:
            CcpError: If the algorithm does not exist, or cannot run there.
            Undecided: If the case watches the algorithm, and paths have real sockets.
            Several: If several things are wrong.
        """
        if self.seed != 1 and not exact:
            rate_mbit *= VARIED ** self._random.uniform(-1, 1)
            rtt_ms *= VARIED ** self._random.uniform(-1, 1)
        delay_us = round(rtt_ms * 500)
        buffer = Buffer(packets=buffer_pkts) if buffer_pkts is not None else Buffer(bdp=buffer_bdp or 1.0)
        rate = None if "trace" in direction else rate_mbit * MBIT
        forward = Direction(rate_bytes_per_s=rate, delay_us=delay_us, buffer=buffer, **direction)
        back = Direction(delay_us=delay_us)
        names = [*[self.algorithm] * flows, *against]
        known = params_of(find(self.algorithm)) if params and is_own(self.algorithm) else {}
        added = {name: value for name, value in (params or {}).items() if name in known}
        specs = []
        for number, algorithm in enumerate(names, 1):
            sender, receiver = one_path.ends(len(names), number)
            own = number <= flows
            specs.append(
                FlowSpec(
                    f"flow{number}",
                    sender,
                    receiver,
                    algorithm,
                    self._params | added if own else {},
                    traffic if own and traffic is not None else Iperf3(),
                    ecn=ecn,
                )
            )
        scenario = Scenario(
            name=self._name or "conform",
            topology=PointToPoint(forward, back)
            if len(names) == 1
            else Dumbbell(len(names), forward, backward=back),
            flows=tuple(specs),
            duration_s=_LONGEST_S,
            seed=self.seed,
            datapath=self.datapath,
            sample_interval_us=1000,
        )
        net = self._open.enter_context(self._net(scenario, watch))
        self.runs.append(net)
        return net

    def _net(self, scenario: Scenario, watch: Watch | None) -> Net:
        if self.datapath == SIM:
            return SimNet(scenario, watch)
        self._open.close()  # of the paths before: traffic of real sockets does not stand still
        if watch is not None:
            self.undecided("it reads the algorithm's state, which the simulator alone shows")
        from experiments.conform.real import RealNet  # Linux only; not needed by the simulator

        return RealNet(scenario)

    def compare(
        self,
        what: str,
        value: float | None,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        near: float | None = None,
        within: float = 0.0,
        net: Net | None = None,
        at_s: float | None = None,
        since_s: float | None = None,
    ) -> bool:
        """Compare a number with its bounds; the case fails if one comparison does not hold.

        Args:
            what: What it is, with its unit, in words.
            value: The number; None or NaN if there is none, which never holds.
            at_least: Lower bound.
            at_most: Upper bound.
            near: The expected value, instead of bounds.
            within: Largest distance from `near`, as a ratio of it.
            net: The run that it is about; default the last.
            at_s: The moment in that run, or the end of what was measured [s]; default now.
            since_s: Begin of what was measured [s], for plots; default: it is about a moment.

        Returns:
            Whether it holds.
        """
        if near is not None:
            at_least, at_most = near * (1 - within), near * (1 + within)
        net = net or (self.runs[-1] if self.runs else None)
        moment_s = at_s if at_s is not None else net.now_s if net is not None else 0.0
        run = self.runs.index(net) if net is not None else 0
        number = None if value is None or value != value else float(value)
        made = Comparison(what, number, at_least, at_most, round(moment_s, 6), since_s, run)
        self.comparisons.append(made)
        return made.holds

    def check(self, what: str, holds: object) -> bool:
        """Check a condition; the case fails if it does not hold.

        Args:
            what: The condition, in words, such as `enters DRAIN within 30 s`.
            holds: Whether it holds.

        Returns:
            Whether it holds.
        """
        self.compare(what, 1.0 if holds else 0.0, at_least=1.0)
        self.comparisons[-1] = dataclasses.replace(self.comparisons[-1], is_condition=True)
        return bool(holds)

    def need(self, what: str, holds: object) -> None:
        """Check a condition, and end the case if it does not hold."""
        if not self.check(what, holds):
            raise Ended(what)

    def undecided(self, why: str) -> NoReturn:
        """End the case: the path did not produce the situation that it is about."""
        raise Undecided(why)

    def close(self) -> None:
        """End all runs."""
        self._open.close()
