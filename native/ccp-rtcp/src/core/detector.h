/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * R-TCP's detector: is a client limited by a token bucket, and by which one?
 *
 * rtcp_detector_init(d, mss_bytes);
 * rtcp_detector_start(d, o, &now);	a transfer begins: data is sent after nothing was in flight
 * rtcp_detector_ack(d, o, &now);		an ACK
 * if (d->limited)
 *	... d->bucket_bytes, d->rate_bytes_per_s, rtcp_tokens_bytes(d, now.time_us)
 *
 * Each transfer is evaluated separately, because tokens accumulate while a flow is idle. A transfer whose losses have
 * started the estimation is evaluated together with those that follow before the bucket can be full again. The result holds
 * for the client: the largest bucket of all limited transfers, the rate of the latest. It ends permanently when data gets
 * through too fast.
 *
 * In a transfer:
 *
 * WAITING --- first loss --> COUNTING --- more than beta lost within alpha min-RTTs --> ESTIMATING
 *    ^--------------------------'  otherwise
 *
 * Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI 2026, sections 4
 * and 5.3. Choices that the paper leaves open:
 *
 * - "ACK h, the highest before detection is triggered" (equation 6) is the last ACK before heavy loss: the last one, in the
 *   window or before it, up to which at most beta were lost. The triggering ACK would be later by alpha min-RTTs.
 * - Losses and deliveries are counted from zero in each window (footnote 1), from the ACK before its first loss.
 * - A window with heavy loss from the first data of the transfer on cannot trigger: it has no h.
 * - Only an estimate that its own transfer has confirmed counts for the client. Early estimates of later transfers are far
 *   too high, and would end every limit at the next burst.
 * - A transmission with nothing in flight begins a transfer, unless packets were marked lost since the last ACK: then it is a
 *   retransmission at the tail of the current one.
 * - A transfer of more than 2 GB or 35 minutes is split.
 *
 * Deviations of a transfer's rules, with reasons:
 *
 * - A(t) is what was delivered, including selective acknowledgements, not the cumulative ACK, because it is what has passed
 *   the bucket. The cumulative ACK does not move for seconds while a retransmission is dropped repeatedly at the limit;
 *   meanwhile the estimate is a rate near 0, or none.
 * - The rate and the bucket may change within the convergence window: both are of the line between two candidates, which
 *   moves a little with every ACK. In the paper the best candidate must stay the same. Over time larger ones become the best,
 *   although the limit is unchanged. The rate may change by a tolerance, plus two packets over the window: if an RTT holds
 *   less than one packet, ACKs a packet early or late exceed the tolerance.
 * - At the end of the window deliveries must be at the line, no further below it than the distance of candidate sizes, and
 *   must have grown at its rate since the window began, within a tenth. "A(t) should converge to C(t)", but an estimate also
 *   stays the same while a flow falls behind it for other reasons. Until then the window is extended: a flow that waits for a
 *   timeout of 20 min-RTTs is below the line meanwhile, and reaches it again when it has used the bucket's gain. At least
 *   eight packets are delivered in it; 96 in series of transfers, whose estimate has more chances to be right for a while.
 * - The window lasts until a loss in it: a flow without losses may not have reached the limit, and its estimate is too low.
 *
 * Deviations of the rules for the client:
 *
 * - A transfer that begins while an estimate awaits its verdict does not reset it (section 4.4 does), unless the bucket would
 *   be full again by that estimate, at twice its rate. Until then deliveries, including idle periods, are at most B + R t. So
 *   several short transfers are evaluated together, none of which lasts long enough alone.
 * - B also includes what went through since a series of transfers began, each less than a second after the previous one,
 *   minus the refill meanwhile. The evaluated transfer found the bucket nearly empty: its own estimate is what earlier ones
 *   had left in it, and would cap each later one from its start.
 * - The rate falls only if packets are lost while nearly that rate is sent, 0.9 of it over 10 min-RTTs. A flow that sends
 *   less, or is kept a little below the limit, gives no evidence of a lower one: its estimate would fall, then the bound, then
 *   the estimate again. A loss lowers it by the tolerance at most.
 * - The end of a limit is found in two ways. The paper's: the estimated rate is not an abrupt reduction any more. As a mean
 *   since the transfer began, it reacts the more slowly the longer the limit has existed. Added here: more was delivered since
 *   than another bucket could have let through, one of the estimated size, refilled at theta R_h, the highest rate that would
 *   still be an abrupt reduction, or at twice the estimated rate. In a transfer not itself found limited it is five times the
 *   size: the estimate is the bucket's level when another transfer began, which may have been low.
 */
