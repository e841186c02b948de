/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * The arithmetic of R-TCP's detector: numbers that do not overflow, token buckets, and the candidates for the bucket that
 * limits a client.
 *
 * Integers replace fractions. Rates are whole bytes/s, levels of buckets millionths of a byte. Most numbers have 32 bits, so
 * that a client takes little memory; values that could grow further are bounded.
 *
 * The level of a token bucket is updated at each ACK and kept between 0 and the size, as in a real bucket; equation 20 of
 * the paper clamps only the result.
 *
 * Candidates are a few bucket sizes, each with its lowest rate. A bucket of size b refilled at rate r lets through at most
 * b + r t by time t (equation 3). For each size only the lowest rate is kept that no ACK so far contradicts, and no history.
 * The best candidate is the one whose line lies closest above what was delivered.
 *
 * Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI 2026, section
 * 4.2 and appendices D, E and F. Deviations, with reasons:
 *
 * - Two candidates are compared by the height of their lines at half the time, b + r t / 2. That is Theorem 1 (t < 2 p)
 *   multiplied out: it needs no division, and equal rates are not a special case.
 * - The range is extended only up to what has been delivered: a larger bucket would be a guess.
 * - The best of all lines, for any bucket, passes through the corners of the concave hull of the deliveries on either side
 *   of half the time: a steeper or flatter line is higher there. Each candidate's line touches a corner, and {B, R} is the
 *   line through two of these. A candidate's own rate is wrong by a fraction of a step over the time: by a quarter in the
 *   first seconds of a large bucket and a low rate.
 */
#ifndef RTCP_CANDIDATES_H
#define RTCP_CANDIDATES_H

#include "types.h"

#define RTCP_MAX_UBYTES ((1ULL << 63) - 1)

