/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * R-TCP's detector: is a client limited by a token bucket, and by which?
 *
 *	rtcp_detector_init(d, mss_bytes);
 *	rtcp_detector_start(d, o, &now);	a transfer begins: data is sent, after nothing was in flight
 *	rtcp_detector_ack(d, o, &now);		an ACK
 *	if (d->limited)
 *		... d->bucket_bytes, d->rate_bytes_per_s, rtcp_tokens_bytes(d, now.time_us)
 *
 * Each transfer is judged for itself, because tokens gather while a flow idles; one whose losses have started the
 * estimation, together with those that follow before the bucket can be full again. What is found holds for the client: the
 * largest bucket of all limited transfers, the rate of the latest. It ends permanently when data gets through too fast.
 *
 * In a transfer:
 *
 *	WAITING --- first loss --> COUNTING --- more than beta lost within alpha min-RTTs --> ESTIMATING
 *	   ^--------------------------'  no more than that
 *
 * Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI 2026, sections 4
 * and 5.3. Where the paper leaves a choice:
 *
 * - "ACK h, the highest before detection is triggered" (equation 6) is the last one before the losses became heavy: the last
 *   of the window, or before it, up to which no more than beta were lost. The ACK that triggers would be later by alpha
 *   min-RTTs.
 * - Losses and deliveries are counted from zero in each window (footnote 1), from the ACK before its first loss.
 * - A window with heavy loss from the first data of the transfer on cannot trigger: it has no h.
 * - Only an estimate that its own transfer has confirmed counts for the client. Those of a later transfer's first moments are
 *   far too high, and would end every limit at the next burst.
 * - A transmission with nothing in flight begins a transfer, unless packets were marked lost since the last ACK: then it is
 *   a retransmission at the tail of the same one.
 * - A transfer of more than 2 GB or 35 minutes is cut in two.
 *
 * Deviations of a transfer's rules, with reasons:
 *
 * - A(t) is what was delivered, selective acknowledgements included, not the cumulative ACK. It is what has passed the
 *   bucket. The cumulative ACK stands still for seconds while a retransmission is dropped at the limit again and again:
 *   meanwhile the estimate is a rate near 0, or none.
 * - The rate may change within the convergence window, and the bucket with it: both are of the line between two candidates,
 *   which moves a little with every ACK. In the paper the best candidate has to stay the same one. As time goes by larger
 *   ones become the best, although the limit stays. It may change by a tolerance, and by two packets over the window: where
 *   an RTT holds less than one, ACKs a packet early or late are more than that.
 * - At the end of the window deliveries must be at the line, no further below it than the candidate sizes are from each
 *   other, and must have grown at its rate since the window began, within a tenth. "A(t) should converge to C(t)", but an
 *   estimate also stays the same while a flow falls behind it, for other reasons. Until they are, the window lasts: a flow
 *   that waits for a timeout of 20 min-RTTs is below the line meanwhile, and at it again when it has used up what the bucket
 *   gained. At least eight packets are delivered in it; 96, where transfers follow each other: their estimate has more
 *   chances to be right for a while.
 * - The window lasts until something is lost in it: a flow that loses nothing may not have reached the limit, and its
 *   estimate is too low then.
 *
 * Deviations of what holds for the client:
 *
 * - A transfer that begins while an estimate waits for its verdict does not reset it (section 4.4 does), unless the bucket
 *   would be full again by that estimate, at twice its rate. Until then what went through, idle times included, is at most
 *   B + R t. So several short transfers are judged together, of which none lasts long enough.
 * - B is also what went through since a series of transfers began, each less than a second after the other, minus what came
 *   in meanwhile. The transfer that is judged found the bucket nearly empty: its own estimate is what those before had left
 *   in it, and would have each later one capped from its start.
 * - The rate falls only when packets are lost while nearly that rate is sent, 0.9 of it over 10 min-RTTs. A flow that sends
 *   less than it may, or that is kept a little below the limit, shows nothing of a lower one. Its estimate would fall, the
 *   bound with it, and the estimate again. A loss lowers it by the tolerance at most.
 * - The end of a limit is found in two ways. The paper's: the estimated rate is no abrupt reduction any more. It is a mean
 *   since the transfer began, so it needs the longer, the longer the limit has been. Ours adds: more was delivered since
 *   than another bucket could have let through, one of the estimated size, refilled at theta R_h, the highest rate that would
 *   still be an abrupt reduction, or at twice the estimated rate. In a transfer not found limited itself it is five times
 *   the size: the estimate is what was in the bucket when another one began, which may have been little.
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

