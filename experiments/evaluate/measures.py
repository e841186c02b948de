"""What is measured: figures of a run, and the measures that compare controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd

from experiments import metrics
from experiments.results import Result
from experiments.scenario import Scenario
from experiments.units import MBIT

Better = Literal["more", "less", ""]

GOODPUT: Final = "goodput_bytes_per_s"
RETRANSMITTED: Final = "retrans_pkts"
RTT_P50: Final = "rtt_p50_us"
RTT_P95: Final = "rtt_p95_us"
JAIN: Final = "jain_index"
"""Quantities whose errors the draws of `ccp validate` measured."""

INF: Final = float("inf")


class Run:
    """Figures of one run; `who` is how flows' names begin, such as `x` for those evaluated."""

    def __init__(self, result: Result, scenario: Scenario | None = None) -> None:
        """Read the tables; the scenario, if it is known, need not be parsed again."""
        scenario = scenario or result.scenario
        self._samples = result.flow_samples
        self._objects = result.objects
        self._result = result
        self._flows = {one.name: one for one in scenario.flows}
        self._end_s = scenario.duration_s

    @property
    def algorithms(self) -> frozenset[str]:
        """The algorithms of the flows."""
        return frozenset(one.algorithm for one in self._flows.values())

    def mbit(self, who: str, start_s: float = 0.0, stop_s: float = INF) -> float:
        """Return the goodput of flows together over a time [Mbit/s]; a flow that stands still counts as 0."""
        return sum(self._rates("bytes_acked", who, start_s, stop_s)) / MBIT

    def sent_mbit(self, who: str, start_s: float, stop_s: float) -> float:
        """Return the rate at which flows sent, retransmissions included [Mbit/s]."""
        return sum(self._rates("bytes_sent", who, start_s, stop_s)) / MBIT

    def rtt_ms(self, who: str, percentile: float, start_s: float = 0.0, stop_s: float = INF) -> float:
        """Return the mean over flows of a percentile of their RTT [ms]."""
        found = metrics.rtt_percentiles_us(self._of(who, start_s, stop_s), [percentile])
        return float(found.iloc[:, 0].mean()) / 1e3

    def retrans_pct(self, who: str, start_s: float = 0.0, stop_s: float = INF) -> float:
        """Return the share of flows' bytes that were retransmissions [%]; NaN if nothing was sent."""
        again, sent = (
            sum(self._rates(name, who, start_s, stop_s)) for name in ("bytes_retrans", "bytes_sent")
        )
        return 100 * again / sent if sent > 0 else metrics.NAN

    def jain(self, who: str, start_s: float = 0.0) -> float:
        """Return Jain's index of flows' goodputs."""
        return metrics.jain_index(self._rates("bytes_acked", who, start_s, INF))

    def completion_ms(self, who: str, percentile: float, size_bytes: int | None = None) -> float:
        """Return a percentile of the time of flows' downloads, connecting included [ms].

        A download that did not end does not count; where none did, the time is that until the end of the run.
        """
        own = self._objects[self._objects["flow"].str.startswith(who)]
        if size_bytes is not None:
            own = own[own["size_bytes"] == size_bytes]
        times_s: list[float] = own["completion_s"].tolist()
        if own.empty:
            times_s = [self._end_s - one.start_s for name, one in self._flows.items() if name.startswith(who)]
        return float(np.percentile(times_s, percentile)) * 1e3

    def received_mbit(self, who: str) -> float:
        """Return what flows' applications received in order, over the whole run [Mbit/s].

        It differs from the goodput if a receiver acknowledges data that it did not receive.
        """
        flows = self._result.flows
        own = flows[flows["flow"].str.startswith(who)]
        return float(own["received_bytes"].sum()) / self._end_s / MBIT

    def media(self, who: str, column: str, start_s: float = 0.0) -> float:
        """Return a column of `metrics.media`, for the packets of a flow sent from some time on."""
        packets = self._result.media_packets
        own = packets[packets["flow"].str.startswith(who) & (packets["sent_s"] >= start_s)]
        return float(metrics.media(own)[column].mean())

    def breaker_s(self, who: str) -> float:
        """Return the time until a circuit breaker of media trips; that of the whole run if none does [s]."""
        media = self._result.media
        return float(media[media["flow"].str.startswith(who)]["breaker_s"].fillna(self._end_s).min())

    def _rates(self, column: str, who: str, start_s: float, stop_s: float) -> list[float]:
        """Return the rate of a cumulative column for each flow [1/s].

        Between samples the count is interpolated. A flow that stands still has none until its last one, which
        is at the end of the run; its rate is small then, not unknown.
        """
        stop_s = min(stop_s, self._end_s)
        rates = []
        for name in self._flows:
            if name.startswith(who):
                own = self._samples[self._samples["flow"] == name].dropna(subset=["t_s", column])
                begin, end = np.interp([start_s, stop_s], [0.0, *own["t_s"]], [0.0, *own[column]])
                rates.append(float(end - begin) / (stop_s - start_s))
        return rates

    def _of(self, who: str, start_s: float, stop_s: float) -> pd.DataFrame:
        own = self._samples[self._samples["flow"].str.startswith(who)]
        return metrics.within(own, start_s, stop_s)


