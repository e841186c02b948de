/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * R-TCP's limiter: how much all flows of a limited client together may send. Call it after the detector.
 *
 * CAPPED -- eta rounds and packets ----> PROBING -- {B, R} changed, or more than its tokens arrived --> RAISED
 *    ^                                     |                                                             |
 *    '------- losses, or no effect ------------------------------------------------------------- steps 1 to 3
 *    ^                                                                                                   |
 *    '------- {B, R} the same for 3 rounds --------------------------------------- LIFTED <------ all passed
 *
 * Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI 2026,
 * sections 5.1 to 5.3. Choices that the paper leaves open: a round is an sRTT of time; the level of tokens is the detector's;
 * tokens in flight are subtracted from it.
 *
 * Deviations, with reasons:
 *
 * - The cap is lifted in steps, 1 + gamma, 1 + 2 gamma, 1 + 4 gamma ... of R. The paper lifts it in one step when {B, R}
 *   changes while probing. R is a mean over the whole transfer, which three rounds of 1.2 R hardly change after some seconds,
 *   so that a lifted limit would be kept for long. Arrivals above R, and beyond the available tokens, show it sooner. A few
 *   packets are weak evidence; each step requires more.
 * - A probe continues while nothing is lost and tokens may be the reason, until it has sent twice as much above R. It ends
 *   immediately when packets are lost and no more than R arrives: then the bucket is empty.
 * - Packets are also counted between two probes (`probe_every_pkts`; the paper: 0): a probe costs one or two packets, which
 *   would exceed a hundredth if an sRTT holds few, and random losses have to be measured in between.
 * - While a verdict is pending, the cap is twice the estimated rate: sending at the earlier rate would only cause losses. A
 *   lower cap would lose nothing, but a verdict needs losses. Only an estimate that was stable while packets were lost caps.
 *   Before that it is a mean over a time in which the flow waited for a timeout: a cap at it also loses nothing, and keeps
 *   it there. It does not cap the bucket's gain during such a time either.
 * - Losses while capped, after those of the last probe, are not caused by the limit. A probe is forgiven as many, and takes
 *   one step more without proof: with random losses the level of tokens is inaccurate. It also comes sooner.
 * - With random losses a control such as BBRv3 may stay far below the path's rate, and below all rates by which the detector
 *   finds a limit lifted. So the limit also counts as lifted if, without a cap, a whole bucket above R has arrived, and the
 *   loss did not exceed the random loss.
 */
#ifndef RTCP_LIMITER_H
#define RTCP_LIMITER_H

#include "detector.h"

enum {
	RTCP_RAISES = 3, /* steps after probing, each with twice the gain */
	RTCP_RAISE_ROUNDS = 2, /* the second sees the first one's data delivered */
	RTCP_RAISE_LOST_PKTS = 3, /* fewer are not significant */
	RTCP_PROOF_PKTS = 4, /* ACKs may be some packets early or late */
	RTCP_SETTLING_ROUNDS = 4, /* a probe's losses are detected later */
	RTCP_SETTLING_PKTS = 100,
	RTCP_LEARNING_PKTS = RTCP_SETTLING_PKTS / 2, /* after that; fewer are not significant */
	RTCP_SPARED_PKTS = 100, /* a probe is forgiven losses per this number of packets */
	RTCP_MIN_LOSS_PPM = 5000, /* smaller loss rates are not forgiven to probes */
};

enum rtcp_seeking {
	RTCP_SEEKS_NOTHING = 0,
	RTCP_SEEKS_A_LITTLE, /* a probe by gamma */
	RTCP_SEEKS_MUCH, /* the limit seems to be lifted */
};

/* How deliveries follow a probe's sending rate. */
enum rtcp_pace {
	RTCP_PACE_SLOWER, /* they do not: the limit exists */
	RTCP_PACE_OPEN, /* available tokens may be the reason */
	RTCP_PACE_FASTER, /* more than the limit and its tokens allow */
};

/* What the limit allows in a time, up to RTCP_MAX [bytes]. */
static inline __u64 rtcp_limit_bytes(const struct rtcp_detector *d, __u64 t_us)
{
	return rtcp_min(rtcp_brings(d->rate_bytes_per_s, t_us) / RTCP_PPM, RTCP_MAX);
}

