"""Hyvar: CUBIC and a learned policy, with a monitoring time period (MTP) that follows the network.

    ACKs --> fold program: CUBIC grows the window; totals of the interval --- every MTP ---> state collector
      ^                                                                                            |
      +-- MTP, window * 2^a, who sets the window <-- MTP controller <-- state reasoner <-- policy <--+

Each flow reports at the end of an interval. The collector derives a normalised state from the report. The
reasoner chooses one of four cases, and with it the length of the next interval; the policy chooses a factor
for the window. All flows of a batch are evaluated together.

The controller switches between CUBIC and the policy. During a long MTP CUBIC sets the window between two
decisions of the policy, so the two are a hybrid. In case 3 (losses without a queue), only the policy sets the
window; with `case4_alone`, this also applies to case 4 (a long queue) once the MTP has reached its minimum
(`reasoner.py`).

    hyvar        the MTP follows the network, starting at `mtp_ms`
    hybrid_mtp   the MTP is `mtp_ms`, as in Orca: CUBIC all the time, a decision of the policy at each end
    policy       the MTP is `mtp_ms`, and only the policy sets the window, from the first ACK on

Sources: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.); RFC
9438; Abbasloo, Yen and Chao, "Classic Meets Modern: a Pragmatic Learning-Based Congestion Control for the
Internet" (Orca), SIGCOMM 2020, for hybrids with a fixed period.

Parameters: those of CUBIC (`cubic_control.py`); `mtp_ms`; for `hyvar` only, `alpha_rtts` and `delta_ratio`
(the slides give neither), `mtp_min_ms`, `mtp_max_ms` and `mtp_min_rtts` (bounds of the MTP; not given
either), `case4_alone` and `loss_price` (`reasoner.py`), `trains` (`trains.py`) and `thr_window_rtts`
(`collector.View`). `docs/papers/hyvar.md` shows how much these parameters matter.

Deviations, with reasons: those of `reasoner.py`, `collector.py`, `trains.py` and `fold.py`, and of the loss
episodes, CUBIC and slow start. The slides do not say how the MTP determines the switching; the text above is
ccplane's reading. The MTP is at least `mtp_min_rtts` minimum RTTs: the RTT shows the effect of a decision
only after that time, so earlier decisions would react to the state before the effect. Unlike other
algorithms, this one reads a file. The file has the policy, is shipped with ccplane, and is checked by its
hash.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ccp_algs.api import Decided, FlowInfo, Updates, VectorAlgorithm
from ccp_algs.cubic_control import CubicAnswers
from ccp_algs.episodes import NOTHING, STARTED
from ccp_algs.hyvar.collector import Collector, Floats, States, View
from ccp_algs.hyvar.fold import FIRST_MTP_US, PPM, HyvarFold
from ccp_algs.hyvar.policy import NAMED, load_policy
from ccp_algs.hyvar.reasoner import Bounds, cases, next_mtp_us, priced
from ccp_algs.params import Param
from ccp_algs.registry import register

LOSS_WITHOUT_QUEUE: Final = 3
LONG_QUEUE: Final = 4
"""Cases of the reasoner."""


@dataclasses.dataclass(frozen=True)
class Intervals:
    """The next intervals of n flows; arrays of shape (n,).

    Attributes:
        mtp_us: Their lengths [us].
        learned: Whether only the policy sets the window.
        heeded: Multiplier of the policy's factor at their beginning; 0: the factor is not applied.
    """

    mtp_us: Floats
    learned: NDArray[np.bool_]
    heeded: Floats


class Hybrid(CubicAnswers):
    """CUBIC with a decision of the policy at the end of each interval; handles the reports of many flows."""

    program = HyvarFold
    depends_on = tuple(NAMED.values())
    mtp_ms = Param(
        FIRST_MTP_US / 1000, min=1.0, max=60_000.0, unit="ms", doc="interval of the policy's decisions (MTP)"
    )
    policy_file = Param(
        "",
        doc="file with a policy; empty: the shipped one; slides: the one trained with the slides' reward",
    )

    learned_from_start = False
    """Only the policy sets the window, from the first ACK on."""

    @property
    def view(self) -> View:
        """The basis of the policy's observations."""
        return View()

    def __init__(self) -> None:
        """Read the policy.

        Raises:
            PolicyError: As for `policy.load_policy`.
        """
        self._policy = load_policy(NAMED.get(self.policy_file, Path(self.policy_file)))
        self._collector = Collector()
        self._mss_bytes: dict[int, int] = {}

    def add(self, info: FlowInfo) -> dict[str, int]:
        """Add a flow; return its initial registers."""
        self._collector.add(info.flow_id, 1000 * self.mtp_ms)
        self._mss_bytes[info.flow_id] = info.mss_bytes
        return self._beginning(info.flow_id, info.mss_bytes)

    def remove(self, flow_id: int) -> None:
        """Remove a flow."""
        self._collector.remove(flow_id)
        self._mss_bytes.pop(flow_id, None)

    def decide(self, reports: NDArray[np.void]) -> list[Updates]:
        """Return the updates that answer reports.

        Args:
            reports: As for `VectorAlgorithm.on_reports`.
        """
        updates: list[Updates] = []
        events = reports["event"]
        if events.any():
            # Few flows need an answer of CUBIC, a few floats each.
            rows = []
            for row in reports[events > NOTHING].tolist():
                report = SimpleNamespace(**dict(zip(reports.dtype.names or (), row, strict=True)))
                rows.append((report.flow_id, self.answer(report)))
                if report.event == STARTED:
                    rows.append((report.flow_id, self._beginning(report.flow_id, report.mss_bytes)))
            updates += _grouped(rows)
            self._collector.begin(reports[events == STARTED])
        ended = reports[(reports["due"] > 0) & (events != STARTED)]
        states = self._collector.end(ended, self.view) if len(ended) else None
        if states is not None:
            updates.append(self._control(states))
        return updates

    def all_registers(self) -> list[Updates]:
        """Return the registers that parameters determine, for all flows."""
        return _grouped([(flow_id, self.registers(mss)) for flow_id, mss in self._mss_bytes.items()])

    def next_intervals(self, states: States) -> Intervals:
        """Return the next intervals."""
        n = len(states.flow_ids)
        learned = np.full(n, self.learned_from_start)
        return Intervals(np.full(n, 1000 * self.mtp_ms), learned, np.ones(n))

    def _control(self, states: States) -> Updates:
        """Set the next intervals and the policy's factors."""
        following = self.next_intervals(states)
        self._collector.set_mtp_us(states.flow_ids, following.mtp_us)
        gain = np.exp2(self._policy.actions(states.observations).astype(np.float64)) * following.heeded
        registers = {
            "mtp_us": following.mtp_us.astype(np.uint64),
            "learned": following.learned.astype(np.uint64),
            "gain_ppm": np.rint(PPM * gain).astype(np.uint64),
        }
        return Updates(states.flow_ids, registers=registers)

    def _beginning(self, flow_id: int, mss_bytes: int) -> dict[str, int]:
        mtp_us = int(self._collector.mtp_us(np.array([flow_id], np.uint64))[0])
        own = {"mtp_us": mtp_us, "learned": int(self.learned_from_start)}
        return self.registers(mss_bytes) | own