Runs = Mapping[str, Run]
"""Name of a line-up of a case -> its run."""


@dataclass(frozen=True)
class Measure:
    """A figure of a case, for one controller and one seed.

    Attributes:
        key: Unique in its case.
        label: Noun phrase.
        unit: Its unit; empty without one.
        of: Returns it from the case's runs.
        better: Whether more or less is better; empty if it is only shown.
        quantity: The quantity of the simulator's draws with the same error.
        floor: Values below it count as equal to it when controllers are compared.
        empty: What it is put in relation to: the RTT of the empty path, a rate; 0 for nothing.
        empty_is: What this rate is.
    """

    key: str
    label: str
    unit: str
    of: Callable[[Runs], float]
    better: Better
    quantity: str
    floor: float = 0.0
    empty: float = 0.0
    empty_is: str = "the path's rate"

    def ratio(self, value: float, reference: float) -> float:
        """Return a value relative to the reference's, with the floor for both."""
        value, reference = max(value, self.floor), max(reference, self.floor)
        if value == reference:
            return 1.0
        return value / reference if reference > 0 else metrics.NAN


def goodput(
    who: str = "x",
    start_s: float = 0.0,
    stop_s: float = INF,
    *,
    label: str = "goodput",
    key: str = "goodput",
    link_mbit: float = 0.0,
    share_mbit: float = 0.0,
) -> Measure:
    """Return a measure of goodput.

    Args:
        who: How the names of the flows begin.
        start_s: Start of the time that is measured [s].
        stop_s: Its end [s].
        label: Noun phrase.
        key: Unique in the case.
        link_mbit: Mean rate of the path in that time, to put the value in relation to.
        share_mbit: The flows' equal share of it, instead. Goodput above it counts as that share, because more
            is no merit.
    """
    max_mbit = share_mbit or INF
    return Measure(
        key,
        label,
        "Mbit/s",
        lambda runs: min(runs[""].mbit(who, start_s, stop_s), max_mbit),
        "more",
        GOODPUT,
        0.01,
        share_mbit or link_mbit,
        "an equal share" if share_mbit else "the path's rate",
    )


def rtt(
    percentile: int,
    who: str = "x",
    start_s: float = 0.0,
    stop_s: float = INF,
    *,
    base_ms: float,
    label: str = "",
) -> Measure:
    """Return a measure of the RTT."""
    return Measure(
        f"rtt_p{percentile}",
        label or f"RTT p{percentile}",
        "ms",
        lambda runs: runs[""].rtt_ms(who, percentile, start_s, stop_s),
        "less",
        RTT_P95 if percentile > 50 else RTT_P50,
        empty=base_ms,
    )


def retransmitted(
    who: str = "x", start_s: float = 0.0, stop_s: float = INF, *, label: str = "retransmitted"
) -> Measure:
    """Return a measure of retransmissions; below one byte in a thousand, differences do not count."""
    return Measure(
        "retransmitted",
        label,
        "%",
        lambda runs: runs[""].retrans_pct(who, start_s, stop_s),
        "less",
        RETRANSMITTED,
        0.1,
    )


def fairness(who: str = "x", start_s: float = 0.0) -> Measure:
    """Return a measure of fairness among flows."""
    return Measure("jain", "Jain's index", "", lambda runs: runs[""].jain(who, start_s), "more", JAIN)


def completion(
    percentile: int, who: str = "x", size_bytes: int | None = None, *, key: str, label: str
) -> Measure:
    """Return a measure of downloads' times; its error is that of their rate."""
    return Measure(
        key,
        label,
        "ms",
        lambda runs: runs[""].completion_ms(who, percentile, size_bytes),
        "less",
        GOODPUT,
    )


def media_delay(who: str, start_s: float, base_ms: float) -> Measure:
    """Return a measure of the one-way delay of media over RTP; its error is that of an RTT."""
    return Measure(
        "delay_p95",
        "one-way delay p95 of the media",
        "ms",
        lambda runs: runs[""].media(who, "delay_p95_us", start_s) / 1e3,
        "less",
        RTT_P95,
        empty=base_ms,
    )


def media_lost(who: str, start_s: float) -> Measure:
    """Return a measure of the loss of media over RTP; below one packet in a thousand, it does not count."""
    return Measure(
        "lost",
        "lost packets of the media",
        "%",
        lambda runs: runs[""].media(who, "lost_pct", start_s),
        "less",
        RETRANSMITTED,
        0.1,
    )


def media_breaker(who: str) -> Measure:
    """Return a measure of the circuit breakers of media over RTP."""
    return Measure(
        "breaker",
        "time until a circuit breaker trips, or the end",
        "s",
        lambda runs: runs[""].breaker_s(who),
        "more",
        GOODPUT,
    )