/* Whether there are more tokens than a window at R would use (equation 21). */
static inline int rtcp_has_tokens(const struct rtcp_detector *d, const struct rtcp_progress *now)
{
	return rtcp_tokens_bytes(d, now->time_us) > now->in_flight_bytes + rtcp_limit_bytes(d, now->srtt_us);
}

/* Whether more than R is sent in order to test the limit. */
static inline int rtcp_is_probing(const struct rtcp_limiter *l)
{
	return l->stage == RTCP_STAGE_PROBING || l->stage == RTCP_STAGE_RAISED;
}

/* Permitted excess above R [ppm of R]. Tokens are spent as in a probe, as long as there seem to be some. */
static inline __u32 rtcp_limiter_gain_ppm(const struct rtcp_limiter *l, const struct rtcp_detector *d,
					  const struct rtcp_options *o, const struct rtcp_progress *now)
{
	if (rtcp_is_probing(l))
		return o->probe_gain_ratio_ppm << (l->raises & 7);
	return rtcp_has_tokens(d, now) ? o->probe_gain_ratio_ppm : 0;
}

/*
 * Whether tokens make a cap unnecessary. Heavy loss in a transfer shows that there are none, except those of an idle period
 * since then: the estimate continues with the next transfer.
 */
static inline int rtcp_has_credit(const struct rtcp_detector *d, const struct rtcp_progress *now)
{
	return (!d->transfer.triggered || d->transfer.carried) && rtcp_has_tokens(d, now);
}

static inline void rtcp_limiter_enter(struct rtcp_limiter *l, const struct rtcp_detector *d, __u32 stage,
				      const struct rtcp_progress *now)
{
	l->stage = stage;
	l->rounds = 0;
	l->round_start_us = now->time_us;
	l->changes = d->changes;
	l->begin = l->judged = rtcp_mark_of(now);
}

/* Updates the mean loss that the limit did not cause, over the last capped periods. */
static inline void rtcp_learn_loss(struct rtcp_limiter *l, const struct rtcp_progress *now)
{
	__u64 delivered_pkts = rtcp_moved(now->delivered_pkts, l->judged.delivered_pkts);
	__u64 lost_pkts = rtcp_moved(now->lost_pkts, l->judged.lost_pkts);

	if (delivered_pkts >= RTCP_LEARNING_PKTS)
		l->loss_ppm = (3ULL * l->loss_ppm + lost_pkts * RTCP_PPM / (lost_pkts + delivered_pkts)) / 4;
}

static inline int rtcp_is_lossy(const struct rtcp_limiter *l)
{
	return l->loss_ppm >= RTCP_MIN_LOSS_PPM;
}

static inline void rtcp_limiter_probe(struct rtcp_limiter *l, const struct rtcp_detector *d,
				      const struct rtcp_progress *now)
{
	l->spared_pkts = 0;
	if (rtcp_is_lossy(l))
		l->spared_pkts = 2 + (__u64)l->loss_ppm * 2 * RTCP_SPARED_PKTS / RTCP_PPM;
	l->raises = 0;
	l->due_bytes = 0;
	l->gain_ppm = 0;
	l->probe = rtcp_mark_of(now);
	l->tokens_bytes = rtcp_tokens_bytes(d, now->time_us) >> rtcp_is_lossy(l);
	rtcp_limiter_enter(l, d, RTCP_STAGE_PROBING, now);
}

/* Whether arrivals since a mark exceed the limit by a share. */
static inline int rtcp_exceeds(const struct rtcp_detector *d, const struct rtcp_mark *since,
			       const struct rtcp_progress *now, __u32 share_ppm)
{
	__u64 limit_bytes = rtcp_limit_bytes(d, rtcp_moved(now->time_us, since->time_us));

	return rtcp_bytes(d, rtcp_moved(now->delivered_pkts, since->delivered_pkts)) >=
	       limit_bytes + rtcp_share(limit_bytes, share_ppm);
}

/* A probe's losses that the limit did not cause: in proportion to the loss without a probe. */
static inline __u64 rtcp_spared_pkts(const struct rtcp_limiter *l, const struct rtcp_progress *now)
{
	__u64 delivered_pkts = rtcp_moved(now->delivered_pkts, l->probe.delivered_pkts);

	return l->spared_pkts * (1 + delivered_pkts / RTCP_SPARED_PKTS);
}

/*
 * Whether packets are lost while arrivals since the last round do not exceed the limit: the bucket is empty. Arrivals of the
 * first round of a step were sent before it.
 */
