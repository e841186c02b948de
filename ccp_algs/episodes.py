"""Loss episodes in a fold program: one reduction per window of data, packet conservation until the repair.

The kernel detects losses and shows its state in `Flow.ca_state`. A congestion control with `cong_control`,
such as ccplane's, does the rest: it reduces the window, keeps it down while the loss is repaired, and starts
over after a timeout. This part takes these steps on the ACK that shows the loss, before Python learns of the
loss, and reports the outcome in the field `event`. Loss episodes serve all algorithms that multiply their
window by a factor at a loss.

States of `episode`:

    OPEN --- loss or ECN echo: CUT -------------> REDUCING --- kernel back in Open or Disorder --> OPEN
    OPEN --- retransmission timeout: TIMEOUT ---> AFTER_TIMEOUT --- the same --------------------> OPEN
    REDUCING, AFTER_TIMEOUT --- kernel restored the window: UNDO --------------------------------> OPEN
    STARTING --- first fold: STARTED ------------> the one that fits the kernel's state

Sources: RFC 5681 section 3.2 (reduction, timeout), RFC 6582 section 3.2 (`recover`: one reduction a window),
RFC 9937 (the window while a loss is repaired, see `reduction.py`), RFC 3168 section 6.1.2 (ECN once a
window).

Deviations, with reasons:

* The reduction is relative to the window, not to FlightSize (RFC 5681 equation 4), as in Linux; the windows
  of these algorithms grow only while they are used up, so the two are close.
* `recover` is estimated after a loss, as the datapath does not provide the highest sequence number sent; the
  estimate is the window at the reduction, plus a quarter of it for data sent while the loss was being
  detected, plus three segments. A second episode that follows without a pause is therefore detected up to a
  quarter of a round trip late. After an ECN echo, `recover` is the end of the data in flight: if the queue
  still marks, the next reduction follows a round trip later. (If data is out of order, as after a loss.)
* By default a loss reduces the window immediately, not over a round trip (`reduction.py`).
* A timeout leaves 2 segments instead of 1, because the datapath's minimum window is 2.
* A tail loss that the kernel repairs with a probe (RFC 8985 section 7.4) shows in no ACK and is not answered.

Algorithms that do not consider every loss congestion pass a condition, `evidence`. A loss or timeout without
evidence of congestion is *spared*, that is, the kernel repairs it as usual, and nothing else happens. The
window stays where it is, keeps growing if it is used up, and is not subject to packet conservation, as
nothing is to be reduced. Only a timeout still collapses the window, because the kernel does that, but the
threshold stays unchanged. Each ACK that shows a loss is classified separately, so that a later loss of the
same recovery can still reduce the window. ECN echoes and full queues on this host are evidence by themselves.
Information that arrives after the loss (`Evidence.late`) is evidence as well: the reduction is made then,
unless a reduction has already answered that window of data. ECN echoes are classified only if there is a
condition for them (`Evidence.marks`).

A program that takes over starts with the kernel's threshold, or with `start_ssthresh_bytes` if Python set it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from ccp_algs.api import ReportHead
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
    every,
    field,
    let,
    max_,
    min_,
    never,
    on,
    state,
    total,
)
from ccp_algs.fold.expressions import Flag, Num, number
from ccp_algs.fold.lines import AtEnd, LocalFlag
from ccp_algs.params import Param
from ccp_algs.reduction import Reduction, reduction

REPORT_MS: Final = 100.0
"""Minimum time between regular reports of algorithms that need them [ms]; other reports are immediate."""

# Values of the report field `event`.
NOTHING: Final = 0
STARTED: Final = 1
"""The program has just started: its control registers have their initial values."""
CUT: Final = 2
"""The window was reduced because of a loss, an ECN echo, or a full queue on this host."""
TIMEOUT: Final = 3
"""A retransmission timeout: slow start begins again."""
UNDO: Final = 4
"""The kernel found the last reduction spurious and restored the window."""
SPARED: Final = 5
"""A loss was not congestion; no report follows, because a lossy path would cause a flood of reports."""

# Values of the register `episode`. Up to AFTER_TIMEOUT the window may grow.
OPEN: Final = 0
AFTER_TIMEOUT: Final = 1
REDUCING: Final = 2
STARTING: Final = 3

DISORDER: Final = 1
CWR: Final = 2
RECOVERY: Final = 3
LOSS: Final = 4


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Conditions, true on an ACK that shows a loss or ECN echo, for statements of the algorithm.

    Attributes:
        cut: The window is reduced now.
        timeout: A retransmission timeout happened.
        undo: The last reduction was spurious.
        reduced: A cut, or a timeout that is not part of a running episode: an undo leads back to before it.
        repairing: A loss is being repaired, from this ACK until the repair is done; not a spared one.
        spared: A loss or timeout without evidence of congestion; never, if every loss counts as congestion.
        left_bytes: Window after the previous ACK [bytes], that is, before a timeout.
        ssthresh_bytes: Slow-start threshold [bytes].
    """

    cut: Flag
    timeout: Flag
    undo: Flag
    reduced: Flag
    repairing: Flag
    spared: Flag
    left_bytes: Register
    ssthresh_bytes: Register


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Conditions under which a loss is congestion, for `loss_episodes(evidence=...)`.

    Attributes:
        weigh: Statements, as `on` accepts them, to run before the classification.
        congestion: The loss or timeout on this ACK is congestion.
        late: A loss that an earlier ACK showed was congestion.
        marks: An ECN echo on this ACK is congestion; None: every echo is.
    """

    weigh: Sequence[Any]
    congestion: Flag
    late: Flag = never
    marks: Flag | None = None


@dataclasses.dataclass(frozen=True)
class Tally(Part):
    """Lost packets by classification, for reports.

    Attributes:
        spared_pkts: Reported: packets lost and spared since the last report.
        congestion_pkts: Reported: packets lost by congestion since the last report: classified so, or in data
            that a reduction had answered.
    """

    spared_pkts: Register
    congestion_pkts: Register

    def count(self, verdict: Verdict) -> list[Statement]:
        """Return the statements that count lost packets, for `loss_episodes(also=...)`."""
        lost_pkts = Ack.lost_pkts_sample
        return [
            self.congestion_pkts.add(lost_pkts),
            self.congestion_pkts.set(self.congestion_pkts - lost_pkts, when=verdict.spared),
            self.spared_pkts.add(lost_pkts, when=verdict.spared),
        ]


def tally() -> Tally:
    """Build the report fields that count lost packets."""
    return Tally(spared_pkts=field(), congestion_pkts=field())


@dataclasses.dataclass(frozen=True)
class Episodes(Part):
    """Registers and lines of loss episodes.

    Attributes:
        lost: Reported: packets newly lost since the last report.
        event: Reported: what happened since the last report, NOTHING to UNDO.
        prior_bytes: Reported: window before the last reduction that was not undone [bytes]; 0: none.
        ssthresh_bytes: Slow-start threshold [bytes]; INFINITY: none yet.
        start_ssthresh_bytes: Initial threshold [bytes]; 0: the kernel's.
        cut_permille: Window after a reduction, in thousandths of the window before it.
        configured: 1: Python has set the control registers, so that STARTED needs no answer and no report.
        episode: OPEN, AFTER_TIMEOUT, REDUCING or STARTING.
        may_grow: The window is used up, and no loss is being repaired.
    """

    lost: Register
    event: Register
    prior_bytes: Register
    ssthresh_bytes: Register
    start_ssthresh_bytes: Register
    cut_permille: Register
    configured: Register
    episode: Register
    kind: Register
    left_bytes: Register
    recover_bytes: Register
    undo_ssthresh_bytes: Register
    undo_prior_bytes: Register
    window_bytes: Register
    left_state: Register
    reduction: Reduction
    react: Block
    may_grow: LocalFlag
    leave: AtEnd
    leave_state: AtEnd


class LossReport(ReportHead, Protocol):
    """The fields of a report about loss episodes; see `Episodes`."""

    lost: int
    event: int
    prior_bytes: int


@dataclasses.dataclass(frozen=True)
class _Terms:
    """Registers and conditions of the rules.

    Attributes:
        collapsed: A timeout was reported, and the kernel collapsed the window.
    """

    kind: Register
    episode: Register
    left_bytes: Register
    recover_bytes: Register
    fresh: LocalFlag
    cut: LocalFlag
    timeout: LocalFlag
    open_now: LocalFlag
    was_reducing: LocalFlag
    collapsed: Flag


@dataclasses.dataclass(frozen=True)
class _Rules:
    """The rules that differ depending on whether losses can be spared.

    Attributes:
        shows: Condition for ACKs that need handling.
        judge: Statements that compute `kind`.
        emits: `kind` is an event to report.
        spared: A loss was spared.
        go_on: Statements that compute the new `episode`.
        is_over: A reduction is over: the window returns to the threshold.
        is_collapse: The window stays collapsed.
    """

    shows: Flag
    judge: Sequence[Any]
    emits: Flag
    spared: Flag
    go_on: Sequence[Statement]
    is_over: Flag
    is_collapse: Flag


def loss_episodes(
    cut_permille: int,
    *,
    ecn_is_loss: bool = True,
    also: Callable[[Verdict], Sequence[Statement]] = lambda _verdict: (),
    evidence: Evidence | None = None,
    min_bytes: Num | None = None,
) -> Episodes:
    """Build the registers and lines of loss episodes.

    Args:
        cut_permille: Initial value of the register: window after a reduction, in thousandths of the window
            before it.
        ecn_is_loss: Reduce also on ECN echoes, as on loss (RFC 3168). False leaves ECN to the algorithm.
        also: Further statements of the algorithm for ACKs that show a loss or echo.
        evidence: Conditions under which a loss is congestion; None: every loss is.
        min_bytes: Lower bound of reductions, which never raise the window; None: no bound.

    Returns:
        The part, for one line of a FoldProgram.
    """
    lost = total(Ack.lost_pkts_sample)
    event = field()
    prior_bytes = field(volatile=False)
    ssthresh_bytes = state(INFINITY)
    start_ssthresh_bytes = control()
    permille = control(cut_permille)
    configured = control()
    episode = state(STARTING)
    kind, left_bytes, left_state, window_bytes = state(), state(), state(), state()
    recover_bytes, undo_ssthresh_bytes, undo_prior_bytes = state(INFINITY), state(INFINITY), state()

    falling = reduction()
    floor_bytes = 2 * Flow.mss
    left_by_cut: Num = prior_bytes * permille // 1000
    if min_bytes is not None:
        left_by_cut = max_(left_by_cut, min_(min_bytes, prior_bytes))
    starting = let(episode == STARTING, "starting")
    undo = let((episode > OPEN) & (Cwnd > left_bytes), "undo")
    collapsed = Flow.was_timeout & (Cwnd < left_bytes)
    terms = _Terms(
        kind=kind,
        episode=episode,
        left_bytes=left_bytes,
        recover_bytes=recover_bytes,
        fresh=let((episode == OPEN) | (Flow.delivered_bytes >= recover_bytes), "fresh"),
        cut=let(kind == CUT, "cut"),
        timeout=let(collapsed if evidence is None else kind == TIMEOUT, "timeout"),
        open_now=let(Flow.ca_state <= (DISORDER if ecn_is_loss else CWR), "open_now"),
        was_reducing=let(episode == REDUCING, "was_reducing"),
        collapsed=collapsed,
    )
    fresh, cut, timeout = terms.fresh, terms.cut, terms.timeout
    reduced = let(cut | (timeout & fresh), "reduced")
    rules = _every_loss(terms, ecn_is_loss) if evidence is None else _judged(terms, ecn_is_loss, evidence)
    react = on(
        rules.shows,
        # A flow taken over from the fallback or another program: only the kernel's state is known.
        starting,
        event.set(STARTED, when=starting & (configured == 0)),
        ssthresh_bytes.set(Flow.snd_ssthresh, when=starting),
        ssthresh_bytes.set(start_ssthresh_bytes, when=starting & (start_ssthresh_bytes > 0)),
        left_bytes.set(Cwnd, when=starting),
        # Classify; later lines take precedence.
        rules.judge,
        undo,
        kind.set(UNDO, when=undo),
        cut,
        () if evidence is None else timeout,
        reduced,
        event.set(kind, when=rules.emits),
        # The window before: when a timeout is reported, the kernel has already collapsed Cwnd.
        window_bytes.set(Cwnd),
        window_bytes.set(left_bytes, when=timeout),
        undo_prior_bytes.set(prior_bytes, when=reduced),
        prior_bytes.set(undo_prior_bytes, when=undo),
        prior_bytes.set(window_bytes, when=reduced),
        recover_bytes.set(recover_at(window_bytes), when=starting | reduced),
        recover_bytes.set(
            Flow.delivered_bytes + Flow.bytes_in_flight + 1,
            when=cut & (Flow.ca_state == CWR) & (left_state != DISORDER),
        ),
        undo_ssthresh_bytes.set(ssthresh_bytes, when=reduced),
        ssthresh_bytes.set(max_(left_by_cut, floor_bytes), when=reduced),
        ssthresh_bytes.set(undo_ssthresh_bytes, when=undo),
        # The new state of the episode.
        terms.open_now,
        terms.was_reducing,
        rules.go_on,
        # The window.
        window_bytes.set(ssthresh_bytes, when=rules.is_over & (ssthresh_bytes < INFINITY)),
        falling.follow(window_bytes, cut, episode == REDUCING, ssthresh_bytes, prior_bytes),
        window_bytes.set(min_(Cwnd, Flow.bytes_in_flight + Flow.mss), when=rules.is_collapse),
        window_bytes.set(Cwnd, when=undo),
        Cwnd.set(max_(window_bytes, floor_bytes)),
        also(
            Verdict(
                cut, timeout, undo, reduced, episode == REDUCING, rules.spared, left_bytes, ssthresh_bytes
            )
        ),
    )
    return Episodes(
        lost=lost,
        event=event,
        prior_bytes=prior_bytes,
        ssthresh_bytes=ssthresh_bytes,
        start_ssthresh_bytes=start_ssthresh_bytes,
        cut_permille=permille,
        configured=configured,
        episode=episode,
        kind=kind,
        left_bytes=left_bytes,
        recover_bytes=recover_bytes,
        undo_ssthresh_bytes=undo_ssthresh_bytes,
        undo_prior_bytes=undo_prior_bytes,
        window_bytes=window_bytes,
        left_state=left_state,
        reduction=falling,
        react=react,
        may_grow=let(Flow.cwnd_limited & (episode <= AFTER_TIMEOUT)),
        leave=at_end(left_bytes.set(Cwnd)),
        leave_state=at_end(left_state.set(Flow.ca_state)),
    )


_IN_REDUCTION: Final = (Flow.ca_state > DISORDER) & (Flow.ca_state < LOSS)
_TROUBLE_PKTS: Final = Ack.lost_pkts_sample + Flow.local_congestion


def _every_loss(terms: _Terms, ecn_is_loss: bool) -> _Rules:
    """Return the rules of algorithms that consider every loss congestion.

    A timeout is not a CUT: the kernel's state is then LOSS.
    """
    kind, episode, fresh = terms.kind, terms.episode, terms.fresh
    worst_quiet_state = DISORDER if ecn_is_loss else CWR
    reported = _IN_REDUCTION if ecn_is_loss else Flow.ca_state == RECOVERY
    return _Rules(
        shows=(_TROUBLE_PKTS + episode > 0) | (Flow.ca_state > worst_quiet_state),
        judge=(
            fresh,
            kind.set(NOTHING),
            kind.set(
                CUT, when=fresh & (reported | ((Flow.ca_state <= worst_quiet_state) & (_TROUBLE_PKTS > 0)))
            ),
            terms.timeout,
            kind.set(TIMEOUT, when=terms.timeout),
        ),
        emits=kind > NOTHING,
        spared=never,
        go_on=(
            episode.set(OPEN, when=terms.open_now),
            episode.set(REDUCING, when=terms.cut | reported),
            episode.set(AFTER_TIMEOUT, when=Flow.ca_state == LOSS),
        ),
        is_over=terms.was_reducing & terms.open_now,
        is_collapse=terms.timeout,
    )


def _judged(terms: _Terms, ecn_is_loss: bool, evidence: Evidence) -> _Rules:
    """Return the rules of algorithms that require evidence."""
    kind, episode, fresh = terms.kind, terms.episode, terms.fresh
    reported, marks = Flow.ca_state == RECOVERY, number(0)
    explicit: Flag = Flow.local_congestion > 0
    if ecn_is_loss:
        echo = (Flow.ca_state == CWR) | ((Flow.ca_state == RECOVERY) & (Ack.ecn_bytes > 0))
        explicit |= echo if evidence.marks is None else echo & evidence.marks
        reported, marks = _IN_REDUCTION, Ack.ecn_bytes
    shows = (_TROUBLE_PKTS + marks + episode > 0) | Flow.was_timeout | (Flow.ca_state == CWR)
    if evidence.late is not never:
        explicit |= evidence.late
        shows |= evidence.late
    covered = let((episode > OPEN) & (Flow.delivered_bytes < terms.recover_bytes), "covered")
    collapse = let(terms.collapsed, "collapse")
    lost_now = Ack.lost_pkts_sample > 0
    return _Rules(
        # Most ACKs of a recovery with only spared losses need no handling.
        shows=shows,
        judge=(
            fresh,
            covered,
            collapse,
            evidence.weigh,
            kind.set(NOTHING),
            kind.set(SPARED, when=fresh & lost_now),
            kind.set(CUT, when=fresh & (explicit | (lost_now & evidence.congestion))),
            kind.set(NOTHING, when=Flow.was_timeout),
            kind.set(SPARED, when=collapse),
            kind.set(TIMEOUT, when=collapse & evidence.congestion),
        ),
        emits=(kind > NOTHING) & (kind < SPARED),
        spared=kind == SPARED,
        go_on=(
            # The kernel may keep repairing spared losses: a reduction is over when its own data is repaired.
            episode.set(OPEN, when=terms.open_now | fresh),
            episode.set(REDUCING, when=terms.cut | (reported & covered)),
            episode.set(AFTER_TIMEOUT, when=(Flow.ca_state == LOSS) & (covered | terms.timeout)),
        ),
        is_over=terms.was_reducing & (episode == OPEN),
        is_collapse=collapse,
    )


def reports(loss: Episodes, report_us: Register) -> Flag:
    """Return when to report: at each event, and once per round trip, but at most once every `report_us`.

    Args:
        loss: The program's loss episodes.
        report_us: Minimum time between regular reports [us]; INFINITY: no regular reports.
    """
    return every(max_(Flow.srtt_us, report_us)) | (loss.event > 0)


def report_interval_us(report_ms: float) -> int:
    """Return the minimum time between regular reports [us] for a parameter [ms]; 0 ms disables them."""
    return round(1000 * report_ms) if report_ms else INFINITY


def regular_reports(report_ms: float) -> Param[float]:
    """Return the parameter that sets the minimum time between reports that need no answer."""
    doc = "minimum time between informative reports; 0: only reports that need an answer"
    return Param(report_ms, min=0.0, max=60_000.0, unit="ms", doc=doc)


def recover_at(window_bytes: Num) -> Num:
    """Return the estimated cumulative ACK once all data sent until now is repaired [bytes]."""
    return Flow.delivered_bytes + window_bytes + window_bytes // 4 + 3 * Flow.mss