#ifndef RTCP_DETECTOR_H
#define RTCP_DETECTOR_H

#include "candidates.h"

/* --- a transfer (sections 4.1 and 4.3) ------------------------------------------------------------------------ */

static inline struct rtcp_mark rtcp_mark_of(const struct rtcp_progress *now)
{
	return (struct rtcp_mark){now->time_us, now->delivered_pkts, now->lost_pkts};
}

static inline int rtcp_longer(__u32 since_us, const struct rtcp_progress *now, __u32 min_rtts_ppm)
{
	return rtcp_moved(now->time_us, since_us) * RTCP_PPM > (__u64)min_rtts_ppm * now->min_rtt_us;
}

/* Time since the transfer began. */
static inline __u32 rtcp_transfer_us(const struct rtcp_detector *d, __u64 now_us)
{
	return rtcp_moved(now_us, d->transfer.origin_us);
}

static inline __u32 rtcp_transfer_bytes(const struct rtcp_detector *d, __u32 now_pkts)
{
	return rtcp_bytes(d, rtcp_moved(now_pkts, d->transfer.origin_pkts));
}

/* Distance of the line above the deliveries [ubytes]: the bucket's remaining level (equation 18). */
static inline __u64 rtcp_gap_ubytes(const struct rtcp_detector *d, const struct rtcp_progress *now)
{
	const struct rtcp_limit *line = &d->candidates.line;
	__u64 come_ubytes = rtcp_brings(line->rate_bytes_per_s, rtcp_transfer_us(d, now->time_us));

	return rtcp_above(line->bucket_bytes * RTCP_PPM + come_ubytes,
			  rtcp_transfer_bytes(d, now->delivered_pkts) * RTCP_PPM);
}

static inline void rtcp_trigger(struct rtcp_detector *d, const struct rtcp_options *o)
{
	struct rtcp_transfer *t = &d->transfer;
	__u32 delivered_bytes = rtcp_transfer_bytes(d, t->before_pkts);
	__u32 t_us = rtcp_transfer_us(d, t->before_us);

	if (!delivered_bytes || t_us < RTCP_MIN_US)
		return;
	t->triggered = 1;
	t->before_bytes_per_s = rtcp_min(delivered_bytes * RTCP_PPM / t_us, RTCP_MAX_BYTES_PER_S);
	rtcp_candidates_init(&d->candidates, o, delivered_bytes, t_us);
}

static inline void rtcp_count_losses(struct rtcp_detector *d, const struct rtcp_options *o,
				     const struct rtcp_progress *now)
{
	struct rtcp_transfer *t = &d->transfer;
	__u64 lost_pkts = rtcp_moved(now->lost_pkts, t->window.lost_pkts), delivered_pkts;
	int heavy;

	if (!t->counting) {
		if (!lost_pkts) {
			t->window = rtcp_mark_of(now);
			return;
		}
		t->counting = 1;
		t->counting_since_us = now->time_us;
		t->before_us = t->window.time_us;
		t->before_pkts = t->window.delivered_pkts;
	}
	delivered_pkts = rtcp_moved(now->delivered_pkts, t->window.delivered_pkts);
	heavy = lost_pkts * RTCP_PPM > o->loss_ratio_ppm * (delivered_pkts + lost_pkts);
	if (!heavy) {
		t->before_us = now->time_us;
		t->before_pkts = now->delivered_pkts;
	}
	if (rtcp_longer(t->counting_since_us, now, o->loss_window_min_rtts_ppm)) {
		if (heavy)
			rtcp_trigger(d, o);
		t->counting = 0;
		t->window = rtcp_mark_of(now);
	}
}

/* Whether a rate is unchanged within the tolerance. */
static inline int rtcp_same(const struct rtcp_options *o, __u64 rate_bytes_per_s, __u64 before_bytes_per_s)
{
	__u64 tolerance_bytes_per_s = rtcp_share(before_bytes_per_s, o->tolerance_ratio_ppm);

	return rate_bytes_per_s <= before_bytes_per_s + tolerance_bytes_per_s &&
	       rate_bytes_per_s + tolerance_bytes_per_s >= before_bytes_per_s;
}

