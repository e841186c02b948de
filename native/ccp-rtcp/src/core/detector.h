/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * R-TCP's detector: is a client limited by a token bucket, and by which? ccp_algs/rtcp (Python) is the same, bit by
 * bit; the rules, their sources and their reasons stand there.
 *
 *	rtcp_detector_init(d, mss_bytes);
 *	rtcp_detector_start(d, o, &now);	a transfer begins: data is sent, after nothing was in flight
 *	rtcp_detector_ack(d, o, &now);		an ACK
 *	if (d->limited)
 *		... d->bucket_bytes, d->rate_bytes_per_s, rtcp_tokens_bytes(d, now.time_us)
 */
#ifndef RTCP_DETECTOR_H
#define RTCP_DETECTOR_H

#include "candidates.h"

/* --- a transfer (sections 4.1 and 4.3) ------------------------------------------------------------------------ */

static inline struct rtcp_mark rtcp_mark_of(const struct rtcp_progress *now)
{
	return (struct rtcp_mark){now->time_us, now->delivered_pkts, now->lost_pkts};
}

static inline int rtcp_longer(__u64 since_us, const struct rtcp_progress *now, __u32 min_rtts_ppm)
{
	return rtcp_since(now->time_us, since_us) * RTCP_PPM > (__u64)min_rtts_ppm * now->min_rtt_us;
}

/* The line above what was delivered [ubytes]: what is left in the bucket (equation 18). */
static inline __u64 rtcp_gap_ubytes(const struct rtcp_detector *d, const struct rtcp_progress *now)
{
	const struct rtcp_mark *origin = &d->transfer.origin;
	const struct rtcp_limit *line = &d->candidates.line;
	__u64 through_ubytes = line->bucket_bytes * RTCP_PPM +
			       rtcp_brings(line->rate_bytes_per_s, rtcp_since(now->time_us, origin->time_us));
	__u64 delivered_ubytes = rtcp_bytes(d, now->delivered_pkts, origin->delivered_pkts) * RTCP_PPM;

	return through_ubytes > delivered_ubytes ? through_ubytes - delivered_ubytes : 0;
}

static inline void rtcp_trigger(struct rtcp_detector *d, const struct rtcp_options *o)
{
	struct rtcp_transfer *t = &d->transfer;
	__u64 delivered_bytes = rtcp_bytes(d, t->before.delivered_pkts, t->origin.delivered_pkts);
	__u64 t_us = rtcp_since(t->before.time_us, t->origin.time_us);

	if (!delivered_bytes || t_us < RTCP_LEAST_US)
		return;
	t->triggered = 1;
	t->before_bytes_per_s = delivered_bytes * RTCP_PPM / t_us;
	rtcp_candidates_init(&d->candidates, o, delivered_bytes, t_us);
}

static inline void rtcp_count_losses(struct rtcp_detector *d, const struct rtcp_options *o,
				     const struct rtcp_progress *now)
{
	struct rtcp_transfer *t = &d->transfer;
	__u64 lost_pkts, delivered_pkts;
	int heavy;

	if (!t->counting) {
		if (now->lost_pkts <= t->counted.lost_pkts) {
			t->counted = rtcp_mark_of(now);
			return;
		}
		t->counting = 1;
		t->counting_since_us = now->time_us;
		t->before = t->counted;
	}
	lost_pkts = rtcp_since(now->lost_pkts, t->counted.lost_pkts);
	delivered_pkts = rtcp_since(now->delivered_pkts, t->counted.delivered_pkts);
	heavy = lost_pkts * RTCP_PPM > o->loss_ratio_ppm * (delivered_pkts + lost_pkts);
	if (!heavy)
		t->before = rtcp_mark_of(now);
	if (rtcp_longer(t->counting_since_us, now, o->loss_window_min_rtts_ppm)) {
		if (heavy)
			rtcp_trigger(d, o);
		t->counting = 0;
		t->counted = rtcp_mark_of(now);
	}
}

/* Whether a rate is still the same. */
static inline int rtcp_same(const struct rtcp_options *o, __u64 rate_bytes_per_s, __u64 before_bytes_per_s)
{
	__u64 tolerance_bytes_per_s = rtcp_share(before_bytes_per_s, o->tolerance_ratio_ppm);

	return rate_bytes_per_s <= before_bytes_per_s + tolerance_bytes_per_s &&
	       rate_bytes_per_s + tolerance_bytes_per_s >= before_bytes_per_s;
}

