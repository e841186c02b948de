"""BBR's fold program: it measures the path on every ACK, and derives window and pacing rate.

Python (`bbr3.py`) runs the state machine: it sets gains, bounds, and the conditions for reports. On every ACK
the fold program computes:

* the delivery rate: the maximum sample of this cycle of bandwidth probing and of the previous one,
* the minimum RTT, over 10 s and over the interval between two ProbeRTTs,
* rounds: a round ends when a packet sent after its start is delivered (`Flow.prior_delivered`),
* losses: the packets lost since the newest delivered packet was sent, compared with what was in flight then,
* aggregation: the maximum, over the last rounds, of the data acknowledged beyond the estimated rate,
* the window and the pacing rate.

Linux keeps the number of delivered packets at the transmission of each packet (P.delivered), but neither the
packets lost by then (P.lost) nor those in flight (P.tx_in_flight): `struct tcp_skb_cb` has no such members.
The fold program finds P.lost between its values at the starts of the last two rounds, at the place that
P.delivered has between its own two. What was in flight when the packet was sent has been delivered or lost
when it arrives, so P.tx_in_flight is the sum of the packets delivered and lost in between.

Source: draft-ietf-ccwg-bbr-06, sections 4.1.1 (delivery rate), 5.3.3.9 (ProbeBW), 5.3.4.3 (ProbeRTT), 5.5
(model), 5.6 (control). Deviations: those that `bbr3.py` lists.
"""

from __future__ import annotations

from typing import Final

from ccp_algs.episodes import DISORDER, RECOVERY, STARTED
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Cwnd,
    Flow,
    FoldProgram,
    Rate,
    control,
    field,
    let,
    max_,
    min_,
    on,
    state,
    total,
)

SECOND_US: Final = 1_000_000
MAX_RATE_BYTES_PER_S: Final = 1 << 37
"""Maximum delivery rate, 1.1 Tbit/s; larger samples are clipped, so that products fit 64 bits."""
MAX_TIME_US: Final = 10 * SECOND_US
"""RTTs and intervals are clipped to this value, so that products fit 64 bits; also the window of min_rtt."""
MIN_REPORT_US: Final = 1_000
"""Minimum time between reports of rounds, which then report all rounds since the last one."""
MIN_PIPE_PKTS: Final = 4
INITIAL_PKTS: Final = 10
MAX_QUANTUM_BYTES: Final = 64 * 1024
STARTUP_PACING_PERMILLE: Final = 2742
"""Pacing gain of Startup: 2.77, less the margin of 1 %."""
DEFAULT_CWND_PERMILLE: Final = 2000