/* Whether the line's rate is still that of the window: each end of the window may be a packet early or late. */
static inline int rtcp_steady(const struct rtcp_detector *d, const struct rtcp_options *o, __u64 now_us)
{
	const struct rtcp_transfer *t = &d->transfer;
	__u64 rate_bytes_per_s = d->candidates.line.rate_bytes_per_s;
	__u64 slack_bytes_per_s = RTCP_MAX_BYTES_PER_S;
	__u32 window_us = rtcp_moved(now_us, t->window.time_us);

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
	const struct rtcp_mark *since = &d->transfer.window;
	__u64 tenth_ubytes =
		rtcp_brings(d->candidates.line.rate_bytes_per_s, rtcp_moved(now->time_us, since->time_us)) /
		10;
	__u64 delivered_ubytes =
		rtcp_bytes(d, rtcp_moved(now->delivered_pkts, since->delivered_pkts)) * RTCP_PPM;

	return delivered_ubytes > tenth_ubytes * 9 &&
	       delivered_ubytes <= tenth_ubytes * 11 + rtcp_near_ubytes(d);
}

/* Whether a convergence window has enough data. */
static inline int rtcp_is_over(const struct rtcp_detector *d, const struct rtcp_options *o,
			       const struct rtcp_progress *now)
{
	const struct rtcp_transfer *t = &d->transfer;
	__u32 min_pkts = t->carried ? RTCP_CARRIED_PKTS : RTCP_STEADY_PKTS;

	return rtcp_longer(t->window.time_us, now, o->convergence_min_rtts_ppm) &&
	       rtcp_moved(now->delivered_pkts, t->window.delivered_pkts) >= min_pkts;
}

/* Begins a convergence window, if deliveries are at the line. */
static inline void rtcp_watch(struct rtcp_detector *d, const struct rtcp_progress *now)
{
	struct rtcp_transfer *t = &d->transfer;

	t->steady_known = rtcp_gap_ubytes(d, now) <= rtcp_near_ubytes(d);
	t->window = rtcp_mark_of(now);
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
	} else if (rtcp_moved(now->lost_pkts, t->window.lost_pkts)) {
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
	__u32 t_us = rtcp_transfer_us(d, now->time_us);

	if (!t->triggered)
		rtcp_count_losses(d, o, now);
	if (!t->triggered || t_us < RTCP_MIN_US)
		return;
	rtcp_candidates_update(&d->candidates, o, rtcp_transfer_bytes(d, now->delivered_pkts), t_us);
	if (!t->detected)
		rtcp_classify(d, o, now);
}

/* --- the client ----------------------------------------------------------------------------------------------- */

static inline void rtcp_end(struct rtcp_detector *d, enum rtcp_end how)
{
	d->limited = 0;
	d->undetected = how;
	d->changes++;
}

/* Changes since the detector's last input. */
struct rtcp_news {
	__u64 past_us;
	__u32 delivered_bytes;
	__u32 lost_bytes;
};

static inline struct rtcp_news rtcp_news(const struct rtcp_detector *d, const struct rtcp_progress *now)
{
	return (struct rtcp_news){
		.past_us = rtcp_above(now->time_us, rtcp_last_us(d)),
		.delivered_bytes = rtcp_bytes(d, rtcp_moved(now->delivered_pkts, d->last.delivered_pkts)),
		.lost_bytes = rtcp_bytes(d, rtcp_moved(now->lost_pkts, d->last.lost_pkts)),
	};
}

static inline __u32 rtcp_offered_rate(const struct rtcp_detector *d)
{
	return d->rate_bytes_per_s / 10 * 9;
}

/* Refill rate of the bucket whose overdraft shows that the limit was lifted. */
static inline __u32 rtcp_excess_rate(const struct rtcp_detector *d, const struct rtcp_options *o)
{
	__u64 rate_bytes_per_s =
		rtcp_max(d->highest_bytes_per_s, rtcp_share(d->rate_bytes_per_s, o->excess_rates_ppm));

	return rtcp_min(rate_bytes_per_s, RTCP_MAX_BYTES_PER_S);
}

static inline __u64 rtcp_excess_bytes(const struct rtcp_detector *d, const struct rtcp_options *o)
{
	return rtcp_share(d->bucket_bytes,
			  d->transfer.detected ? o->excess_buckets_ppm : o->excess_buckets_again_ppm);
}

/* Whether losses occur while nearly R is sent: the limit may be lower. */
static inline int rtcp_pressed(struct rtcp_detector *d, const struct rtcp_progress *now,
			       const struct rtcp_news *news)
{
	__u64 max_bytes = rtcp_brings(d->rate_bytes_per_s, 10ULL * now->min_rtt_us) / RTCP_PPM;

	return !rtcp_take(&d->offered_ubytes, news->past_us, (__u64)news->delivered_bytes + news->lost_bytes,
			  max_bytes, rtcp_offered_rate(d)) &&
	       d->loses;
}