static inline int rtcp_probe_loses(const struct rtcp_limiter *l, const struct rtcp_detector *d,
				   const struct rtcp_options *o, const struct rtcp_progress *now)
{
	__u64 past_us = rtcp_moved(now->time_us, l->judged.time_us);

	return rtcp_moved(now->lost_pkts, l->probe.lost_pkts) > rtcp_spared_pkts(l, now) &&
	       (l->raises ? past_us : 2 * past_us) >= now->srtt_us &&
	       !rtcp_exceeds(d, &l->judged, now, o->probe_gain_ratio_ppm / 2);
}

/* Whether many packets are lost in a step. */
static inline int rtcp_raise_is_lossy(const struct rtcp_limiter *l, const struct rtcp_options *o,
				      const struct rtcp_progress *now)
{
	__u64 delivered_pkts = rtcp_moved(now->delivered_pkts, l->begin.delivered_pkts);
	__u64 lost_pkts = rtcp_moved(now->lost_pkts, l->begin.lost_pkts);

	return lost_pkts >= RTCP_RAISE_LOST_PKTS &&
	       lost_pkts * RTCP_PPM > o->loss_ratio_ppm * (lost_pkts + delivered_pkts);
}

/* Arrivals above R that tokens cannot explain. */
static inline __u64 rtcp_to_prove(const struct rtcp_limiter *l, const struct rtcp_detector *d)
{
	return l->tokens_bytes + rtcp_max(l->due_bytes / 4, RTCP_PROOF_PKTS * d->mss_bytes);
}

/* What arrivals since the probe began show about the limit. If all sent data arrived, they would be `due` above R. */
static inline enum rtcp_pace rtcp_pace(const struct rtcp_limiter *l, const struct rtcp_detector *d,
				       const struct rtcp_progress *now)
{
	__u64 delivered_bytes = rtcp_bytes(d, rtcp_moved(now->delivered_pkts, l->probe.delivered_pkts));
	__u64 limit_bytes = rtcp_limit_bytes(d, rtcp_moved(now->time_us, l->probe.time_us));
	__u64 excess_bytes = rtcp_above(delivered_bytes, limit_bytes);

	if (l->changes != d->changes)
		return RTCP_PACE_FASTER;
	if (l->raises && excess_bytes < rtcp_max(l->due_bytes / (l->spared_pkts ? 8 : 3), d->mss_bytes))
		return RTCP_PACE_SLOWER;
	return excess_bytes < rtcp_to_prove(l, d) ? RTCP_PACE_OPEN : RTCP_PACE_FASTER;
}

static inline void rtcp_limiter_raise(struct rtcp_limiter *l, const struct rtcp_detector *d,
				      const struct rtcp_progress *now)
{
	l->raises++;
	rtcp_limiter_enter(l, d, RTCP_STAGE_RAISED, now);
}

/* Ends a round of a probe, or a step. */
static inline void rtcp_limiter_step(struct rtcp_limiter *l, struct rtcp_detector *d,
				     const struct rtcp_options *o, const struct rtcp_progress *now)
{
	switch (rtcp_pace(l, d, now)) {
	case RTCP_PACE_SLOWER:
		if (rtcp_moved(now->lost_pkts, l->probe.lost_pkts))
			d->tokens_ubytes = 0;
		rtcp_limiter_enter(l, d, RTCP_STAGE_CAPPED, now);
		break;
	case RTCP_PACE_OPEN:
		if (l->raises)
			rtcp_limiter_enter(l, d, RTCP_STAGE_RAISED, now);
		else if (l->spared_pkts && l->rounds >= o->probe_rounds)
			rtcp_limiter_raise(l, d, now);
		else if (l->rounds >= o->probe_rounds && l->due_bytes >= 2 * rtcp_to_prove(l, d))
			rtcp_limiter_enter(l, d, RTCP_STAGE_CAPPED, now);
		break;
	case RTCP_PACE_FASTER:
		if (l->raises < RTCP_RAISES)
			rtcp_limiter_raise(l, d, now);
		else
			rtcp_limiter_enter(l, d, RTCP_STAGE_LIFTED, now);
		break;
	}
}

