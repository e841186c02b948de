"""Metrics: pure functions from the tables of a result to numbers.

The input is a table of a `Result` (`flow_samples`, `link_samples`), or a part of its rows (`within`); the
output is a number for each flow or link. Unknown values are NaN, never 0: a flow with a single sample has no
goodput, and flows that all stand still have no fairness. Counters in the tables are cumulative, so a metric
over a time is the difference between the last and the first sample in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "metric.no_column": "a table lacks a column that a metric or figure needs",
    "metric.bad_value": "an argument of a metric, or a value in its table, is invalid",
    "plot.format": "a figure cannot be written in the requested format",
    "plot.nothing": "a result has no data to draw",
}
"""Slug -> meaning; a test covers each."""

NAN: Final = float("nan")

_STALL_COST_PER_S: Final = 4.3
"""Cost of one second of stalling in `qoe`; equal to the value of the highest bitrate of the source."""


class MetricError(CcpError):
    """A metric cannot be computed from its arguments."""


def need(table: pd.DataFrame, *columns: str) -> None:
    """Check that a table has columns.

    Raises:
        MetricError: `metric.no_column`, naming all missing columns.
    """
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise MetricError(
            "metric.no_column",
            f"the table has no column {', '.join(f'`{name}`' for name in missing)}",
            why=f"the table's columns are {', '.join(str(name) for name in table.columns) or 'none'}",
            fix="pass a table of a `Result` that has the column: flow_samples, link_samples, flows, objects",
        )


def within(samples: pd.DataFrame, start_s: float = 0.0, stop_s: float = float("inf")) -> pd.DataFrame:
    """Return the samples of a part of the run, in order of time.

    Args:
        samples: A table with a column `t_s` (flow_samples, link_samples, events).
        start_s: Beginning, inclusive [s since the start of the run].
        stop_s: End, inclusive [s].
    """
    need(samples, "t_s")
    chosen = samples[samples["t_s"].between(start_s, stop_s)]
    return chosen.sort_values("t_s", kind="stable")


def goodput_bytes_per_s(flow_samples: pd.DataFrame) -> pd.Series:
    """Return each flow's goodput: acknowledged payload per second.

    Args:
        flow_samples: Columns `t_s`, `flow`, `bytes_acked` (cumulative).

    Returns:
        Goodput [bytes/s] by flow; NaN for a flow with fewer than two samples. Retransmissions and headers do
        not count; payload counts when it is acknowledged.

    Source: RFC 2647 §3.17 (goodput), measured at the sender.
    """
    return _rate(flow_samples, "flow", "bytes_acked", "goodput_bytes_per_s")


def goodput_over_time(flow_samples: pd.DataFrame, interval_s: float) -> pd.DataFrame:
    """Return each flow's goodput over intervals of at least a given length.

    Nothing is interpolated: an interval lasts from one sample to the first that is at least `interval_s`
    later, so it is longer where a flow was silent.

    Args:
        flow_samples: Columns `t_s`, `flow`, `bytes_acked`.
        interval_s: Minimum length of an interval [s], > 0.

    Returns:
        A row for each flow and interval: `flow`, `start_s`, `end_s`, `t_s` (the middle),
        `goodput_bytes_per_s`. Samples after the last whole interval are left out.

    Raises:
        MetricError: `metric.bad_value`, if the interval is not positive.
    """
    need(flow_samples, "t_s", "flow", "bytes_acked")
    _positive(interval_s, "interval_s")
    parts = []
    for flow, own in _by(flow_samples.dropna(subset=["t_s", "bytes_acked"]), "flow"):
        t_s = own["t_s"].to_numpy(dtype=np.float64)
        acked_bytes = own["bytes_acked"].to_numpy(dtype=np.float64)
        at = _spaced(t_s, interval_s)
        start_s, end_s = t_s[at[:-1]], t_s[at[1:]]
        parts.append(
            pd.DataFrame(
                {
                    "flow": [flow] * len(start_s),
                    "start_s": start_s,
                    "end_s": end_s,
                    "t_s": (start_s + end_s) / 2,
                    "goodput_bytes_per_s": np.diff(acked_bytes[at]) / (end_s - start_s),
                }
            )
        )
    columns = ["flow", "start_s", "end_s", "t_s", "goodput_bytes_per_s"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def utilisation_ratio(link_samples: pd.DataFrame, rates_bytes_per_s: Mapping[str, float]) -> pd.Series:
    """Return the utilisation of each link direction: delivered bytes divided by capacity.

    Args:
        link_samples: Columns `t_s`, `link`, `delivered_bytes` (cumulative, IP packets).
        rates_bytes_per_s: Capacity by link direction [bytes/s]; for a rate that changed, its mean over the
            time.

    Returns:
        Ratio by link direction; NaN without a capacity or with fewer than two samples. Packets whose
        transmission starts before the measured time but ends in it may raise the ratio slightly above 1.
    """
    rate = _rate(link_samples, "link", "delivered_bytes", "utilisation_ratio")
    capacity = pd.Series({name: rates_bytes_per_s.get(name, NAN) for name in rate.index}, dtype=np.float64)
    if (capacity <= 0).any():
        raise _bad("a link's capacity must be positive", f"rates_bytes_per_s {dict(rates_bytes_per_s)}")
    return (rate / capacity).rename("utilisation_ratio").rename_axis("link")


def loss_ratio(link_samples: pd.DataFrame) -> pd.Series:
    """Return the share of arriving packets that the loss process of each link direction dropped.

    Args:
        link_samples: Columns `t_s`, `link`, `arrived_pkts`, `dropped_loss_pkts` (cumulative).

    Returns:
        Ratio by link direction; NaN where nothing arrived. Drops by queue, AQM and policer do not count.
    """
    need(link_samples, "t_s", "link", "arrived_pkts", "dropped_loss_pkts")
    return _ratio(link_samples, "link", "dropped_loss_pkts", "arrived_pkts", "loss_ratio")


def retrans_pct(flow_samples: pd.DataFrame) -> pd.Series:
    """Return the share of each flow's sent bytes that were retransmissions.

    Args:
        flow_samples: Columns `t_s`, `flow`, `bytes_retrans`, `bytes_sent` (cumulative payload;
            retransmissions are in both).

    Returns:
        100 x retransmitted / sent by flow [%]; NaN for a flow that sent nothing.

    Source: RFC 4898, tcpEStatsPerfOctetsRetrans over tcpEStatsPerfDataOctetsOut.
    """
    need(flow_samples, "t_s", "flow", "bytes_retrans", "bytes_sent")
    return 100 * _ratio(flow_samples, "flow", "bytes_retrans", "bytes_sent", "retrans_pct")


def rtt_percentiles_us(
    flow_samples: pd.DataFrame, percentiles: Sequence[float] = (50, 95, 99), column: str = "rtt_us"
) -> pd.DataFrame:
    """Return percentiles of each flow's RTT.

    Args:
        flow_samples: Columns `flow` and `column`; every sample has equal weight, and samples are evenly
            spaced in time, not in packets.
        percentiles: Percentiles to compute, 0 to 100.
        column: `rtt_us` (single measurements) or `srtt_us` (smoothed, RFC 6298).

    Returns:
        A row for each flow, columns `rtt_p50_us` and so on [us], linearly interpolated between samples (type
        7 of Hyndman and Fan 1996); NaN for a flow without a measurement.

    Raises:
        MetricError: `metric.bad_value`, if a percentile is not in 0..100.
    """
    need(flow_samples, "flow", column)
    if any(not 0 <= q <= 100 for q in percentiles):
        raise _bad("a percentile must be between 0 and 100", f"percentiles {list(percentiles)}")
    stem = column.removesuffix("_us")
    rows = {
        flow: {
            f"{stem}_p{q:g}_us": _percentile(own[column].dropna().to_numpy(dtype=np.float64), q)
            for q in percentiles
        }
        for flow, own in flow_samples.groupby("flow", sort=False)
    }
    columns = [f"{stem}_p{q:g}_us" for q in percentiles]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("flow")


def queueing_delay_us(
    flow_samples: pd.DataFrame, base_rtt_us: float | None = None, column: str = "rtt_us"
) -> pd.Series:
    """Return the queueing delay of each sample: its RTT minus the RTT of the empty path.

    Args:
        flow_samples: Columns `flow` and `column`.
        base_rtt_us: RTT without queues, where known (`EmulatedNetwork.base_rtt_us`) [us]. Otherwise the
            minimum RTT of each flow in this table is used; it is too high for a flow that never saw the
            queue empty.
        column: `rtt_us` or `srtt_us`.

    Returns:
        Queueing delay [us], one value per row of `flow_samples`, NaN where there is no RTT. It includes
        delayed acknowledgments and scheduling delays of the hosts.
    """
    need(flow_samples, "flow", column)
    rtt_us = flow_samples[column].astype(np.float64)
    base = rtt_us.groupby(flow_samples["flow"]).transform("min") if base_rtt_us is None else base_rtt_us
    return (rtt_us - base).rename("queueing_delay_us")


def int_nodes(int_hops: pd.DataFrame) -> pd.DataFrame:
    """Summarise what in-band telemetry reported of the nodes on flows' paths, over the whole table.

    Args:
        int_hops: Columns `flow`, `backward`, `hop`, `node`, `interval_us`, and those below.

    Returns:
        A row for each flow, direction and node, in the order of the path: `queue_depth_pkts` and
        `arrival_pkts_per_s` are time-weighted means, `queue_free_pkts` is the minimum of all intervals,
        `flow_count` the maximum. NaN where the node reported nothing.
    """
    means = ["queue_depth_pkts", "arrival_pkts_per_s"]
    keys = ["flow", "backward", "hop", "node"]
    need(int_hops, *keys, "interval_us", *means, "queue_free_pkts", "flow_count")
    times = int_hops[means].notna().mul(int_hops["interval_us"], axis=0)
    parts = int_hops[keys].join(int_hops[means].mul(times)).join(times.add_suffix("_us"))
    by_node = int_hops.groupby(keys, sort=False, dropna=False)
    sums = parts.groupby(keys, sort=False, dropna=False).sum(min_count=1)
    found = {name: sums[name] / sums[f"{name}_us"].where(sums[f"{name}_us"] > 0) for name in means}
    found |= {"queue_free_pkts": by_node["queue_free_pkts"].min(), "flow_count": by_node["flow_count"].max()}
    return pd.DataFrame(found).reset_index().sort_values(keys[:3], kind="stable", ignore_index=True)


def viewing(playback: pd.DataFrame) -> pd.DataFrame:
    """Return the viewing quality of each flow's video.

    Args:
        playback: Columns `flow`, `number`, `bitrate_bytes_per_s`, `played_s`, `startup_s`, `stalls`,
            `stalled_s`.

    Returns:
        A row by flow: `played_s`; `bitrate_bytes_per_s`, the mean over the playing time; `startup_s`, the
        mean of the known values; `stalls`; `stalled_s`; `stalls_per_min` and `stalled_ratio`, relative to the
        playing time; `qoe`, and `quality`, the bitrates' contribution to it.

    Source: `qoe` is QoE_lin of Mao et al. 2017 (SIGCOMM), section 5.1: the sum of the segments' bitrates
    [Mbit/s], minus 4.3 times the seconds of stalling, minus the sum of bitrate changes between neighbouring
    segments, divided by the number of segments. The wait before the first segment does not count.
    """
    need(playback, "flow", "number", "bitrate_bytes_per_s", "played_s", "startup_s", "stalls", "stalled_s")
    rows = {}
    for name, own in playback.sort_values("number", kind="stable").groupby("flow", sort=False):
        bitrates = own["bitrate_bytes_per_s"]
        played_s, stalled_s, stalls = (own[column].sum() for column in ("played_s", "stalled_s", "stalls"))
        quality, changes = (8e-6 * value for value in (bitrates.sum(), bitrates.diff().abs().sum()))
        rows[str(name)] = {
            "played_s": played_s,
            "bitrate_bytes_per_s": (bitrates * own["played_s"]).sum() / played_s,
            "startup_s": own["startup_s"].mean(),
            "stalls": stalls,
            "stalled_s": stalled_s,
            "stalls_per_min": 60 * stalls / played_s,
            "stalled_ratio": stalled_s / played_s,
            "quality": quality / len(own),
            "qoe": (quality - _STALL_COST_PER_S * stalled_s - changes) / len(own),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("flow")


def media(media_packets: pd.DataFrame) -> pd.DataFrame:
    """Return the quality of each flow of media over RTP.

    Args:
        media_packets: Columns `flow`, `delay_us` (null for lost packets), `playout_us`.

    Returns:
        A row by flow: `sent_pkts`; `lost_pct` and `late_pct`, the shares of sent packets that never arrived,
        and that arrived with a one-way delay above `playout_us` [%]; `delay_p50_us` and `delay_p95_us`, of
        packets that arrived [us].
    """
    need(media_packets, "flow", "delay_us", "playout_us")
    columns = ["sent_pkts", "lost_pct", "late_pct", "delay_p50_us", "delay_p95_us"]
    rows = {}
    for name, own in media_packets.groupby("flow", sort=False):
        delays_us = own["delay_us"].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
        arrived_us = delays_us[~np.isnan(delays_us)]
        late = delays_us > own["playout_us"].to_numpy(dtype=np.float64)
        rows[str(name)] = (
            len(own),
            100 * (1 - len(arrived_us) / len(own)),
            100 * float(late.mean()),
            _percentile(arrived_us, 50),
            _percentile(arrived_us, 95),
        )
    return pd.DataFrame(list(rows.values()), pd.Index(rows, dtype=object, name="flow"), columns)


def jain_index(values: ArrayLike) -> float:
    """Return Jain's fairness index of n shares.

    Args:
        values: n values >= 0, of any unit.

    Returns:
        (sum x)^2 / (n sum x^2): 1 if all shares are equal, 1/n if one user has everything. NaN if there are
        no values, if one is missing (NaN), or if all are 0.

    Raises:
        MetricError: `metric.bad_value`, if a value is negative or infinite.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation
    in Shared Computer Systems", DEC-TR-301, 1984.
    """
    got = np.asarray(values, dtype=np.float64).ravel()
    if (got < 0).any() or np.isinf(got).any():
        raise _bad("fairness needs finite, non-negative values", f"values {got.tolist()}")
    if got.size == 0 or np.isnan(got).any() or not got.any():
        return NAN
    got = got / got.max()  # squares of tiny and huge values stay finite
    return float(got.sum() ** 2 / (got.size * np.square(got).sum()))


def _by(table: pd.DataFrame, key: str) -> Iterable[tuple[str, pd.DataFrame]]:
    """Yield each key with its rows in order of time; keys in the order of their first rows."""
    for name, own in table.groupby(key, sort=False):
        yield str(name), own.sort_values("t_s", kind="stable")


def _difference(own: pd.DataFrame, column: str) -> float:
    known = own[column].dropna()
    return float(known.iloc[-1]) - float(known.iloc[0]) if len(known) > 1 else NAN


def _rate(table: pd.DataFrame, key: str, column: str, name: str) -> pd.Series:
    need(table, "t_s", key, column)
    rates = {}
    for one, own in _by(table, key):
        known = own.dropna(subset=["t_s", column])
        passed_s = _difference(known, "t_s")
        rates[one] = _difference(known, column) / passed_s if passed_s > 0 else NAN
    return pd.Series(rates, dtype=np.float64, name=name).rename_axis(key)


def _ratio(table: pd.DataFrame, key: str, above: str, below: str, name: str) -> pd.Series:
    ratios = {}
    for one, own in _by(table, key):
        whole = _difference(own, below)
        ratios[one] = _difference(own, above) / whole if whole > 0 else NAN
    return pd.Series(ratios, dtype=np.float64, name=name).rename_axis(key)


def _spaced(t_s: np.ndarray, interval_s: float) -> list[int]:
    """Return indices of samples, from the first on, each at least an interval after the one before."""
    chosen: list[int] = []
    at = 0
    while at < len(t_s):
        chosen.append(at)
        at = max(int(np.searchsorted(t_s, t_s[at] + interval_s - 1e-9)), at + 1)
    return chosen


def _percentile(values: np.ndarray, q: float) -> float:
    return float(np.percentile(values, q)) if values.size else NAN


def _positive(value: float, name: str) -> None:
    if not value > 0:
        raise _bad(f"{name} must be positive", f"{name}={value}")


def _bad(message: str, where: str) -> MetricError:
    return MetricError("metric.bad_value", message, where, fix="see the docstring of the metric")