/* Updates the tokens, and checks whether the limit can still exist. */
static inline void rtcp_follow(struct rtcp_detector *d, const struct rtcp_options *o,
			       const struct rtcp_news *news)
{
	rtcp_take(&d->tokens_ubytes, news->past_us, news->delivered_bytes, d->bucket_bytes,
		  d->rate_bytes_per_s);
	if (!rtcp_take(&d->witness_ubytes, news->past_us, news->delivered_bytes, rtcp_excess_bytes(d, o),
		       rtcp_excess_rate(d, o)))
		rtcp_end(d, RTCP_END_BYTES);
}

/* Refills the buckets of a limited client, without a bound yet: the next ACK applies it. */
static inline void rtcp_refill(struct rtcp_detector *d, const struct rtcp_options *o, __u64 past_us)
{
	if (!d->limited)
		return;
	d->tokens_ubytes =
		rtcp_min(d->tokens_ubytes + rtcp_brings(d->rate_bytes_per_s, past_us), RTCP_MAX_UBYTES);
	d->offered_ubytes =
		rtcp_min(d->offered_ubytes + rtcp_brings(rtcp_offered_rate(d), past_us), RTCP_MAX_UBYTES);
	d->witness_ubytes =
		rtcp_min(d->witness_ubytes + rtcp_brings(rtcp_excess_rate(d, o), past_us), RTCP_MAX_UBYTES);
}

/*
 * The bucket, as far as known: the line's, plus its use since the series of transfers began, of which this one found it
 * nearly empty: what went through since then, minus the refill meanwhile.
 */
static inline __u32 rtcp_known_bucket_bytes(const struct rtcp_detector *d)
{
	const struct rtcp_limit *line = &d->candidates.line;
	__u64 come_ubytes = rtcp_brings(line->rate_bytes_per_s, rtcp_moved(d->last.time_us, d->series_us));
	__u32 through_bytes = rtcp_bytes(d, rtcp_moved(d->last.delivered_pkts, d->series_pkts));

	return rtcp_max(line->bucket_bytes, rtcp_above(through_bytes, come_ubytes / RTCP_PPM));
}

/* Applies the estimate of a limited transfer to the client; a lower rate only if the client is pressed. */
static inline void rtcp_adopt(struct rtcp_detector *d, const struct rtcp_options *o,
			      const struct rtcp_progress *now, int pressed)
{
	const struct rtcp_limit *line = &d->candidates.line;

	if (!d->detected || pressed || line->rate_bytes_per_s >= d->rate_bytes_per_s) {
		/* One loss is weak evidence: it lowers the rate by the tolerance at most. */
		__u64 min_bytes_per_s = rtcp_share(d->rate_bytes_per_s, RTCP_PPM - o->tolerance_ratio_ppm);

		d->bucket_bytes = rtcp_max(d->earlier_bucket_bytes, rtcp_known_bucket_bytes(d));
		d->rate_bytes_per_s = rtcp_max(line->rate_bytes_per_s, min_bytes_per_s);
	}
	d->highest_bytes_per_s = rtcp_max(d->highest_bytes_per_s,
					  rtcp_share(d->transfer.before_bytes_per_s, o->reduction_ratio_ppm));
	if (!d->detected) {
		d->detected = d->limited = 1;
		d->tokens_ubytes = rtcp_gap_ubytes(d, now);
		d->offered_ubytes = 0;
		d->witness_ubytes = rtcp_excess_bytes(d, o) * RTCP_PPM;
	} else if (d->rate_bytes_per_s > d->highest_bytes_per_s) {
		rtcp_end(d, RTCP_END_RATE);
		return;
	}
	if (!rtcp_same(o, d->rate_bytes_per_s, d->reported_bytes_per_s)) {
		d->changes++;
		d->reported_bytes_per_s = d->rate_bytes_per_s;
	}
}

/* Whether the estimation has begun without a result yet. */
static inline int rtcp_is_undecided(const struct rtcp_detector *d)
{
	return d->transfer.triggered && !d->detected;
}

static inline void rtcp_detector_init(struct rtcp_detector *d, __u32 mss_bytes)
{
	__builtin_memset(d, 0, sizeof(*d));
	d->mss_bytes = rtcp_min(mss_bytes, 65535);
}