class Adaptive(Hybrid):
    """Hyvar's decisions: the MTP adapts to the network."""

    alpha_rtts = Param(
        0.2, min=0.01, max=10.0, unit="minimum RTTs", doc="queueing delay above which a queue is long (alpha)"
    )
    delta_ratio = Param(0.01, min=0.0, max=1.0, doc="minimum share of lost packets that counts as loss")
    mtp_min_ms = Param(10.0, min=1.0, max=1000.0, unit="ms", doc="lower bound of the MTP")
    mtp_max_ms = Param(
        200.0, min=1.0, max=60_000.0, unit="ms", doc="upper bound of the MTP; mtp_min_rtts takes precedence"
    )
    mtp_min_rtts = Param(1.0, min=0.0, max=100.0, unit="minimum RTTs", doc="lower bound of the MTP")
    case4_alone = Param(False, doc="in case 4, at the shortest MTP, only the policy sets the window")
    loss_price = Param(
        160.0,
        min=0.0,
        max=1e6,
        doc="in case 4, halvings of the factor per share of the path and loss above delta",
    )
    thr_window_rtts = Param(
        3000.0,
        min=1.0,
        max=1e9,
        unit="minimum RTTs",
        doc="window over which the best throughput is remembered",
    )
    trains = Param(True, doc="take the path's rate from packets that left together, if it is higher")

    @property
    def view(self) -> View:
        """The basis of the policy's observations."""
        return View(self.thr_window_rtts, self.trains)

    def next_intervals(self, states: States) -> Intervals:
        """Let the reasoner choose the intervals; see the module."""
        case = cases(states, self.alpha_rtts, self.delta_ratio)
        bounds = Bounds(1000 * self.mtp_min_ms, 1000 * self.mtp_max_ms, self.mtp_min_rtts)
        mtp_us = bounds.clip(next_mtp_us(states, case, self.alpha_rtts), states.rtt_min_us)
        learned = case == LOSS_WITHOUT_QUEUE
        if self.case4_alone:
            shortest_us = bounds.clip(np.zeros_like(mtp_us), states.rtt_min_us)
            learned |= (case == LONG_QUEUE) & (mtp_us <= shortest_us)
        applied = (case >= LOSS_WITHOUT_QUEUE) | ~states.in_slow_start
        heeded = applied * priced(states, case, self.loss_price, self.delta_ratio)
        return Intervals(mtp_us, learned, heeded)