/* Counts the rounds since the stage began. Returns whether one has just ended. */
static inline int rtcp_limiter_round(struct rtcp_limiter *l, const struct rtcp_detector *d,
				     const struct rtcp_options *o, const struct rtcp_progress *now)
{
	__u64 past_us = rtcp_moved(now->time_us, l->round_start_us), round_us = now->srtt_us;

	if (past_us < round_us)
		return 0;
	/* ACKs arrive some time after the end of a round: that time is part of the next round. */
	l->round_start_us = past_us < 2 * round_us ? l->round_start_us + round_us : now->time_us;
	l->rounds++;
	/* The data sent in this round is delivered in the next. */
	l->due_bytes =
		rtcp_min(l->due_bytes + rtcp_share(rtcp_limit_bytes(d, round_us), l->gain_ppm), RTCP_MAX);
	l->gain_ppm = rtcp_limiter_gain_ppm(l, d, o, now);
	return 1;
}

/* Whether arrivals may still be from the last probe. */
static inline int rtcp_settles(const struct rtcp_limiter *l, const struct rtcp_progress *now)
{
	return l->rounds <= RTCP_SETTLING_ROUNDS ||
	       rtcp_moved(now->delivered_pkts, l->begin.delivered_pkts) < RTCP_SETTLING_PKTS;
}

static inline int rtcp_probe_is_due(const struct rtcp_limiter *l, const struct rtcp_options *o,
				    const struct rtcp_progress *now)
{
	__u64 delivered_pkts = rtcp_moved(now->delivered_pkts, l->begin.delivered_pkts);
	__u64 enough_pkts = o->probe_every_pkts;

	/* A probe's cost is small compared with other losses, but whether these continue has to be measured. */
	if (rtcp_is_lossy(l))
		enough_pkts = rtcp_min(enough_pkts, RTCP_SETTLING_PKTS + RTCP_LEARNING_PKTS);

	return l->rounds >= o->probe_every_rounds && delivered_pkts >= enough_pkts;
}

/*
 * Whether, with random losses and without a cap, more has arrived than the limit and a full bucket allow. A limit that is
 * only higher would have caused much more loss.
 */
static inline int rtcp_outgrows(const struct rtcp_limiter *l, const struct rtcp_detector *d,
				const struct rtcp_progress *now)
{
	__u64 delivered_pkts = rtcp_moved(now->delivered_pkts, l->probe.delivered_pkts);
	__u64 lost_pkts = rtcp_moved(now->lost_pkts, l->probe.lost_pkts);
	__u64 limit_bytes = rtcp_limit_bytes(d, rtcp_moved(now->time_us, l->probe.time_us));

	return rtcp_is_lossy(l) &&
	       lost_pkts * RTCP_PPM <= 2ULL * l->loss_ppm * (delivered_pkts + lost_pkts) &&
	       rtcp_bytes(d, delivered_pkts) > limit_bytes + d->bucket_bytes;
}

