"""CUBIC's growth as part of a fold program, and the numbers it needs; shared by all variants of CUBIC.

For fold programs (integers, bytes, microseconds): `CubicState`, which a loss episode restarts, and
`cubic_growth`, which grows the window. For Python (floats, where a cube root is easy): `k_us`, `w_max_bytes`,
`cubic_scale`.

The curve is W(t) = W_max + C (t - K)^3, here in bytes: the cube of the distance from K in units of 1024 us,
divided by the register `cubic_scale` = 10^18 / (1024^3 C mss). The distance is clipped to 2,000,000 units (34
minutes), so that the cube fits 64 bits; C * 2048^3 segments exceed any window.

The window grows in steps: acknowledged bytes are added up until they make a 16th of the window, then the
formulas of the RFC, which are per acknowledged segment, are applied to all added bytes. The datapath sets
whole segments, so finer steps would change nothing on the wire, and most ACKs skip the computation.

Source: RFC 9438 sections 4.2 to 4.5, 4.7 and 4.8.

Deviations: the steps described above. W_est never shrinks the window, as in Linux (section 4.3 sets cwnd to
W_est when W_cubic(t) is below it, which RFC 9438 does not mean as a reduction). Before the first reduction
the window grows by at least 5 % per round trip, as in Linux: HyStart may have left slow start far below what
the path can carry, and the curve, flat at its origin, would need seconds to get there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final, Protocol

from ccp_algs.episodes import Episodes, LossReport, Verdict
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Block,
    Cwnd,
    Flow,
    Part,
    Register,
    Statement,
    control,
    distance,
    field,
    let,
    max_,
    min_,
    on,
    state,
)
from ccp_algs.fold.expressions import Flag
from ccplane.base.errors import ParamError

BETA: Final = 0.7
"""Multiplicative decrease factor (RFC 9438 section 4.6)."""
C_PER_S3: Final = 0.4
"""Aggressiveness [segments/s^3] (RFC 9438 section 5.1)."""

K_UNKNOWN: Final = INFINITY
"""Value of `k_us` after a reduction until Python has computed K: it disables the curve, so W_est applies."""

STEPS_PER_WINDOW: Final = 16
_UNIT_US: Final = 1024
_MAX_UNITS: Final = 2_000_000


def k_us(w_max_bytes: float, cwnd_epoch_bytes: float, mss_bytes: int, c_per_s3: float = C_PER_S3) -> int:
    """Return K, the time that the curve takes from the window after a reduction back to W_max.

    Args:
        w_max_bytes: W_max [bytes].
        cwnd_epoch_bytes: Window at the beginning of congestion avoidance [bytes].
        mss_bytes: Segment size [bytes], > 0.
        c_per_s3: C [segments/s^3], > 0.

    Returns:
        K [us]; 0 if the window is not below W_max.

    Raises:
        ParamError: `param.out_of_range`, if mss_bytes or c_per_s3 is not positive.

    Source: RFC 9438 section 4.2, figure 2: K = cbrt((W_max - cwnd_epoch) / C). Deviation: none.
    """
    _check_positive(mss_bytes=mss_bytes, c_per_s3=c_per_s3)
    deficit_pkts = max(0.0, w_max_bytes - cwnd_epoch_bytes) / mss_bytes
    return round(1e6 * math.cbrt(deficit_pkts / c_per_s3))


def w_max_bytes(
    prior_bytes: int, last_w_max_bytes: int, beta: float = BETA, *, fast_convergence: bool = True
) -> int:
    """Return W_max after a reduction.

    Args:
        prior_bytes: Window before the reduction [bytes].
        last_w_max_bytes: W_max of the epoch that ends [bytes].
        beta: Multiplicative decrease factor, 0 < beta < 1.
        fast_convergence: Aim lower if the window did not reach the last W_max, to make room for new flows.

    Returns:
        W_max [bytes].

    Source: RFC 9438 section 4.7. Deviation: none.
    """
    if fast_convergence and prior_bytes < last_w_max_bytes:
        return round(prior_bytes * (1 + beta) / 2)
    return prior_bytes


def alpha_permille(beta: float) -> int:
    """Return alpha_cubic in thousandths: the growth of W_est that is fair to Reno at this decrease factor.

    Source: RFC 9438 section 4.3: 3 (1 - beta) / (1 + beta). Deviation: rounded to thousandths.
    """
    return round(3000 * (1 - beta) / (1 + beta))


def cubic_scale(mss_bytes: int, c_per_s3: float = C_PER_S3) -> int:
    """Return the divisor that converts the cube of a time in units of 1024 us to bytes; see the module.

    Args:
        mss_bytes: Segment size [bytes], > 0.
        c_per_s3: C [segments/s^3], > 0.

    Returns:
        The divisor [units^3/byte], >= 1.

    Raises:
        ParamError: `param.out_of_range`, if mss_bytes or c_per_s3 is not positive.
    """
    _check_positive(mss_bytes=mss_bytes, c_per_s3=c_per_s3)
    return max(1, round(1e18 / (_UNIT_US**3 * c_per_s3 * mss_bytes)))


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ParamError(
                "param.out_of_range",
                f"{name} cannot be {value!r}",
                where=name,
                why="the value must be positive",
            )


@dataclasses.dataclass(frozen=True)
class CubicState(Part):
    """Registers of the curve.

    Attributes:
        credit_bytes: Acknowledged in congestion avoidance and not yet turned into growth [bytes].
        w_max_bytes: W_max [bytes]; 0: the window at the epoch's start (RFC 9438 sections 4.8 and 4.10).
        k_us: K [us]; K_UNKNOWN until Python has computed it.
        epoch: 1 during a congestion-avoidance epoch.
        t_us: Time in this epoch, excluding periods in which the window was not used up [us].
        w_est_bytes: W_est, the window that Reno would have [bytes].
        cubic_scale: See the module.
        alpha_permille: alpha_cubic, in thousandths.
        old_w_max_bytes: Reported: W_max of the epoch that a reduction ended [bytes]; likewise the other
            `old_` registers.
    """

    credit_bytes: Register
    w_max_bytes: Register
    k_us: Register
    epoch: Register
    t_us: Register
    w_est_bytes: Register
    cubic_scale: Register
    alpha_permille: Register
    old_w_max_bytes: Register
    old_k_us: Register
    old_epoch: Register
    old_t_us: Register
    old_w_est_bytes: Register
    mss_bytes: Register

    def restart(self, verdict: Verdict) -> Sequence[Statement]:
        """Return statements that end an epoch, for `loss_episodes(also=...)`; an undo can restore it."""
        ended = verdict.cut | verdict.timeout
        return [
            self.old_w_max_bytes.set(self.w_max_bytes, when=verdict.reduced),
            self.old_k_us.set(self.k_us, when=verdict.reduced),
            self.old_epoch.set(self.epoch, when=verdict.reduced),
            self.old_t_us.set(self.t_us, when=verdict.reduced),
            self.old_w_est_bytes.set(self.w_est_bytes, when=verdict.reduced),
            self.mss_bytes.set(Flow.mss),
            self.credit_bytes.set(0, when=ended),
            # Also if a recovery needs no new reduction: the window is smaller after it.
            self.epoch.set(0, when=ended | verdict.repairing),
            self.k_us.set(K_UNKNOWN, when=verdict.cut),
            self.w_max_bytes.set(0, when=verdict.timeout),
        ]

    def begin_again(self, reduced: Flag) -> Sequence[Statement]:
        """Return statements that end an epoch on ACKs that satisfy `reduced`; the old epoch is not kept."""
        return [
            self.credit_bytes.set(0, when=reduced),
            self.epoch.set(0, when=reduced),
            self.k_us.set(K_UNKNOWN, when=reduced),
        ]


def cubic_state(mss_bytes: int = 1448) -> CubicState:
    """Build the registers.

    mss_bytes: Segment size that determines the scale until Python sets the scale [bytes].
    """
    return CubicState(
        credit_bytes=state(),
        w_max_bytes=control(),
        k_us=control(),
        epoch=control(),
        t_us=control(),
        w_est_bytes=control(),
        cubic_scale=control(cubic_scale(mss_bytes), nonzero=True),
        alpha_permille=control(alpha_permille(BETA)),
        old_w_max_bytes=field(volatile=False),
        old_k_us=field(volatile=False),
        old_epoch=field(volatile=False),
        old_t_us=field(volatile=False),
        old_w_est_bytes=field(volatile=False),
        mss_bytes=field(volatile=False),
    )


class CubicReport(LossReport, Protocol):
    """The fields of a report about the curve and about loss; see `CubicState`."""

    old_w_max_bytes: int
    old_k_us: int
    old_epoch: int
    old_t_us: int
    old_w_est_bytes: int
    mss_bytes: int


@dataclasses.dataclass(frozen=True)
class CubicGrowth(Part):
    """Congestion avoidance."""

    last_us: Register
    target_bytes: Register
    alpha_now_permille: Register
    pause: Statement
    earn: Block
    grow: Block


def cubic_growth(
    cubic: CubicState, loss: Episodes, growing: Flag | None = None, eager: Flag | None = None
) -> CubicGrowth:
    """Build the lines of congestion avoidance; they go before slow start, so that no ACK counts for both.

    Args:
        cubic: The registers of the curve.
        loss: The program's loss episodes.
        growing: Condition under which the window may grow; default `loss.may_grow`.
        eager: Condition under which the window grows by at least an eighth per round trip; None: never.

    Returns:
        The part, for one line of a FoldProgram.
    """
    growing = loss.may_grow if growing is None else growing
    last_us, target_bytes, alpha_now = state(), state(), state()
    faster = [] if eager is None else [target_bytes.set(max_(target_bytes, Cwnd + Cwnd // 8), when=eager)]
    credit_bytes, w_max, k = cubic.credit_bytes, cubic.w_max_bytes, cubic.k_us
    t, w_est = cubic.t_us, cubic.w_est_bytes

    fresh = let(cubic.epoch == 0, "fresh_epoch")
    credit = let(min_(credit_bytes, Cwnd), "credit")
    # Where the curve will be in a round trip, W_cubic(t + RTT).
    then_us = let(t + Flow.srtt_us, "then_us")
    units = let(min_(distance(then_us, k) // _UNIT_US, _MAX_UNITS), "units")
    off_bytes = let(units * units * units // cubic.cubic_scale, "off_bytes")
    gained = Cwnd + credit * (target_bytes - Cwnd) // Cwnd
    est_gain = (alpha_now * credit * Flow.mss // Cwnd + 500) // 1000
    return CubicGrowth(
        last_us=last_us,
        target_bytes=target_bytes,
        alpha_now_permille=alpha_now,
        pause=last_us.set(Ack.now, when=~Flow.cwnd_limited),
        earn=on(growing & (Cwnd >= loss.ssthresh_bytes), credit_bytes.add(Ack.bytes_acked)),
        grow=on(
            credit_bytes * STEPS_PER_WINDOW > Cwnd,
            fresh,
            k.set(0, when=fresh & (w_max == 0)),
            w_max.set(Cwnd, when=fresh & (w_max == 0)),
            w_est.set(Cwnd, when=fresh),
            credit,
            t.add(min_(Ack.now - last_us, Flow.srtt_us)),
            t.set(0, when=fresh),
            cubic.epoch.set(1),
            last_us.set(Ack.now),
            then_us,
            units,
            off_bytes,
            target_bytes.set(w_max + off_bytes),
            target_bytes.set(w_max - off_bytes, when=then_us < k),
            # Before the first loss nothing is known about the path: at least 5 % per round trip, as in Linux.
            target_bytes.set(max_(target_bytes, Cwnd + Cwnd // 20), when=loss.prior_bytes == 0),
            faster,
            target_bytes.set(max_(min_(target_bytes, Cwnd + Cwnd // 2), Cwnd)),
            alpha_now.set(cubic.alpha_permille),
            alpha_now.set(1000, when=w_est >= loss.prior_bytes),
            # After an idle period or a limit shrank the window, W_est shrinks along, or the window would
            # jump.
            w_est.set(min_(w_est, Cwnd) + est_gain),
            Cwnd.set(max_(gained, w_est)),
            credit_bytes.set(0),
        ),
    )