/* Since the transfer began. */
static inline __u32 rtcp_transfer_us(const struct rtcp_detector *d, __u64 now_us)
{
	return rtcp_moved(now_us, d->transfer.origin_us);
}

static inline __u32 rtcp_transfer_bytes(const struct rtcp_detector *d, __u32 now_pkts)
{
	return rtcp_bytes(d, rtcp_moved(now_pkts, d->transfer.origin_pkts));
}

/* The line above what was delivered [ubytes]: what is left in the bucket (equation 18). */
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

	if (!delivered_bytes || t_us < RTCP_LEAST_US)
		return;
	t->triggered = 1;
	t->before_bytes_per_s = rtcp_min(delivered_bytes * RTCP_PPM / t_us, RTCP_MOST_BYTES_PER_S);
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
	__u64 rate_bytes_per_s = d->candidates.line.rate_bytes_per_s;
	__u64 slack_bytes_per_s = RTCP_MOST_BYTES_PER_S;
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

/* Whether a convergence window has seen enough. */
static inline int rtcp_is_over(const struct rtcp_detector *d, const struct rtcp_options *o,
			       const struct rtcp_progress *now)
{
	const struct rtcp_transfer *t = &d->transfer;
	__u32 least_pkts = t->carried ? RTCP_CARRIED_PKTS : RTCP_STEADY_PKTS;

	return rtcp_longer(t->window.time_us, now, o->convergence_min_rtts_ppm) &&
	       rtcp_moved(now->delivered_pkts, t->window.delivered_pkts) >= least_pkts;
}

/* Begins one, where deliveries are at the line. */
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
	if (!t->triggered || t_us < RTCP_LEAST_US)
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

/* What has happened since the detector heard of the client last. */
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

/* Of the bucket whose overdraft shows that the limit is gone. */
static inline __u32 rtcp_excess_rate(const struct rtcp_detector *d, const struct rtcp_options *o)
{
	__u64 rate_bytes_per_s =
		rtcp_max(d->highest_bytes_per_s, rtcp_share(d->rate_bytes_per_s, o->excess_rates_ppm));

	return rtcp_min(rate_bytes_per_s, RTCP_MOST_BYTES_PER_S);
}

static inline __u64 rtcp_excess_bytes(const struct rtcp_detector *d, const struct rtcp_options *o)
{
	return rtcp_share(d->bucket_bytes,
			  d->transfer.detected ? o->excess_buckets_ppm : o->excess_buckets_anew_ppm);
}

/* Whether losses come while nearly R is sent: the limit may be lower. */
static inline int rtcp_pressed(struct rtcp_detector *d, const struct rtcp_progress *now,
			       const struct rtcp_news *news)
{
	__u64 most_bytes = rtcp_brings(d->rate_bytes_per_s, 10ULL * now->min_rtt_us) / RTCP_PPM;

	return !rtcp_take(&d->offered_ubytes, news->past_us, (__u64)news->delivered_bytes + news->lost_bytes,
			  most_bytes, rtcp_offered_rate(d)) &&
	       d->loses;
}