class _All(Hybrid, VectorAlgorithm):
    """One instance for all flows.

    Use it for research. It is a demonstration of the slides' idea: what a small learned policy adds to CUBIC.
    Do not use it in production, in data centres, above 200 Mbit/s, where the RTT varies without a queue
        (jitter, ACKs in bursts, a longer route: 7 to 27 % of CUBIC's goodput in `ccp evaluate`), next to
        CUBIC in a buffer of 8 BDP (15 % of an equal share), or with buffers of 0.25 BDP and less (10 to
        12 % retransmitted). Its policy was trained for 6 to 192 Mbit/s and RTTs of 10 to 200 ms, without
        AQM, ECN and policers. On no path of the slides does it beat every competitor in throughput and
        delay.
    Evidence: 1 of 23 claims tested on real sockets hold, 0 of 38 in the simulator
        (docs/papers/hyvar.md).
    More: docs/hyvar.md
    """

    def on_create(self, info: FlowInfo) -> None:
        """Add a flow; its registers are set when its program has started."""
        self.add(info)

    def on_reports(self, reports: NDArray[np.void], program: str) -> list[Updates]:
        """Decide for all flows together."""
        return self.decide(reports)

    def on_params(self, names: frozenset[str]) -> Decided:
        """Hand the changed parameters to the fold programs."""
        return self.all_registers()

    def on_close(self, flow_id: int) -> None:
        """Remove a flow."""
        self.remove(flow_id)


@register("hyvar")
class Hyvar(Adaptive, _All):
    """CUBIC and a learned policy, at intervals (MTP) that follow the network."""


@register("hybrid_mtp")
class HybridMtp(_All):
    """CUBIC and the learned policy at a fixed interval, as in Orca."""


@register("policy")
class PolicyAlone(_All):
    """The learned policy alone, at a fixed interval."""

    learned_from_start = True


def _grouped(rows: list[tuple[int, dict[str, int]]]) -> list[Updates]:
    """Return updates of registers, one for each set of names."""
    groups: dict[tuple[str, ...], list[tuple[int, dict[str, int]]]] = {}
    for row in rows:
        if row[1]:
            groups.setdefault(tuple(row[1]), []).append(row)
    return [
        Updates(
            np.array([flow_id for flow_id, _ in group], np.uint64),
            registers={name: np.array([int(one[name]) for _, one in group], np.uint64) for name in names},
        )
        for names, group in groups.items()
    ]
