"""Loss episodes in a fold program: one reduction a window of data, and packet conservation until repaired.

The kernel finds losses and says so in `Flow.ca_state`; a congestion control with `cong_control`, as ours,
does the rest itself: it reduces the window, keeps it down while the loss is repaired, and starts over after a
timeout. This part does that on the ACK that shows the trouble, before Python hears of it, and says in the
report field `event` what it did. It is common to all algorithms that answer loss by a factor.

States of `episode`:

    OPEN --- loss or ECN echo: CUT -------------> REDUCING --- kernel back in Open or Disorder --> OPEN
    OPEN --- retransmission timeout: TIMEOUT ---> AFTER_TIMEOUT --- the same --------------------> OPEN
    REDUCING, AFTER_TIMEOUT --- kernel restored the window: UNDO --------------------------------> OPEN
    STARTING --- first fold: STARTED ------------> the one that fits the kernel's state

Sources: RFC 5681 section 3.2 (reduction, timeout), RFC 6582 section 3.2 (`recover`: one reduction a window),
RFC 6937 section 3 (the window follows what is delivered while a loss is repaired), RFC 3168 section 6.1.2
(ECN once a window).

Deviations, with reasons:

* The reduction takes the window, not FlightSize (RFC 5681 equation 4), as Linux does; windows of these
  algorithms grow only while they are used, so the two are close.
* `recover` is estimated, as the datapath does not tell the highest sequence number sent: the window at the
  cut, a quarter of it for data sent while the loss was being detected, and three segments. A second episode
  that follows without a pause is therefore seen up to a quarter of a round trip late.
* The window drops to the threshold at once instead of in the course of a round trip (PRR): sending pauses
  until the pipe is down to it. Where the pipe is below, what an ACK delivers is sent, and a segment more if
  it acknowledges in order and shows no loss, as PRR does; what the pause held back is not made up for.
* A timeout leaves 2 segments, not 1: no window of the datapath is smaller.
* A tail loss that the kernel repairs with a probe (RFC 8985 section 7.4) shows in no ACK and is not answered.

Algorithms that do not take every loss for congestion pass a condition, `evidence`. A loss or timeout without
it is *spared*: the kernel repairs it as ever, and nothing else happens. The window stays where it is, grows
on if it is used up, and goes without the conservation of a recovery, as nothing is to be reduced. Only a
timeout still collapses it, because the kernel does that, but below an unchanged threshold. Each ACK that
shows a loss is judged for itself, so that a later loss of the same recovery can still reduce the window. ECN
echoes and full queues of this host are evidence by themselves. So is what is learned of a loss afterwards
(`Evidence.late`): the reduction is made then, unless one has been made for that window of data. ECN echoes
are judged, too, if a condition for them is given (`Evidence.marks`).

A program that takes over begins with the kernel's threshold, or with `start_ssthresh_bytes` if Python knows a
better one.
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

REPORT_MS: Final = 100.0
"""Shortest time between regular reports of who needs them [ms]; what calls for an answer comes at once."""

# Values of the report field `event`.
NOTHING: Final = 0
STARTED: Final = 1
"""The program has just started: its control registers have their initial values."""
CUT: Final = 2
"""The window was reduced because of loss, ECN, or a full queue of this host."""
TIMEOUT: Final = 3
"""A retransmission timeout: slow start again."""
UNDO: Final = 4
"""The kernel found the last reduction spurious and restored the window."""
SPARED: Final = 5
"""A loss was no congestion. Only a verdict: it calls for no report, so that a lossy path floods nobody."""

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
    """What an ACK that shows trouble means: conditions for statements of the algorithm.

    Attributes:
        cut: The window is reduced now.
        timeout: A retransmission timeout happened.
        undo: The last reduction was spurious.
        repairing: A loss is being repaired, on this ACK and until it is done. Not one that was spared.
        spared: Loss or timeout without evidence of congestion; never, if every loss is taken for it.
        left_bytes: Window behind the ACK before [bytes]: that before a timeout.
        ssthresh_bytes: Slow-start threshold [bytes].
    """

    cut: Flag
    timeout: Flag
    undo: Flag
    repairing: Flag
    spared: Flag
    left_bytes: Register
    ssthresh_bytes: Register


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What shows that a loss is congestion, for `loss_episodes(evidence=...)`.

    Attributes:
        weigh: What runs ahead of the judgement on ACKs that show trouble, as `on` takes it.
        congestion: A loss on this ACK, or this timeout, is congestion.
        late: A loss that an ACK before this one showed was congestion.
        marks: An ECN echo on this ACK is congestion; None: each is.
    """

    weigh: Sequence[Any]
    congestion: Flag
    late: Flag = never
    marks: Flag | None = None


@dataclasses.dataclass(frozen=True)
class Tally(Part):
    """Lost packets by verdict, for reports.

    Attributes:
        spared_pkts: Reported: lost since the last report and spared [packets].
        congestion_pkts: Reported: lost since the last report in congestion: judged so, or in data that a
            reduction answered already [packets].
    """

    spared_pkts: Register
    congestion_pkts: Register

    def count(self, verdict: Verdict) -> list[Statement]:
        """Return what counts, for `loss_episodes(also=...)`."""
        lost_pkts = Ack.lost_pkts_sample
        return [
            self.congestion_pkts.add(lost_pkts),
            self.congestion_pkts.set(self.congestion_pkts - lost_pkts, when=verdict.spared),
            self.spared_pkts.add(lost_pkts, when=verdict.spared),
        ]


