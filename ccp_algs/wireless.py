"""Classify losses by telemetry, in a fold program: ignore a loss or reduce mildly, and correct errors later.

If ACKs carry echoes of the path, the echoes classify the loss (`echoes.py`), and the rules below about Python
do not apply. Otherwise Python learns from the network whether losses are congestion, and sets how long this
verdict is valid:

    before `spare_until_us`  a loss is ignored, or, with `mild_permille` < 1000, reduces the window mildly
    from then on             a loss is congestion (0: from the start; so it is without telemetry)

The kernel sees a loss when ACKs show it; telemetry about the loss arrives at about the same time, earlier or
later. Python therefore also corrects afterwards, and identifies a reduction by its number (`cuts` in the
report):

* `late_cut` = `cuts` + 1: a loss that caused no reduction was congestion. The window is reduced now, unless a
  reduction has already answered that window of data.
* `take_back` = `cuts`: the last reduction was for a loss that was not congestion. Window, threshold and (by
  Python, as after every undo) curve are restored; in mild mode, they are then reduced mildly.

A correction with an outdated number has no effect, so that corrections and losses may cross.

A mild reduction multiplies the window by its factor once per window of data, makes it the threshold, and
restarts the curve without lowering W_max. Packet conservation is not needed, because the window keeps growing
while the kernel repairs the loss. If the window is below the threshold after a timeout, the threshold itself
is multiplied by the factor, because the window is small due to the timeout, not to a full path.

A timeout is classified by the telemetry that was valid when the last ACK arrived: the data was lost at that
time, and while the sender backs off no packet can carry telemetry.
"""

from __future__ import annotations

import dataclasses

from ccp_algs.cubic_core import CubicState
from ccp_algs.echoes import Echoes
from ccp_algs.episodes import CWR, LOSS, OPEN, UNDO, Episodes, Evidence, Verdict, recover_at
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Block,
    Cwnd,
    Flow,
    Part,
    Register,
    Statement,
    at_end,
    control,
    field,
    let,
    max_,
    min_,
    on,
    state,
)
from ccp_algs.fold.expressions import Flag
from ccp_algs.fold.lines import AtEnd, Local