/* Whether the line's rate is still that of the window: each end of it may be a packet early or late. */
static inline int rtcp_steady(const struct rtcp_detector *d, const struct rtcp_options *o, __u64 now_us)
{
	const struct rtcp_transfer *t = &d->transfer;
	__u64 rate_bytes_per_s = d->candidates.line.rate_bytes_per_s, slack_bytes_per_s = RTCP_MOST;
	__u64 window_us = rtcp_since(now_us, t->steady_since.time_us);

	if (window_us)
		slack_bytes_per_s = 2 * d->mss_bytes * RTCP_PPM / window_us;
	slack_bytes_per_s += rtcp_share(t->steady_bytes_per_s, o->tolerance_ratio_ppm);
	return rate_bytes_per_s <= t->steady_bytes_per_s + slack_bytes_per_s &&
	       rate_bytes_per_s + slack_bytes_per_s >= t->steady_bytes_per_s;
}

static inline __u64 rtcp_near_ubytes(const struct rtcp_detector *d)
{
	return RTCP_NEAR_PKTS * d->mss_bytes * RTCP_PPM;
}

/* Whether deliveries have grown at the line's rate since the window began. */
static inline int rtcp_keeps_up(const struct rtcp_detector *d, const struct rtcp_progress *now)
{
	const struct rtcp_mark *since = &d->transfer.steady_since;
	__u64 tenth_ubytes =
		rtcp_brings(d->candidates.line.rate_bytes_per_s, rtcp_since(now->time_us, since->time_us)) /
		10;
	__u64 delivered_ubytes = rtcp_bytes(d, now->delivered_pkts, since->delivered_pkts) * RTCP_PPM;

	return delivered_ubytes > tenth_ubytes * 9 &&
	       delivered_ubytes <= tenth_ubytes * 11 + rtcp_near_ubytes(d);
}

/* Whether a convergence window has seen enough. */
static inline int rtcp_is_over(const struct rtcp_detector *d, const struct rtcp_options *o,
			       const struct rtcp_progress *now)
{
	const struct rtcp_transfer *t = &d->transfer;
	__u32 least_pkts = t->carried ? RTCP_CARRIED_PKTS : RTCP_STEADY_PKTS;

	return rtcp_longer(t->steady_since.time_us, now, o->convergence_min_rtts_ppm) &&
	       rtcp_pkts(now->delivered_pkts, t->steady_since.delivered_pkts) >= least_pkts;
}

/* Begins one, where deliveries are at the line. */
static inline void rtcp_watch(struct rtcp_detector *d, const struct rtcp_progress *now)
{
	struct rtcp_transfer *t = &d->transfer;

	t->steady_known = rtcp_gap_ubytes(d, now) <= rtcp_near_ubytes(d);
	t->steady_since = rtcp_mark_of(now);
	t->steady_bytes_per_s = d->candidates.line.rate_bytes_per_s;
}

/* Whether R is an abrupt reduction of the rate before (equation 13). */
static inline int rtcp_is_reduced(const struct rtcp_detector *d, const struct rtcp_options *o)
{
	return d->candidates.line.rate_bytes_per_s <
	       rtcp_share(d->transfer.before_bytes_per_s, o->reduction_ratio_ppm);
}

static inline void rtcp_classify(struct rtcp_detector *d, const struct rtcp_options *o,
				 const struct rtcp_progress *now)
{
	struct rtcp_transfer *t = &d->transfer;
	__u64 step_ubytes = d->candidates.step_bytes * RTCP_PPM, gap_ubytes = rtcp_gap_ubytes(d, now);

	if (!rtcp_is_reduced(d, o)) {
		t->steady_known = t->tested = 0;
	} else if (!t->steady_known || !rtcp_steady(d, o, now->time_us)) {
		rtcp_watch(d, now);
	} else if (now->lost_pkts > t->steady_since.lost_pkts) {
		t->tested = 1;
		if (!rtcp_is_over(d, o, now))
			return;
		if (gap_ubytes <= rtcp_max(step_ubytes, rtcp_near_ubytes(d)) && rtcp_keeps_up(d, now))
			t->detected = 1;
		else if (gap_ubytes <= rtcp_near_ubytes(d))
			rtcp_watch(d, now);
	}
}