def tally() -> Tally:
    """Build the part."""
    return Tally(spared_pkts=field(), congestion_pkts=field())


@dataclasses.dataclass(frozen=True)
class Episodes(Part):
    """Registers and lines of loss episodes.

    Attributes:
        lost: Reported: newly lost since the last report [packets].
        event: Reported: what happened since the last report, NOTHING to UNDO.
        prior_bytes: Reported: window before the last reduction [bytes].
        ssthresh_bytes: Slow-start threshold [bytes], INFINITY while there is none.
        start_ssthresh_bytes: Threshold to begin with [bytes]; 0: the kernel's.
        cut_permille: Window behind a reduction, in thousandths of that before.
        configured: 1: Python has set the control registers: STARTED calls for no answer, and is not told.
        episode: OPEN, AFTER_TIMEOUT, REDUCING or STARTING.
        may_grow: The window is used up, and nothing is being repaired: it may grow.
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
    window_bytes: Register
    pipe_bytes: Register
    react: Block
    may_grow: LocalFlag
    leave: AtEnd


class LossReport(ReportHead, Protocol):
    """What a report says of loss episodes; see `Episodes`."""

    lost: int
    event: int
    prior_bytes: int


@dataclasses.dataclass(frozen=True)
class _Terms:
    """Registers and conditions that rules are written in.

    Attributes:
        collapsed: A timeout was told, and the kernel collapsed the window.
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
    """What depends on whether losses can be spared.

    Attributes:
        shows: ACKs that there is something to do on.
        judge: Statements that find `kind`.
        tells: `kind` is an event.
        spared: A loss was spared.
        go_on: Statements that find the new `episode`.
        is_over: A reduction is over: the window goes back to the threshold.
        is_collapse: The window stays collapsed.
    """

    shows: Flag
    judge: Sequence[Any]
    tells: Flag
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
    least_bytes: Num | None = None,
) -> Episodes:
    """Build the part.

    Args:
        cut_permille: Window behind a reduction, in thousandths of that before; the initial value of the
            register.
        ecn_is_loss: Reduce also on ECN echoes as on loss (RFC 3168). False leaves ECN to the algorithm.
        also: Further statements of the algorithm for ACKs that show trouble.
        evidence: What shows that a loss is congestion; without it every loss is.
        least_bytes: No reduction goes below that, nor above the window that it reduces; None: no such bound.

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
    kind, left_bytes, window_bytes, pipe_bytes = state(), state(), state(), state()
    recover_bytes, undo_ssthresh_bytes = state(INFINITY), state(INFINITY)

    floor_bytes = 2 * Flow.mss
    left_by_cut: Num = prior_bytes * permille // 1000
    if least_bytes is not None:
        left_by_cut = max_(left_by_cut, min_(least_bytes, prior_bytes))
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
        # A flow that comes from the law, or from another program: what the kernel knows is all there is.
        starting,
        event.set(STARTED, when=starting & (configured == 0)),
        ssthresh_bytes.set(Flow.snd_ssthresh, when=starting),
        ssthresh_bytes.set(start_ssthresh_bytes, when=starting & (start_ssthresh_bytes > 0)),
        left_bytes.set(Cwnd, when=starting),
        # What is it? Later lines win.
        rules.judge,
        undo,
        kind.set(UNDO, when=undo),
        cut,
        () if evidence is None else timeout,
        reduced,
        event.set(kind, when=rules.tells),
        # The window before: when a timeout is told, the kernel has already collapsed Cwnd.
        window_bytes.set(Cwnd),
        window_bytes.set(left_bytes, when=timeout),
        prior_bytes.set(window_bytes, when=reduced),
        recover_bytes.set(recover_at(window_bytes), when=starting | reduced),
        undo_ssthresh_bytes.set(ssthresh_bytes, when=reduced),
        ssthresh_bytes.set(max_(left_by_cut, floor_bytes), when=reduced),
        ssthresh_bytes.set(undo_ssthresh_bytes, when=undo),
        # Where is the episode now?
        terms.open_now,
        terms.was_reducing,
        rules.go_on,
        # The window.
        window_bytes.set(max_(Cwnd, ssthresh_bytes), when=rules.is_over & (ssthresh_bytes < INFINITY)),
        pipe_bytes.set(pipe_and_delivered()),
        pipe_bytes.add(Flow.mss, when=_is_safe()),
        window_bytes.set(min_(ssthresh_bytes, pipe_bytes), when=episode == REDUCING),
        window_bytes.set(min_(Cwnd, Flow.bytes_in_flight + Flow.mss), when=rules.is_collapse),
        window_bytes.set(Cwnd, when=undo),
        Cwnd.set(max_(window_bytes, floor_bytes)),
        also(Verdict(cut, timeout, undo, episode == REDUCING, rules.spared, left_bytes, ssthresh_bytes)),
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
        window_bytes=window_bytes,
        pipe_bytes=pipe_bytes,
        react=react,
        may_grow=let(Flow.cwnd_limited & (episode <= AFTER_TIMEOUT)),
        leave=at_end(left_bytes.set(Cwnd)),
    )


_IN_REDUCTION: Final = (Flow.ca_state > DISORDER) & (Flow.ca_state < LOSS)
_TROUBLE_PKTS: Final = Ack.lost_pkts_sample + Flow.local_congestion


def _every_loss(terms: _Terms, ecn_is_loss: bool) -> _Rules:
    """Return the rules of algorithms that take every loss for congestion.

    A timeout is no CUT: the kernel's state is LOSS then.
    """
    kind, episode, fresh = terms.kind, terms.episode, terms.fresh
    worst_quiet_state = DISORDER if ecn_is_loss else CWR
    told = _IN_REDUCTION if ecn_is_loss else Flow.ca_state == RECOVERY
    return _Rules(
        shows=(_TROUBLE_PKTS + episode > 0) | (Flow.ca_state > worst_quiet_state),
        judge=(
            fresh,
            kind.set(NOTHING),
            kind.set(CUT, when=fresh & (told | ((Flow.ca_state <= worst_quiet_state) & (_TROUBLE_PKTS > 0)))),
            terms.timeout,
            kind.set(TIMEOUT, when=terms.timeout),
        ),
        tells=kind > NOTHING,
        spared=never,
        go_on=(
            episode.set(OPEN, when=terms.open_now),
            episode.set(REDUCING, when=terms.cut | told),
            episode.set(AFTER_TIMEOUT, when=Flow.ca_state == LOSS),
        ),
        is_over=terms.was_reducing & terms.open_now,
        is_collapse=terms.timeout,
    )


def _judged(terms: _Terms, ecn_is_loss: bool, evidence: Evidence) -> _Rules:
    """Return the rules of algorithms that want evidence."""
    kind, episode, fresh = terms.kind, terms.episode, terms.fresh
    told, marks = Flow.ca_state == RECOVERY, number(0)
    explicit: Flag = Flow.local_congestion > 0
    if ecn_is_loss:
        echo = (Flow.ca_state == CWR) | ((Flow.ca_state == RECOVERY) & (Ack.ecn_bytes > 0))
        explicit |= echo if evidence.marks is None else echo & evidence.marks
        told, marks = _IN_REDUCTION, Ack.ecn_bytes
    shows = (_TROUBLE_PKTS + marks + episode > 0) | Flow.was_timeout | (Flow.ca_state == CWR)
    if evidence.late is not never:
        explicit |= evidence.late
        shows |= evidence.late
    covered = let((episode > OPEN) & (Flow.delivered_bytes < terms.recover_bytes), "covered")
    collapse = let(terms.collapsed, "collapse")
    lost_now = Ack.lost_pkts_sample > 0
    return _Rules(
        # Most ACKs of a recovery in which everything was spared need nothing.
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
        tells=(kind > NOTHING) & (kind < SPARED),
        spared=kind == SPARED,
        go_on=(
            # The kernel may go on repairing what is spared: a reduction is over when its data is repaired.
            episode.set(OPEN, when=terms.open_now | fresh),
            episode.set(REDUCING, when=terms.cut | (told & covered)),
            episode.set(AFTER_TIMEOUT, when=(Flow.ca_state == LOSS) & (covered | terms.timeout)),
        ),
        is_over=terms.was_reducing & (episode == OPEN),
        is_collapse=collapse,
    )


def reports(loss: Episodes, report_us: Register) -> Flag:
    """Return when to report: at each event, and once a round trip, not more often than `report_us` says.

    Args:
        loss: The program's loss episodes.
        report_us: Shortest time between regular reports [us]; INFINITY: there are none.
    """
    return every(max_(Flow.srtt_us, report_us)) | (loss.event > 0)


def report_interval_us(report_ms: float) -> int:
    """Return the shortest time between regular reports [us] for a parameter [ms]; 0: there are none."""
    return round(1000 * report_ms) if report_ms else INFINITY


def regular_reports(report_ms: float) -> Param[float]:
    """Return the parameter that says how often flows report what calls for no answer."""
    doc = "shortest time between reports that only inform; 0: none but those that call for an answer"
    return Param(report_ms, min=0.0, max=60_000.0, unit="ms", doc=doc)


def recover_at(window_bytes: Num) -> Num:
    """Return where the cumulative ACK will be when all data sent until now is repaired [bytes], estimated."""
    return Flow.delivered_bytes + window_bytes + window_bytes // 4 + 3 * Flow.mss


def pipe_and_delivered() -> Num:
    """Return the window that sends what this ACK delivers [bytes]."""
    return Flow.bytes_in_flight + (Ack.packets_acked + Ack.packets_misordered) * Flow.mss


def _is_safe() -> Flag:
    """Return whether this ACK makes progress and shows no loss (RFC 9937 calls it SafeACK)."""
    return (Ack.bytes_acked > 0) & (Ack.lost_pkts_sample == 0)