@dataclasses.dataclass(frozen=True)
class Wireless(Part):
    """Registers of the classification; they go before the loss episodes.

    Attributes:
        spare_until_us: Losses before this time are spared [us].
        mild_permille: Window after a mild reduction, in thousandths of the window before it; 1000: none.
        late_cut: Correction: make the reduction with this number.
        take_back: Correction: undo the reduction with this number.
        cuts: Reported: number of reductions so far, timeouts included.
        blind: Reported: 1 if the last reduction was for a loss only, so that it can be wrong.
        mild_prior_bytes: Reported: window, or threshold, before the last mild reduction since the last report
            [bytes]; 0: none.
        mild_w_max_bytes: Reported: W_max after it [bytes].
        mild_recover_bytes: Cumulative ACK at which its window of data is repaired [bytes].
        late_recover_bytes: The same for a corrected reduction, whose loss the kernel may see later [bytes].
        judged_at_us: Time of the telemetry that classifies the present loss [us].
        seen_us: Time of the last ACK [us].
    """

    spare_until_us: Register
    mild_permille: Register
    late_cut: Register
    take_back: Register
    cuts: Register
    blind: Register
    mild_prior_bytes: Register
    mild_w_max_bytes: Register
    mild_recover_bytes: Register
    late_recover_bytes: Register
    judged_at_us: Register
    seen_us: Register
    note: AtEnd

    def evidence(self, echoes: Echoes) -> Evidence:
        """Return the classification, for `loss_episodes(evidence=...)`.

        Args:
            echoes: The program's classification by echoes, which takes precedence.
        """
        at_us, received, unheard = self.judged_at_us, echoes.received > 0, echoes.received == 0
        by_summary = (at_us >= self.spare_until_us) & self._is_unanswered()
        return Evidence(
            weigh=(
                at_us.set(Ack.now),
                at_us.set(self.seen_us, when=Flow.was_timeout),
                *echoes.weigh(at_us),
                self.late_cut.set(0, when=received),
            ),
            congestion=(received & (echoes.congested > 0)) | (unheard & by_summary),
            late=self.late_cut > self.cuts,
        )

    def answer(self, verdict: Verdict, cubic: CubicState, echoes: Echoes) -> list[Statement | Local]:
        """Return the further consequences of the verdict, for `loss_episodes(also=...)`."""
        named = (Flow.local_congestion > 0) | (Ack.ecn_bytes > 0) | (Flow.ca_state == CWR)
        late = self.late_cut > self.cuts
        permille, prior, floor_bytes = self.mild_permille, self.mild_prior_bytes, 2 * Flow.mss
        ssthresh = verdict.ssthresh_bytes
        is_new = (Flow.delivered_bytes >= self.mild_recover_bytes) & self._is_unanswered()
        mild = let(verdict.spared & (permille < 1000) & is_new, "mild")
        below = (Cwnd < ssthresh) & (ssthresh < INFINITY)
        return [
            self.blind.set(0, when=verdict.cut),
            self.blind.set(
                1, when=verdict.cut & (Ack.lost_pkts_sample > 0) & ~named & (echoes.received == 0)
            ),
            self.late_recover_bytes.set(recover_at(verdict.left_bytes), when=verdict.cut & late),
            self.late_cut.set(0),
            self.cuts.add(1, when=verdict.cut | verdict.timeout),
            mild,
            prior.set(max_(Cwnd, verdict.left_bytes), when=mild),
            self.mild_recover_bytes.set(recover_at(prior), when=mild),
            prior.set(ssthresh, when=mild & below),
            ssthresh.set(max_(prior * permille // 1000, floor_bytes), when=mild),
            Cwnd.set(max_(Cwnd * permille // 1000, floor_bytes), when=mild),
            cubic.w_max_bytes.set(max_(cubic.w_max_bytes, prior), when=mild),
            self.mild_w_max_bytes.set(cubic.w_max_bytes, when=mild),
            *cubic.begin_again(mild),
        ]

    def _is_unanswered(self) -> Flag:
        return Flow.delivered_bytes >= self.late_recover_bytes


@dataclasses.dataclass(frozen=True)
class Excuse(Part):
    """Registers and lines that undo a reduction; they go after the loss episodes."""

    excuse: Block


def wireless() -> Wireless:
    """Build the registers of the classification."""
    seen_us = state()
    return Wireless(
        spare_until_us=control(),
        mild_permille=control(1000),
        late_cut=control(),
        take_back=control(),
        cuts=field(volatile=False),
        blind=field(volatile=False),
        mild_prior_bytes=field(),
        mild_w_max_bytes=field(),
        mild_recover_bytes=state(),
        late_recover_bytes=state(),
        judged_at_us=state(),
        seen_us=seen_us,
        note=at_end(seen_us.set(Ack.now, when=~Flow.was_timeout)),
    )


def excuse(judged: Wireless, loss: Episodes) -> Excuse:
    """Build the registers and lines that undo a reduction.

    Args:
        judged: The program's classification of losses.
        loss: The program's loss episodes.
    """
    excused = let(judged.take_back == judged.cuts, "excused")
    reopened = let(excused & (Flow.ca_state < LOSS), "reopened")
    prior_bytes = loss.prior_bytes * judged.mild_permille // 1000
    return Excuse(
        on(
            judged.take_back > 0,
            excused,
            reopened,
            judged.take_back.set(0),
            loss.ssthresh_bytes.set(loss.undo_ssthresh_bytes, when=excused),
            loss.ssthresh_bytes.set(
                min_(loss.ssthresh_bytes, prior_bytes), when=excused & (judged.mild_permille < 1000)
            ),
            Cwnd.set(max_(Cwnd, prior_bytes), when=reopened),
            # After a mild reduction the window before it remains the last peak.
            loss.prior_bytes.set(loss.undo_prior_bytes, when=excused & (judged.mild_permille == 1000)),
            loss.episode.set(OPEN, when=reopened),
            loss.event.set(UNDO, when=excused),
        )
    )
