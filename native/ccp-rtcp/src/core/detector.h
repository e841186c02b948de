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