/* Follows the tokens, and looks whether the limit can still be there. */
static inline void rtcp_follow(struct rtcp_detector *d, const struct rtcp_options *o,
			       const struct rtcp_news *news)
{
	rtcp_take(&d->tokens_ubytes, news->past_us, news->delivered_bytes, d->bucket_bytes,
		  d->rate_bytes_per_s);
	if (!rtcp_take(&d->witness_ubytes, news->past_us, news->delivered_bytes, rtcp_excess_bytes(d, o),
		       rtcp_excess_rate(d, o)))
		rtcp_end(d, RTCP_END_BYTES);
}

/* The buckets of a limited client fill, as yet without a bound: the next ACK has it. */
static inline void rtcp_refill(struct rtcp_detector *d, const struct rtcp_options *o, __u64 past_us)
{
	if (!d->limited)
		return;
	d->tokens_ubytes =
		rtcp_min(d->tokens_ubytes + rtcp_brings(d->rate_bytes_per_s, past_us), RTCP_MOST_UBYTES);
	d->offered_ubytes =
		rtcp_min(d->offered_ubytes + rtcp_brings(rtcp_offered_rate(d), past_us), RTCP_MOST_UBYTES);
	d->witness_ubytes =
		rtcp_min(d->witness_ubytes + rtcp_brings(rtcp_excess_rate(d, o), past_us), RTCP_MOST_UBYTES);
}

/*
 * The bucket, as far as is known: the line's, and what was in it when a series of transfers began, of which this one found
 * it nearly empty: what went through since, but for what came in meanwhile.
 */
static inline __u32 rtcp_known_bucket_bytes(const struct rtcp_detector *d)
{
	const struct rtcp_limit *line = &d->candidates.line;
	__u64 come_ubytes = rtcp_brings(line->rate_bytes_per_s, rtcp_moved(d->last.time_us, d->series_us));
	__u32 through_bytes = rtcp_bytes(d, rtcp_moved(d->last.delivered_pkts, d->series_pkts));

	return rtcp_max(line->bucket_bytes, rtcp_above(through_bytes, come_ubytes / RTCP_PPM));
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
		d->tokens_ubytes = rtcp_gap_ubytes(d, now);
		d->offered_ubytes = 0;
		d->witness_ubytes = rtcp_excess_bytes(d, o) * RTCP_PPM;
	} else if (d->rate_bytes_per_s > d->highest_bytes_per_s) {
		rtcp_end(d, RTCP_END_RATE);
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
	d->mss_bytes = rtcp_min(mss_bytes, 65535);
}

/* Whether a transfer would be longer, or of more bytes, than can be counted. */
static inline int rtcp_is_too_long(const struct rtcp_detector *d, const struct rtcp_progress *now)
{
	__u32 pkts = rtcp_moved(now->delivered_pkts, d->transfer.origin_pkts);

	return rtcp_above(now->time_us, d->transfer.origin_us) > RTCP_MOST ||
	       (__u64)pkts * d->mss_bytes > RTCP_MOST;
}

/* Whether this transfer has tokens that those before did not have: it comes late, or they have been counted for too long. */
static inline int rtcp_begins_a_series(const struct rtcp_detector *d, const struct rtcp_progress *now,
				       const struct rtcp_news *news)
{
	__u64 t_us = news->past_us + rtcp_moved(d->last.time_us, d->series_us);
	__u64 pkts = rtcp_moved(now->delivered_pkts, d->last.delivered_pkts);

	pkts += rtcp_moved(d->last.delivered_pkts, d->series_pkts);
	return news->past_us > RTCP_SERIES_US || t_us > RTCP_MOST || pkts * d->mss_bytes > RTCP_MOST;
}

/*
 * Whether the transfer before goes on: what the estimate has seen counts on, and what the bucket has gained meanwhile.
 * A full bucket gains no more; whether it is one is asked of twice the rate, as the estimate may still be too low.
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
		t->tested = 0; /* there may be more in the bucket by now than the estimate says */
		return;
	}
	rtcp_begin_transfer(d, o, now);
}

/* Takes an ACK in. One that comes before any transfer begins one. */
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