/* Handles an ACK, after the detector. */
static inline void rtcp_limiter_ack(struct rtcp_limiter *l, struct rtcp_detector *d,
				    const struct rtcp_options *o, const struct rtcp_progress *now)
{
	if (!d->limited) {
		l->stage = RTCP_STAGE_OPEN;
		return;
	}
	if (d->transfer.triggered && !l->triggered && l->stage != RTCP_STAGE_OPEN)
		d->tokens_ubytes = 0;
	l->triggered = d->transfer.triggered;
	if (l->stage == RTCP_STAGE_OPEN)
		rtcp_limiter_enter(l, d, RTCP_STAGE_CAPPED, now);
	/* In a continued transfer heavy loss is not detected again: each loss shows that there are fewer tokens. */
	if (d->transfer.carried && d->loses && !rtcp_is_probing(l))
		d->tokens_ubytes /= 2;
	if (rtcp_has_credit(d, now)) {
		rtcp_limiter_enter(l, d, RTCP_STAGE_CREDIT, now);
		return;
	}
	if (l->stage == RTCP_STAGE_CREDIT)
		rtcp_limiter_enter(l, d, RTCP_STAGE_CAPPED, now);
	if (l->stage == RTCP_STAGE_LIFTED && l->changes != d->changes)
		rtcp_limiter_enter(l, d, RTCP_STAGE_LIFTED, now);
	if (l->stage == RTCP_STAGE_CAPPED && d->loses && rtcp_has_tokens(d, now))
		d->tokens_ubytes /= 2; /* there are fewer than estimated */
	if (rtcp_is_probing(l) &&
	    (rtcp_probe_loses(l, d, o, now) || (l->raises && rtcp_raise_is_lossy(l, o, now)))) {
		d->tokens_ubytes = l->spared_pkts ? d->tokens_ubytes / 2 : 0;
		rtcp_limiter_enter(l, d, RTCP_STAGE_CAPPED, now);
	}
	/*
	 * A flow that sends less by its own choice, as BBR does in PROBE_RTT, tests nothing: the probe starts again. The packet
	 * of this ACK also counts: if an RTT holds no more than one, nothing is in flight then.
	 */
	if (rtcp_is_probing(l) &&
	    2 * (now->in_flight_bytes + d->mss_bytes) < rtcp_limit_bytes(d, now->min_rtt_us))
		rtcp_limiter_probe(l, d, now);
	if (!rtcp_limiter_round(l, d, o, now))
		return;
	switch (l->stage) {
	case RTCP_STAGE_CAPPED:
		if (rtcp_settles(l, now))
			l->judged = rtcp_mark_of(now);
		if (rtcp_probe_is_due(l, o, now)) {
			rtcp_learn_loss(l, now);
			rtcp_limiter_probe(l, d, now);
		}
		break;
	case RTCP_STAGE_PROBING:
		if (l->rounds > 1)
			rtcp_limiter_step(l, d, o, now);
		l->judged = rtcp_mark_of(now);
		break;
	case RTCP_STAGE_RAISED:
		if (l->rounds >= RTCP_RAISE_ROUNDS)
			rtcp_limiter_step(l, d, o, now);
		break;
	case RTCP_STAGE_LIFTED:
		if (rtcp_outgrows(l, d, now))
			rtcp_end(d, RTCP_END_BYTES);
		else if (l->rounds >= o->probe_rounds)
			rtcp_limiter_enter(l, d,
					   rtcp_exceeds(d, &l->probe, now, o->probe_gain_ratio_ppm)
						   ? RTCP_STAGE_LIFTED
						   : RTCP_STAGE_CAPPED,
					   now);
		break;
	}
}

/*
 * Whether a verdict is pending: heavy loss, and a tested estimate far below the earlier rate. An untested one may be far too
 * low, a mean over a time in which the flow waited for a timeout. Not in series of transfers: they end before they have lost
 * much, and an estimate over several would wait for its verdict's losses for long.
 */
static inline int rtcp_is_suspected(const struct rtcp_detector *d)
{
	return !d->limited && !d->undetected && d->transfer.tested && !d->transfer.carried;
}

/* The permitted rate then; 0: by the estimate the bucket has gained tokens, as while a flow waited for a timeout. */
static inline __u64 rtcp_suspected_rate(const struct rtcp_detector *d, const struct rtcp_progress *now)
{
	__u64 rate_bytes_per_s = d->candidates.line.rate_bytes_per_s;
	__u64 window_bytes = rtcp_brings(rate_bytes_per_s, now->srtt_us) / RTCP_PPM;

	return rtcp_gap_ubytes(d, now) / RTCP_PPM > now->in_flight_bytes + window_bytes
		       ? 0
		       : 2 * rate_bytes_per_s;
}

/* What all flows of the client together may send [bytes/s]; 0: not capped. */
static inline __u64 rtcp_limiter_rate(const struct rtcp_limiter *l, const struct rtcp_detector *d,
				      const struct rtcp_options *o, const struct rtcp_progress *now)
{
	__u64 rate_bytes_per_s = d->rate_bytes_per_s;

	if (rtcp_is_suspected(d))
		return rtcp_suspected_rate(d, now);
	if (!d->limited || l->stage == RTCP_STAGE_LIFTED || rtcp_has_credit(d, now))
		return 0;
	return rate_bytes_per_s + rtcp_share(rate_bytes_per_s, rtcp_limiter_gain_ppm(l, d, o, now));
}

/* Whether the congestion control should probe for more. */
static inline enum rtcp_seeking rtcp_limiter_seeks(const struct rtcp_limiter *l)
{
	switch (l->stage) {
	case RTCP_STAGE_PROBING:
		return RTCP_SEEKS_A_LITTLE;
	case RTCP_STAGE_RAISED:
	case RTCP_STAGE_LIFTED:
		return RTCP_SEEKS_MUCH;
	default:
		return RTCP_SEEKS_NOTHING;
	}
}

#endif