static inline void rtcp_transfer_ack(struct rtcp_detector *d, const struct rtcp_options *o,
				     const struct rtcp_progress *now)
{
	struct rtcp_transfer *t = &d->transfer;
	__u64 t_us = rtcp_since(now->time_us, t->origin.time_us);

	if (!t->triggered)
		rtcp_count_losses(d, o, now);
	if (!t->triggered || t_us < RTCP_LEAST_US)
		return;
	rtcp_candidates_update(&d->candidates, o,
			       rtcp_bytes(d, now->delivered_pkts, t->origin.delivered_pkts), t_us);
	if (!t->detected)
		rtcp_classify(d, o, now);
}

/* --- the client ----------------------------------------------------------------------------------------------- */

static inline void rtcp_end(struct rtcp_detector *d, enum rtcp_end how, __u64 now_us)
{
	d->limited = 0;
	d->undetected = how;
	d->undetected_at_us = now_us;
	d->changes++;
}

/* Whether losses come while nearly R is sent: the limit may be lower. */
static inline int rtcp_pressed(struct rtcp_detector *d, const struct rtcp_progress *now,
			       const struct rtcp_mark *last)
{
	__u64 offered_bytes = rtcp_bytes(d, now->delivered_pkts, last->delivered_pkts) +
			      rtcp_bytes(d, now->lost_pkts, last->lost_pkts);
	struct rtcp_limit most = {rtcp_brings(d->rate_bytes_per_s, 10ULL * now->min_rtt_us) / RTCP_PPM,
				  d->rate_bytes_per_s / 10 * 9};

	return !rtcp_tokens_take(&d->offered, now->time_us, offered_bytes, &most) &&
	       now->lost_pkts > last->lost_pkts;
}

/* Follows the tokens, and looks whether the limit can still be there. */
static inline void rtcp_follow(struct rtcp_detector *d, const struct rtcp_options *o,
			       const struct rtcp_progress *now, const struct rtcp_mark *last)
{
	__u64 delivered_bytes = rtcp_bytes(d, now->delivered_pkts, last->delivered_pkts);
	__u32 excess_ppm = d->transfer.detected ? o->excess_buckets_ppm : o->excess_buckets_anew_ppm;
	struct rtcp_limit limit = {d->bucket_bytes, d->rate_bytes_per_s}, most;

	rtcp_tokens_take(&d->tokens, now->time_us, delivered_bytes, &limit);
	most.bucket_bytes = rtcp_min(rtcp_share(d->bucket_bytes, excess_ppm), RTCP_MOST);
	most.rate_bytes_per_s =
		rtcp_max(d->highest_bytes_per_s, rtcp_share(d->rate_bytes_per_s, o->excess_rates_ppm));
	if (!rtcp_tokens_take(&d->witness, now->time_us, delivered_bytes, &most))
		rtcp_end(d, RTCP_END_BYTES, now->time_us);
}

/*
 * The bucket, as far as is known: the line's, and what was in it when a series of transfers began, of which this one found
 * it nearly empty: what went through since, but for what came in meanwhile.
 */
static inline __u64 rtcp_known_bucket_bytes(const struct rtcp_detector *d)
{
	const struct rtcp_limit *line = &d->candidates.line;
	__u64 come_ubytes = rtcp_brings(line->rate_bytes_per_s, rtcp_since(d->last.time_us, d->series_us));
	__u64 through_bytes = rtcp_bytes(d, d->last.delivered_pkts, d->series_pkts);

	return rtcp_max(line->bucket_bytes, rtcp_since(through_bytes, come_ubytes / RTCP_PPM));
}

