"""BBR's fold program: it measures the path on every ACK, and derives window and pacing rate.

Python (`bbr3.py`) runs the state machine: it sets gains, bounds, and the conditions for reports. On every ACK
the fold program computes:

* the delivery rate: the maximum sample of this cycle of bandwidth probing and of the previous one,
* the minimum RTT, over 10 s and over the interval between two ProbeRTTs,
* losses: the number of lost packets since the first loss of a round trip, and the data delivered since then,
* aggregation: the maximum, over the last rounds, of the data acknowledged beyond the estimated rate,
* rounds: a round ends when a packet sent after its start is gone,
* the window and the pacing rate.

The datapath does not provide the amounts delivered and in flight when a packet was sent. `gone_pkts`, the
packets delivered or marked lost, replaces it. Every packet sent is either gone or in flight, so a packet sent
now is gone once `gone_pkts` exceeds the present sum of packets gone and packets in flight.

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
MIN_ROUND_US: Final = 1_000
"""Minimum length of a round, so that no flow reports more than a thousand rounds per second."""
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
    # Set by Python: what to report.
    wanted_rounds = control(1)
    drain_bytes = control()
    is_cautious = control()
    alarm_us = control(INFINITY)

    marked_pkts = let(Ack.ecn_packets)
    newly_bytes = let((Ack.packets_acked + Ack.packets_misordered) * Flow.mss)
    gone = let(Flow.delivered + Flow.lost)
    sent = let(gone + Flow.packets_in_flight)

    is_alive = state()
    min_rtt_us = field(MAX_TIME_US, volatile=False)
    min_rtt_stamp_us = state()
    probe_min_us = state(INFINITY)
    probe_min_stamp_us = state()
    round_start_us = state()
    round_end_pkts = control()
    loss_start_us = state()
    loss_end_pkts = state()
    loss_from_delivered_pkts = state()
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
        round_start_us.set(Ack.now),
        round_end_pkts.set(sent),
        loss_start_us.set(Ack.now),
        loss_end_pkts.set(sent),
        loss_from_delivered_pkts.set(Flow.delivered),
        threshold_bytes.set(Flow.snd_ssthresh),
        extra_start_us.set(Ack.now),
    )

    # The delivery rate (sections 4.1.1.2.4 and 5.5.5), and its maximum over two cycles (5.5.6).
    sample = let(min_(Flow.rate_incoming, Flow.rate_outgoing, MAX_RATE_BYTES_PER_S))
    is_limited = field(volatile=False)
    is_low_on_purpose = is_limited.set(is_probe_rtt)
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

    # Losses and ECN marks (section 5.5.10). A loss round is a round trip that begins with the first loss.
    too_high = field()
    loss_rounds = field()
    bw_latest_bytes_per_s = field(volatile=False)
    inflight_latest_bytes = field(volatile=False)
    round_lost_pkts = field(volatile=False)
    round_gone_pkts = field(volatile=False)
    round_loss_events = field(volatile=False)
    round_in_trouble = field(volatile=False)
    inflight_start_pkts = field(volatile=False)
    bw_so_far_bytes_per_s = state()
    inflight_so_far_bytes = state()
    is_lossy = state()
    loss_from_gone_pkts = state()
    lost_pkts = state()
    lost_since_round_pkts = state()
    loss_events = state()
    bad_pkts = let(Ack.lost_pkts_sample + marked_pkts)
    fastest_so_far = bw_so_far_bytes_per_s.set(max_(bw_so_far_bytes_per_s, sample))
    is_first = let(is_lossy == 0, "is_first")
    lose = on(
        bad_pkts > 0,
        is_first,
        loss_start_us.set(Ack.now, when=is_first),
        loss_end_pkts.set(sent, when=is_first),
        loss_from_delivered_pkts.set(Flow.delivered, when=is_first),
        is_lossy.set(1),
        loss_from_gone_pkts.set(gone - bad_pkts, when=lost_pkts == 0),
        lost_pkts.add(bad_pkts),
        lost_since_round_pkts.add(bad_pkts),
        loss_events.add(1),
        too_high.set(
            1,
            when=(is_probe_sample > 0)
            & (lost_pkts * 1000 > loss_permille * max_(inflight_start_pkts, gone - loss_from_gone_pkts)),
        ),
    )
    delivered_bytes = let((Flow.delivered - loss_from_delivered_pkts) * Flow.mss, "delivered_bytes")
    close_loss_round = on(
        (gone > loss_end_pkts) & (Ack.now >= loss_start_us + MIN_ROUND_US),
        loss_rounds.add(is_lossy),
        bw_latest_bytes_per_s.set(bw_so_far_bytes_per_s),
        delivered_bytes,
        inflight_latest_bytes.set(max_(inflight_so_far_bytes, delivered_bytes)),
        inflight_so_far_bytes.set(delivered_bytes),
        round_lost_pkts.set(lost_pkts),
        round_gone_pkts.set(gone - loss_from_gone_pkts),
        round_loss_events.set(loss_events),
        round_in_trouble.set(0),
        round_in_trouble.set(1, when=Flow.ca_state > DISORDER),
        loss_events.set(0),
        bw_so_far_bytes_per_s.set(sample),
        loss_start_us.set(Ack.now),
        loss_end_pkts.set(sent),
        loss_from_delivered_pkts.set(Flow.delivered),
        lost_pkts.set(0),
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

    # Rounds (section 5.5.1), and the data in flight at their start, which the ACKs of the round acknowledge.
    rounds = field()
    round_bw_bytes_per_s = field(volatile=False)
    round_from_gone_pkts = field(volatile=False)
    inflight_before_pkts = field(volatile=False)
    is_new_round = let((gone > round_end_pkts) & (Ack.now >= round_start_us + MIN_ROUND_US))
    is_old = let(extra_age_rounds >= extra_rounds, "is_old")
    next_round = on(
        is_new_round,
        rounds.add(1),
        round_bw_bytes_per_s.set(sample),
        # An inflight without much loss is safe (AdaptLongTermModel, section 5.3.3.9).
        inflight_long_bytes.set(
            max_(inflight_long_bytes, inflight_start_pkts * Flow.mss),
            when=lost_since_round_pkts * 1000 <= loss_permille * inflight_start_pkts,
        ),
        lost_since_round_pkts.set(0),
        inflight_before_pkts.set(inflight_start_pkts),
        inflight_start_pkts.set(Flow.packets_in_flight),
        round_from_gone_pkts.set(gone),
        round_start_us.set(Ack.now),
        round_end_pkts.set(sent),
        extra_age_rounds.add(1),
        is_old,
        extra_before_bytes.set(extra_now_bytes, when=is_old),
        extra_now_bytes.set(0, when=is_old),
        extra_age_rounds.set(0, when=is_old),
    )

    # The long-term bound grows while it limits a probe (ProbeInflightLongtermUpward, section 5.3.3.9).
    held_back = field()
    increments = let(up_acked_bytes // up_acked_per_inc_bytes, "increments")
    grow_long = on(
        (is_up > 0) & (Cwnd >= inflight_long_bytes) & Flow.cwnd_limited,
        held_back.set(1),
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
        (is_cautious > 0) & (Flow.bytes_in_flight + newly_bytes + quantum_bytes >= inflight_long_bytes),
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
    headroom_bytes = min_(inflight_long_bytes, 1 << 40) * headroom_permille // 1000
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
        window_bytes.set(min_(window_bytes, inflight_long_bytes - headroom_bytes, inflight_short_bytes)),
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

    is_news = let(
        (event + too_high + loss_rounds + expired + undone + reached > 0)
        | (rounds >= wanted_rounds)
        | (Flow.bytes_in_flight < drain_bytes)
        | (Ack.now > alarm_us)
    )
    gone_pkts = field(volatile=False)
    sent_pkts = field(volatile=False)
    in_flight_bytes = field(volatile=False)
    long_bytes = field(volatile=False)
    mss_bytes = field(volatile=False)
    emit = on(
        is_news,
        gone_pkts.set(gone),
        sent_pkts.set(sent),
        in_flight_bytes.set(Flow.bytes_in_flight),
        long_bytes.set(inflight_long_bytes),
        mss_bytes.set(Flow.mss),
    )
    when = is_news