class Bbr3Fold(FoldProgram):
    """BBR's model of the path. The program reports rounds as often as Python asks, and events immediately."""

    acked = total(Ack.bytes_acked)
    lost = total(Ack.lost_pkts_sample)
    event = field()

    # Set by Python: gains and bounds.
    pacing_permille = control(STARTUP_PACING_PERMILLE)
    cwnd_permille = control(DEFAULT_CWND_PERMILLE)
    headroom_permille = control()
    bw_short_bytes_per_s = control(INFINITY)
    inflight_short_bytes = control(INFINITY)
    inflight_long_bytes = control(INFINITY)
    is_full = control()
    is_up = control()
    is_probe_rtt = control()
    is_probe_sample = control()
    cycle = control()
    extra_rounds = control(1)
    loss_permille = control(20)
    probe_rtt_interval_us = control(5 * SECOND_US)
    up_acked_bytes = control()
    up_acked_per_inc_bytes = control(1)
    up_growth = control(1)
    start_delivered_pkts = control()
    # Set by Python: what to report.
    wanted_rounds = control(1)
    drain_bytes = control()
    is_cautious = control()
    alarm_us = control(INFINITY)

    marked_pkts = let(Ack.ecn_packets)
    newly_bytes = let((Ack.packets_acked + Ack.packets_misordered) * Flow.mss)
    # The counter of delivered packets has 32 bits: a packet sent before it wrapped gives no sample.
    delivers = let((Flow.prior_delivered > 0) & (Flow.prior_delivered <= Flow.delivered))

    is_alive = state()
    min_rtt_us = field(MAX_TIME_US, volatile=False)
    min_rtt_stamp_us = state()
    probe_min_us = state(INFINITY)
    probe_min_stamp_us = state()
    threshold_bytes = state()
    extra_start_us = state()
    begin = on(
        is_alive == 0,
        is_alive.set(1),
        event.set(STARTED),
        # No estimate yet: the window divided by the smoothed RTT (InitPacingRate, section 5.6.2).
        Rate.set(min_(Cwnd * SECOND_US // Flow.srtt_us * pacing_permille // 1000, MAX_RATE_BYTES_PER_S)),
        min_rtt_stamp_us.set(Ack.now),
        probe_min_stamp_us.set(Ack.now),
        threshold_bytes.set(Flow.snd_ssthresh),
        extra_start_us.set(Ack.now),
    )

    # Packets sent during ProbeRTT, or while they are in flight, count as application-limited (5.3.4.3).
    was_probe_rtt = state()
    limited_from_pkts = state()
    limited_to_pkts = state()
    limit = on(
        is_probe_rtt > 0,
        limited_from_pkts.set(Flow.delivered, when=was_probe_rtt == 0),
        limited_to_pkts.set(Flow.delivered + Flow.packets_in_flight),
    )
    remember_probe_rtt = was_probe_rtt.set(is_probe_rtt)

    # The delivery rate (sections 4.1.1.2.4 and 5.5.5), and its maximum over two cycles (5.5.6).
    sample = let(min_(Flow.rate_incoming, Flow.rate_outgoing, MAX_RATE_BYTES_PER_S))
    is_limited = field(volatile=False)
    not_limited = is_limited.set(0)
    is_low_on_purpose = is_limited.set(
        1,
        when=delivers
        & (Flow.prior_delivered >= limited_from_pkts)
        & (Flow.prior_delivered <= limited_to_pkts),
    )
    is_low_on_data = is_limited.set(1, when=Flow.app_limited)
    cycle_seen = state()
    bw_now_bytes_per_s = state()
    bw_before_bytes_per_s = state()
    max_bw_bytes_per_s = field(volatile=False)
    advance = on(
        (cycle > cycle_seen) & (bw_now_bytes_per_s > 0),
        bw_before_bytes_per_s.set(bw_now_bytes_per_s),
        bw_now_bytes_per_s.set(0),
        cycle_seen.set(cycle),
    )
    keep = bw_now_bytes_per_s.set(
        max_(bw_now_bytes_per_s, sample), when=(is_limited == 0) | (sample >= max_bw_bytes_per_s)
    )
    fastest = max_bw_bytes_per_s.set(max_(bw_now_bytes_per_s, bw_before_bytes_per_s))
    bw = let(min_(max_bw_bytes_per_s, bw_short_bytes_per_s))

    # The minimum RTT (sections 5.3.4.3 and 5.4.1). An idle period drains the queue, so no ProbeRTT is due
    # after it.
    was_idle = state()
    expired = field()
    rtt_us = state()
    is_due = let(Ack.now > probe_min_stamp_us + probe_rtt_interval_us)
    expire = expired.set(1, when=is_due & (was_idle + is_probe_rtt == 0))
    is_better = let((rtt_us < probe_min_us) | is_due, "is_better")
    is_renewed = let((probe_min_us < min_rtt_us) | (Ack.now > min_rtt_stamp_us + MAX_TIME_US), "is_renewed")
    smallest = on(
        Flow.rtt_sample_us > 0,
        rtt_us.set(min_(Flow.rtt_sample_us, MAX_TIME_US)),
        is_better,
        probe_min_us.set(rtt_us, when=is_better),
        probe_min_stamp_us.set(Ack.now, when=is_better),
        is_renewed,
        min_rtt_us.set(probe_min_us, when=is_renewed),
        min_rtt_stamp_us.set(probe_min_stamp_us, when=is_renewed),
    )

    # Losses and ECN marks since the newest delivered packet was sent (section 5.5.10.2): RS.lost and
    # RS.tx_in_flight.
    too_high = field()
    lost_now_pkts = field(volatile=False)
    lost_since_pkts = field(volatile=False)
    tx_in_flight_pkts = field(volatile=False)
    bad_pkts = state()
    gone_pkts = state()
    mark_delivered_pkts = state()
    mark_bad_pkts = state()
    mark_lost_pkts = state()
    before_delivered_pkts = state()
    before_bad_pkts = state()
    before_lost_pkts = state()
    new_bad_pkts = let(Ack.lost_pkts_sample + marked_pkts)
    flight_pkts = max_(Flow.delivered, Flow.prior_delivered) - Flow.prior_delivered
    span_pkts = max_(mark_delivered_pkts, before_delivered_pkts) - before_delivered_pkts
    sent_pkts = let(
        min_(max_(Flow.prior_delivered, before_delivered_pkts) - before_delivered_pkts, span_pkts),
        "sent_pkts",
    )
    bad_then_pkts = before_bad_pkts + (mark_bad_pkts - before_bad_pkts) * sent_pkts // max_(span_pkts, 1)
    lost_then_pkts = before_lost_pkts + (mark_lost_pkts - before_lost_pkts) * sent_pkts // max_(span_pkts, 1)
    count = on(
        new_bad_pkts > 0,
        bad_pkts.add(new_bad_pkts),
        gone_pkts.add(Ack.lost_pkts_sample),
        lost_now_pkts.set(new_bad_pkts),
        lost_since_pkts.add(new_bad_pkts),
    )
    look = on(delivers, lost_since_pkts.set(0), tx_in_flight_pkts.set(flight_pkts))
    look_back = on(
        delivers & (bad_pkts > before_bad_pkts),
        sent_pkts,
        lost_since_pkts.set(bad_pkts - bad_then_pkts),
        tx_in_flight_pkts.add(gone_pkts - lost_then_pkts),
    )
    mark = on(
        delivers & ((Flow.prior_delivered >= mark_delivered_pkts) | (Flow.delivered < mark_delivered_pkts)),
        before_delivered_pkts.set(mark_delivered_pkts),
        before_bad_pkts.set(mark_bad_pkts),
        before_lost_pkts.set(mark_lost_pkts),
        mark_delivered_pkts.set(Flow.delivered),
        mark_bad_pkts.set(bad_pkts),
        mark_lost_pkts.set(gone_pkts),
    )
    is_safe = let(lost_since_pkts * 1000 <= loss_permille * tx_in_flight_pkts)
    is_unsafe = let(lost_since_pkts * 1000 > loss_permille * tx_in_flight_pkts)
    judge = too_high.set(1, when=(is_probe_sample > 0) & (new_bad_pkts > 0) & is_unsafe)

    # The latest delivery process (section 5.5.10.3). A loss round is a round trip that begins with the first
    # loss.
    loss_rounds = field()
    bw_latest_bytes_per_s = field(volatile=False)
    inflight_latest_bytes = field(volatile=False)
    round_loss_events = field(volatile=False)
    round_in_trouble = field(volatile=False)
    loss_round_delivered_pkts = state()
    bw_so_far_bytes_per_s = state()
    inflight_so_far_pkts = state()
    is_lossy = state()
    loss_events = state()
    fastest_so_far = bw_so_far_bytes_per_s.set(max_(bw_so_far_bytes_per_s, sample))
    fullest_so_far = inflight_so_far_pkts.set(max_(inflight_so_far_pkts, flight_pkts), when=delivers)
    lose = on(
        new_bad_pkts > 0,
        loss_round_delivered_pkts.set(Flow.delivered, when=is_lossy == 0),
        is_lossy.set(1),
        loss_events.add(1),
    )
    close_loss_round = on(
        delivers
        & (
            (Flow.prior_delivered >= loss_round_delivered_pkts) | (Flow.delivered < loss_round_delivered_pkts)
        ),
        loss_rounds.add(is_lossy),
        bw_latest_bytes_per_s.set(bw_so_far_bytes_per_s),
        inflight_latest_bytes.set(inflight_so_far_pkts * Flow.mss),
        round_loss_events.set(loss_events),
        round_in_trouble.set(0),
        round_in_trouble.set(1, when=Flow.ca_state > DISORDER),
        loss_events.set(0),
        bw_so_far_bytes_per_s.set(sample),
        inflight_so_far_pkts.set(flight_pkts),
        loss_round_delivered_pkts.set(Flow.delivered),
        is_lossy.set(0),
    )

    # Aggregation (section 5.5.9), maximum over two spans of `extra_rounds` rounds.
    extra_delivered_bytes = state()
    extra_now_bytes = state()
    extra_before_bytes = state()
    extra_age_rounds = state()
    expected_bytes = state()
    expect = expected_bytes.set(bw * min_(Ack.now - extra_start_us, MAX_TIME_US) // SECOND_US)
    behind = on(
        extra_delivered_bytes <= expected_bytes,
        extra_delivered_bytes.set(0),
        extra_start_us.set(Ack.now),
        expected_bytes.set(0),
    )
    # On a link that is never idle a span has no end: continue from the present excess, so that products fit
    # 64 bits.
    go_on = on(
        Ack.now > extra_start_us + MAX_TIME_US,
        extra_delivered_bytes.set(extra_delivered_bytes - expected_bytes),
        extra_start_us.set(Ack.now),
        expected_bytes.set(0),
    )
    deliver = extra_delivered_bytes.add(newly_bytes)
    ahead = extra_now_bytes.set(
        max_(extra_now_bytes, min_(extra_delivered_bytes - expected_bytes, Cwnd)),
    )

    # Rounds (section 5.5.1).
    rounds = field()
    round_bw_bytes_per_s = field(volatile=False)
    next_round_delivered_pkts = state()
    is_new_round = let(
        delivers
        & ((Flow.prior_delivered >= next_round_delivered_pkts) | (Flow.delivered < next_round_delivered_pkts))
        & ((Flow.prior_delivered >= start_delivered_pkts) | (Flow.delivered < start_delivered_pkts))
    )
    is_old = let(extra_age_rounds >= extra_rounds, "is_old")
    next_round = on(
        is_new_round,
        rounds.add(1),
        round_bw_bytes_per_s.set(sample),
        next_round_delivered_pkts.set(Flow.delivered),
        extra_age_rounds.add(1),
        is_old,
        extra_before_bytes.set(extra_now_bytes, when=is_old),
        extra_now_bytes.set(0, when=is_old),
        extra_age_rounds.set(0, when=is_old),
    )

    # An inflight without much loss is safe (AdaptLongTermModel, section 5.3.3.9). The long-term bound also
    # grows while it limits a probe (ProbeInflightLongtermUpward).
    held_back = field()
    increments = let(up_acked_bytes // up_acked_per_inc_bytes, "increments")
    raise_long = inflight_long_bytes.set(
        max_(inflight_long_bytes, tx_in_flight_pkts * Flow.mss), when=delivers & is_safe
    )
    is_held_back = let((is_up > 0) & (Cwnd >= inflight_long_bytes) & Flow.cwnd_limited)
    hold_back = held_back.set(1, when=is_held_back)
    grow_long = on(
        is_held_back & is_safe,
        up_acked_bytes.add(newly_bytes),
        increments,
        inflight_long_bytes.add(increments * Flow.mss),
        up_acked_bytes.set(up_acked_bytes - increments * up_acked_per_inc_bytes),
        up_acked_per_inc_bytes.set(max_(Cwnd // up_growth, Flow.mss), when=is_new_round),
        up_growth.set(min_(up_growth * 2, 1 << 30), when=is_new_round),
    )

    # A probe after one that went too high stops when the inflight comes near the bound. Offloads hold back
    # less than a quantum.
    reached = field()
    quantum_bytes = max_(min_(Rate // 1000, MAX_QUANTUM_BYTES), 2 * Flow.mss)
    reach = on(
        (is_cautious > 0) & (Flow.prior_in_flight * Flow.mss + quantum_bytes >= inflight_long_bytes),
        reached.set(1),
    )

    # Undo by the kernel: it restores its threshold when it finds a recovery to be spurious.
    undone = field()
    undo = undone.set(1, when=(Flow.ca_state <= DISORDER) & (Flow.snd_ssthresh > threshold_bytes))
    remember_threshold = threshold_bytes.set(Flow.snd_ssthresh)

    # The window (section 5.6.4). The window from before a recovery or a ProbeRTT is restored at its end.
    is_modulated = state()
    was_modulated = state()
    recoveries = field(volatile=False)
    prior_bytes = state()
    window_bytes = state()
    extra_acked_bytes = field(volatile=False)
    bdp_bytes = field(volatile=False)
    budget_bytes = field(volatile=False)
    in_recovery = state()
    before_recovery = state()
    pipe_bytes = MIN_PIPE_PKTS * Flow.mss
    max_inflight_bytes = let(
        max_(bdp_bytes * cwnd_permille // 1000 + extra_acked_bytes, budget_bytes) + 2 * is_up * Flow.mss,
        "max_inflight_bytes",
    )
    headroom_bytes = max_(min_(inflight_long_bytes, 1 << 40) * headroom_permille // 1000, Flow.mss)
    adjust = on(
        newly_bytes > 0,
        extra_acked_bytes.set(max_(extra_now_bytes, extra_before_bytes)),
        bdp_bytes.set(bw * min_rtt_us // SECOND_US),
        budget_bytes.set(max_(3 * quantum_bytes, pipe_bytes)),
        max_inflight_bytes,
        before_recovery.set(in_recovery),
        in_recovery.set(0),
        in_recovery.set(1, when=Flow.ca_state >= RECOVERY),
        recoveries.add(1, when=in_recovery > before_recovery),
        was_modulated.set(is_modulated),
        is_modulated.set(max_(in_recovery, is_probe_rtt)),
        window_bytes.set(Cwnd),
        window_bytes.set(max_(Cwnd, prior_bytes), when=was_modulated > is_modulated),
        window_bytes.set(
            window_bytes + newly_bytes,
            when=(is_full > 0) | (window_bytes < max_inflight_bytes) | (Flow.delivered < INITIAL_PKTS),
        ),
        window_bytes.set(min_(window_bytes, max_inflight_bytes), when=is_full > 0),
        window_bytes.set(min_(window_bytes, bdp_bytes * cwnd_permille // 1000), when=is_probe_rtt > 0),
        window_bytes.set(min_(window_bytes, inflight_long_bytes, inflight_short_bytes)),
        window_bytes.set(
            min_(window_bytes, max_(inflight_long_bytes, headroom_bytes) - headroom_bytes),
            when=headroom_permille > 0,
        ),
        window_bytes.set(max_(window_bytes, pipe_bytes)),
        prior_bytes.set(window_bytes, when=is_modulated == 0),
        Cwnd.set(window_bytes),
    )

    # The pacing rate (section 5.6.2) only grows until the pipe has been full once.
    paced_bytes_per_s = let(bw * pacing_permille // 1000)
    pace = Rate.set(
        paced_bytes_per_s, when=((is_full > 0) | (paced_bytes_per_s > Rate)) & (paced_bytes_per_s > 0)
    )
    remember_idle = was_idle.set(0)
    idle = was_idle.set(1, when=Flow.bytes_pending == 0)

    reported_us = state()
    is_news = let(
        (event + too_high + expired + undone + reached > 0)
        | ((loss_rounds > 0) | (rounds >= wanted_rounds)) & (Ack.now >= reported_us + MIN_REPORT_US)
        | (Flow.bytes_in_flight < drain_bytes)
        | (Ack.now > alarm_us)
    )
    delivered_pkts = field(volatile=False)
    in_flight_bytes = field(volatile=False)
    long_bytes = field(volatile=False)
    mss_bytes = field(volatile=False)
    emit = on(
        is_news,
        reported_us.set(Ack.now),
        delivered_pkts.set(Flow.delivered),
        in_flight_bytes.set(Flow.bytes_in_flight),
        long_bytes.set(inflight_long_bytes),
        mss_bytes.set(Flow.mss),
    )
    when = is_news