static inline __u64 rtcp_min(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static inline __u64 rtcp_max(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* The difference of two readings of a clock or counter, by their lower halves. */
static inline __u32 rtcp_moved(__u32 now, __u32 then)
{
	return now - then;
}

static inline __u64 rtcp_above(__u64 amount, __u64 level)
{
	return amount > level ? amount - level : 0;
}

/* A share of an amount, rounded down; the product must be less than 2^64. */
static inline __u64 rtcp_share(__u64 amount, __u32 ppm)
{
	return amount * ppm / RTCP_PPM;
}

/* What a rate yields in a time, up to RTCP_MAX [ubytes]: less than 2^63. */
static inline __u64 rtcp_brings(__u32 rate_bytes_per_s, __u64 t_us)
{
	return rate_bytes_per_s * rtcp_min(t_us, RTCP_MAX);
}

/* The bytes of `pkts` packets, up to RTCP_MAX. */
static inline __u32 rtcp_bytes(const struct rtcp_detector *d, __u64 pkts)
{
	return rtcp_min(pkts * d->mss_bytes, RTCP_MAX);
}

/* --- token buckets -------------------------------------------------------------------------------------------- */

/* The level of a bucket after a time in which nothing is taken [ubytes]. */
static inline __u64 rtcp_level_after(__u64 level_ubytes, __u64 t_us, __u64 bucket_bytes,
				     __u32 rate_bytes_per_s)
{
	return rtcp_min(level_ubytes + rtcp_brings(rate_bytes_per_s, t_us), bucket_bytes * RTCP_PPM);
}

/* Refills a bucket for a time, takes from it, and returns whether it had enough. */
static inline int rtcp_take(__u64 *level_ubytes, __u64 t_us, __u64 taken_bytes, __u64 bucket_bytes,
			    __u32 rate_bytes_per_s)
{
	__u64 ubytes = rtcp_level_after(*level_ubytes, t_us, bucket_bytes, rate_bytes_per_s);
	__u64 taken_ubytes = taken_bytes * RTCP_PPM;

	*level_ubytes = rtcp_above(ubytes, taken_ubytes);
	return taken_ubytes <= ubytes;
}

/* Time of the detector's last input. */
static inline __u64 rtcp_last_us(const struct rtcp_detector *d)
{
	return d->transfer.origin_us + rtcp_moved(d->last.time_us, d->transfer.origin_us);
}

/* Estimated level of the client's token bucket [bytes]; 0 without a limit. */
static inline __u32 rtcp_tokens_bytes(const struct rtcp_detector *d, __u64 now_us)
{
	if (!d->limited)
		return 0;
	return rtcp_level_after(d->tokens_ubytes, rtcp_above(now_us, rtcp_last_us(d)), d->bucket_bytes,
				d->rate_bytes_per_s) /
	       RTCP_PPM;
}

/* --- candidates (section 4.2) --------------------------------------------------------------------------------- */

/*
 * Number of candidates, read again at each use. Verifiers before 6.4 remember the result of a comparison, follow each number
 * of candidates through all later code, and give up.
 */
static inline __u32 rtcp_count(const struct rtcp_options *o)
{
	return *(const volatile __u32 *)&o->n_candidates;
}

/* Bucket of a candidate, by its index. */
static inline __u32 rtcp_bucket(const struct rtcp_candidates *c, __u32 n, __u32 j)
{
	return !j && c->from_zero ? 0 : c->largest_bytes - (n - 1 - j) * c->step_bytes;
}

/* The lowest rate at which a bucket has let a candidate's ACK through, rounded up. */
static inline __u32 rtcp_lowest_rate(const struct rtcp_candidate *one, __u32 bucket_bytes)
{
	__u64 ubytes = rtcp_above(one->touch_bytes, bucket_bytes) * RTCP_PPM;

	return one->touch_us ? rtcp_min((ubytes + one->touch_us - 1) / one->touch_us, RTCP_MAX_BYTES_PER_S)
			     : 0;
}

/* Whether an ACK contradicts a candidate's rate; divides only if the slope does. */
static inline int rtcp_contradicts(const struct rtcp_candidate *one, __u32 bucket_bytes,
				   __u32 delivered_bytes, __u32 t_us)
{
	__u64 above_bytes = rtcp_above(delivered_bytes, bucket_bytes);
	__u64 touch_bytes = rtcp_above(one->touch_bytes, bucket_bytes);

	if (rtcp_brings(RTCP_MAX_BYTES_PER_S, t_us) < above_bytes * RTCP_PPM)
		return 1;
	return touch_bytes * t_us < above_bytes * one->touch_us &&
	       rtcp_brings(rtcp_lowest_rate(one, bucket_bytes), t_us) < above_bytes * RTCP_PPM;
}

/* Makes the best candidate the line; returns whether it is the largest candidate. */
static inline int rtcp_select(struct rtcp_candidates *c, const struct rtcp_options *o, __u32 t_us)
{
	__u64 lowest_ubytes = ~0ULL;

	for (__u32 k = 0; k < RTCP_MAX_CANDIDATES; k++) {
		__u32 j = RTCP_MAX_CANDIDATES - 1 - k, bucket_bytes, rate_bytes_per_s;
		__u64 ubytes;

		if (j >= rtcp_count(o))
			continue;
		bucket_bytes = rtcp_bucket(c, rtcp_count(o), j);
		rate_bytes_per_s = rtcp_lowest_rate(&c->all[j], bucket_bytes);
		ubytes = bucket_bytes * RTCP_PPM + rtcp_brings(rate_bytes_per_s, t_us) / 2;
		/* Theorem 2: no smaller candidate is better either. */
		if (ubytes >= lowest_ubytes)
			break;
		lowest_ubytes = ubytes;
		c->chosen = j;
		c->line = (struct rtcp_limit){bucket_bytes, rate_bytes_per_s};
	}
	return c->chosen == rtcp_count(o) - 1;
}

/* The line through the ACKs that the lines of the best candidate and its neighbour touch, on either side of half the time. */
static inline void rtcp_draw_line(struct rtcp_candidates *c, const struct rtcp_options *o, __u32 t_us)
{
	/* Read back, so that the verifier does not examine each index separately. */
	__u32 low = *(volatile __u8 *)&c->chosen;
	const struct rtcp_candidate *before, *after;
	__u64 rate_bytes_per_s, come_ubytes;

	if (low >= RTCP_MAX_CANDIDATES)
		return;
	if (c->all[low].touch_us * 2ULL > t_us)
		low--;
	if (low >= RTCP_MAX_CANDIDATES - 1 || low + 1 >= rtcp_count(o))
		return;
	before = &c->all[low];
	after = before + 1;
	if (after->touch_us <= before->touch_us)
		return;
	rate_bytes_per_s = rtcp_above(after->touch_bytes, before->touch_bytes) * RTCP_PPM /
			   (after->touch_us - before->touch_us);
	rate_bytes_per_s =
		rtcp_max(rate_bytes_per_s, rtcp_lowest_rate(after, rtcp_bucket(c, rtcp_count(o), low + 1)));
	rate_bytes_per_s =
		rtcp_min(rate_bytes_per_s, rtcp_lowest_rate(before, rtcp_bucket(c, rtcp_count(o), low)));
	come_ubytes = rtcp_brings(rate_bytes_per_s, before->touch_us);
	c->line.rate_bytes_per_s = rate_bytes_per_s;
	c->line.bucket_bytes = rtcp_above(before->touch_bytes * RTCP_PPM, come_ubytes) / RTCP_PPM;
}

static inline void rtcp_candidates_init(struct rtcp_candidates *c, const struct rtcp_options *o,
					__u32 delivered_bytes, __u32 t_us)
{
	c->step_bytes = rtcp_share(delivered_bytes, o->reduction_ratio_ppm) / (rtcp_count(o) - 1);
	c->largest_bytes = delivered_bytes;
	c->from_zero = 1;
	for (__u32 j = 0; j < RTCP_MAX_CANDIDATES; j++)
		c->all[j] = (struct rtcp_candidate){t_us, delivered_bytes};
	rtcp_select(c, o, t_us);
	rtcp_draw_line(c, o, t_us);
}

/*
 * Adds a larger candidate: each moves down by one place, and the smallest is dropped. Earlier ACKs are not kept, so the new
 * line touches this ACK or the one that the previously largest candidate touches, whichever requires the higher rate.
 */
static inline void rtcp_candidates_extend(struct rtcp_candidates *c, const struct rtcp_options *o,
					  __u32 delivered_bytes, __u32 t_us)
{
	struct rtcp_candidate held = {t_us, delivered_bytes};
	__u32 largest = rtcp_count(o) - 1;

	c->largest_bytes += c->step_bytes;
	if (largest < RTCP_MAX_CANDIDATES &&
	    rtcp_above(c->all[largest].touch_bytes, c->largest_bytes) * t_us >=
		    rtcp_above(delivered_bytes, c->largest_bytes) * c->all[largest].touch_us)
		held = c->all[largest];
	c->from_zero = 0;
	for (__u32 k = 0; k < RTCP_MAX_CANDIDATES; k++) {
		__u32 j = RTCP_MAX_CANDIDATES - 1 - k;
		struct rtcp_candidate displaced = c->all[j];

		if (j >= rtcp_count(o))
			continue;
		c->all[j] = held;
		held = displaced;
	}
}

static inline void rtcp_candidates_update(struct rtcp_candidates *c, const struct rtcp_options *o,
					  __u32 delivered_bytes, __u32 t_us)
{
	for (__u32 j = 0; j < RTCP_MAX_CANDIDATES; j++) {
		if (j >= rtcp_count(o))
			break;
		if (rtcp_contradicts(&c->all[j], rtcp_bucket(c, rtcp_count(o), j), delivered_bytes, t_us))
			c->all[j] = (struct rtcp_candidate){t_us, delivered_bytes};
	}
	/* Both new lines pass through this ACK, where the smaller bucket wins: at most two steps. */
	for (int i = 0; i < 2; i++) {
		if (!rtcp_select(c, o, t_us) || c->line.bucket_bytes >= delivered_bytes)
			break;
		rtcp_candidates_extend(c, o, delivered_bytes, t_us);
		rtcp_select(c, o, t_us);
	}
	rtcp_draw_line(c, o, t_us);
}

#endif