/* Whether a transfer would exceed the range of time or byte counts. */
static inline int rtcp_is_too_long(const struct rtcp_detector *d, const struct rtcp_progress *now)
{
	__u32 pkts = rtcp_moved(now->delivered_pkts, d->transfer.origin_pkts);

	return rtcp_above(now->time_us, d->transfer.origin_us) > RTCP_MAX ||
	       (__u64)pkts * d->mss_bytes > RTCP_MAX;
}

/* Whether the transfer may use tokens that earlier ones did not have: it is late, or the series has lasted too long. */
static inline int rtcp_begins_a_series(const struct rtcp_detector *d, const struct rtcp_progress *now,
				       const struct rtcp_news *news)
{
	__u64 t_us = news->past_us + rtcp_moved(d->last.time_us, d->series_us);
	__u64 pkts = rtcp_moved(now->delivered_pkts, d->last.delivered_pkts);

	pkts += rtcp_moved(d->last.delivered_pkts, d->series_pkts);
	return news->past_us > RTCP_SERIES_US || t_us > RTCP_MAX || pkts * d->mss_bytes > RTCP_MAX;
}

/*
 * Whether the previous transfer continues: its estimate is kept, with the bucket's gain meanwhile. A full bucket gains no
 * more; that is decided at twice the rate, because the estimate may still be too low.
 */
static inline int rtcp_goes_on(const struct rtcp_detector *d, const struct rtcp_progress *now, __u64 idle_us,
			       __u32 known_bytes)
{
	__u64 gained_ubytes = rtcp_brings(d->candidates.line.rate_bytes_per_s, idle_us);

	return d->transfer.triggered && !d->transfer.detected && !rtcp_is_too_long(d, now) &&
	       rtcp_gap_ubytes(d, now) / RTCP_PPM + gained_ubytes / RTCP_PPM < known_bytes;
}

static inline void rtcp_begin_series(struct rtcp_detector *d, const struct rtcp_progress *now)
{
	d->series_us = now->time_us;
	d->series_pkts = now->delivered_pkts;
}

static inline void rtcp_begin_transfer(struct rtcp_detector *d, const struct rtcp_options *o,
				       const struct rtcp_progress *now)
{
	struct rtcp_transfer *t = &d->transfer;

	t->origin_us = now->time_us;
	t->origin_pkts = now->delivered_pkts;
	t->window = d->last = rtcp_mark_of(now);
	t->counting = t->triggered = t->steady_known = t->tested = t->detected = t->carried = 0;
	d->started = 1;
	d->earlier_bucket_bytes = d->bucket_bytes;
	d->witness_ubytes = rtcp_excess_bytes(d, o) * RTCP_PPM;
}

/* Begins a transfer, unless packets were marked lost since the last ACK: then it is a retransmission. */
static inline void rtcp_detector_start(struct rtcp_detector *d, const struct rtcp_options *o,
				       const struct rtcp_progress *now)
{
	struct rtcp_transfer *t = &d->transfer;
	struct rtcp_news news = rtcp_news(d, now);
	__u32 known_bytes = d->candidates.line.bucket_bytes;

	if (d->started) {
		if (rtcp_moved(now->lost_pkts, d->last.lost_pkts))
			return;
		rtcp_refill(d, o, news.past_us);
	}
	if (!d->started || rtcp_begins_a_series(d, now, &news))
		rtcp_begin_series(d, now);
	else
		known_bytes = rtcp_known_bucket_bytes(d);
	if (d->started && rtcp_goes_on(d, now, news.past_us, known_bytes)) {
		d->last = rtcp_mark_of(now);
		t->carried = 1;
		t->tested = 0; /* the bucket may now hold more than estimated */
		return;
	}
	rtcp_begin_transfer(d, o, now);
}

/* Handles an ACK. An ACK before any transfer begins one. */
static inline void rtcp_detector_ack(struct rtcp_detector *d, const struct rtcp_options *o,
				     const struct rtcp_progress *now)
{
	struct rtcp_news news;
	int pressed = 0;

	if (!d->started)
		rtcp_detector_start(d, o, now);
	news = rtcp_news(d, now);
	d->loses = rtcp_moved(now->lost_pkts, d->last.lost_pkts) != 0;
	if (rtcp_is_too_long(d, now)) {
		rtcp_begin_series(d, now);
		rtcp_begin_transfer(d, o, now);
	}
	d->last = rtcp_mark_of(now);
	if (d->undetected)
		return;
	rtcp_transfer_ack(d, o, now);
	if (d->limited) {
		pressed = rtcp_pressed(d, now, &news);
		rtcp_follow(d, o, &news);
	}
	if (d->transfer.detected && !d->undetected)
		rtcp_adopt(d, o, now, pressed);
}

#endif