/* Lets the estimate of a transfer that is limited hold for the client; a lower rate, only if the client is pressed. */
static inline void rtcp_adopt(struct rtcp_detector *d, const struct rtcp_options *o,
			      const struct rtcp_progress *now, int pressed)
{
	const struct rtcp_limit *line = &d->candidates.line;

	if (!d->detected || pressed || line->rate_bytes_per_s >= d->rate_bytes_per_s) {
		/* One loss is little evidence: it lowers the rate by the tolerance at most. */
		__u64 least_bytes_per_s = rtcp_share(d->rate_bytes_per_s, RTCP_PPM - o->tolerance_ratio_ppm);

		d->bucket_bytes = rtcp_max(d->earlier_bucket_bytes, rtcp_known_bucket_bytes(d));
		d->rate_bytes_per_s = rtcp_max(line->rate_bytes_per_s, least_bytes_per_s);
	}
	d->highest_bytes_per_s = rtcp_max(d->highest_bytes_per_s,
					  rtcp_share(d->transfer.before_bytes_per_s, o->reduction_ratio_ppm));
	if (!d->detected) {
		d->detected = d->limited = 1;
		d->detected_at_us = now->time_us;
		d->tokens = (struct rtcp_tokens){rtcp_gap_ubytes(d, now), now->time_us};
		d->offered = (struct rtcp_tokens){0, now->time_us};
		d->witness.level_ubytes =
			rtcp_min(rtcp_share(d->bucket_bytes, o->excess_buckets_ppm), RTCP_MOST) * RTCP_PPM;
		d->witness.at_us = now->time_us;
	} else if (d->rate_bytes_per_s > d->highest_bytes_per_s) {
		rtcp_end(d, RTCP_END_RATE, now->time_us);
		return;
	}
	if (!rtcp_same(o, d->rate_bytes_per_s, d->told_bytes_per_s)) {
		d->changes++;
		d->told_bytes_per_s = d->rate_bytes_per_s;
	}
}

/* Whether the estimation has begun, and has found nothing yet. */
static inline int rtcp_is_undecided(const struct rtcp_detector *d)
{
	return d->transfer.triggered && !d->detected;
}

static inline void rtcp_detector_init(struct rtcp_detector *d, __u32 mss_bytes)
{
	__builtin_memset(d, 0, sizeof(*d));
	d->mss_bytes = mss_bytes;
}

/*
 * Whether the transfer before goes on: what the estimate has seen counts on, and what the bucket has gained meanwhile.
 * A full bucket gains no more; whether it is one is asked of twice the rate, as the estimate may still be too low.
 */
static inline int rtcp_goes_on(const struct rtcp_detector *d, const struct rtcp_progress *now)
{
	__u64 idle_us = rtcp_since(now->time_us, d->last.time_us);
	__u64 gained_ubytes = rtcp_brings(d->candidates.line.rate_bytes_per_s, idle_us);

	return d->transfer.triggered && !d->transfer.detected &&
	       rtcp_gap_ubytes(d, now) / RTCP_PPM + gained_ubytes / RTCP_PPM < rtcp_known_bucket_bytes(d);
}

/* Begins a transfer, unless packets were marked lost since the last ACK: then it is a retransmission. */
static inline void rtcp_detector_start(struct rtcp_detector *d, const struct rtcp_options *o,
				       const struct rtcp_progress *now)
{
	struct rtcp_transfer *t = &d->transfer;

	if (d->started && now->lost_pkts > d->last.lost_pkts)
		return;
	if (!d->started || rtcp_since(now->time_us, d->last.time_us) > RTCP_SERIES_US) {
		d->series_us = now->time_us;
		d->series_pkts = now->delivered_pkts;
	}
	if (d->started && rtcp_goes_on(d, now)) {
		d->last = rtcp_mark_of(now);
		t->carried = 1;
		t->tested = 0; /* there may be more in the bucket by now than the estimate says */
		return;
	}
	t->origin = t->counted = t->before = d->last = rtcp_mark_of(now);
	t->counting = t->triggered = t->steady_known = t->tested = t->detected = t->carried = 0;
	d->started = 1;
	d->earlier_bucket_bytes = d->bucket_bytes;
	d->witness.level_ubytes =
		rtcp_min(rtcp_share(d->bucket_bytes, o->excess_buckets_anew_ppm), RTCP_MOST) * RTCP_PPM;
	d->witness.at_us = now->time_us;
}

/* Takes an ACK in. One that comes before any transfer begins one. */
static inline void rtcp_detector_ack(struct rtcp_detector *d, const struct rtcp_options *o,
				     const struct rtcp_progress *now)
{
	struct rtcp_mark last;
	int pressed = 0;

	if (!d->started)
		rtcp_detector_start(d, o, now);
	last = d->last;
	d->last = rtcp_mark_of(now);
	d->loses = now->lost_pkts > last.lost_pkts;
	if (d->undetected)
		return;
	rtcp_transfer_ack(d, o, now);
	if (d->limited) {
		pressed = rtcp_pressed(d, now, &last);
		rtcp_follow(d, o, now, &last);
	}
	if (d->transfer.detected && !d->undetected)
		rtcp_adopt(d, o, now, pressed);
}

#endif
