/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * What R-TCP's detector computes with: numbers that do not overflow, token buckets, and the candidates for the one that
 * limits a client. Bit by bit as exact.py, tokens.py and candidates.py of ccp_algs/rtcp have them, with their reasons.
 */
#ifndef RTCP_CANDIDATES_H
#define RTCP_CANDIDATES_H

#include "types.h"

#define RTCP_MOST_UBYTES ((1ULL << 63) - 1)

static inline __u64 rtcp_min(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static inline __u64 rtcp_max(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* What a counter or a clock has moved, up to RTCP_MOST; 0 if it has gone back. */
static inline __u64 rtcp_since(__u64 now, __u64 then)
{
	return now > then ? rtcp_min(now - then, RTCP_MOST) : 0;
}

/* A share of an amount, rounded down. */
static inline __u64 rtcp_share(__u64 amount, __u32 ppm)
{
	return amount / RTCP_PPM * ppm + amount % RTCP_PPM * ppm / RTCP_PPM;
}

/* What a rate brings in a time [ubytes], less than 2^63. */
static inline __u64 rtcp_brings(__u64 rate_bytes_per_s, __u64 t_us)
{
	if (!t_us)
		return 0;
	return rtcp_min(rate_bytes_per_s, RTCP_MOST_UBYTES / t_us) * t_us;
}

/* The same of packets, few enough to count with. */
static inline __u64 rtcp_pkts(__u64 now_pkts, __u64 then_pkts)
{
	return rtcp_min(rtcp_since(now_pkts, then_pkts), 1ULL << 32);
}

static inline __u64 rtcp_bytes(const struct rtcp_detector *d, __u64 now_pkts, __u64 then_pkts)
{
	return rtcp_min(rtcp_pkts(now_pkts, then_pkts) * d->mss_bytes, RTCP_MOST);
}

/* --- token buckets -------------------------------------------------------------------------------------------- */

/* What is in a bucket at a time, if nothing is taken until then [ubytes]. */
static inline __u64 rtcp_tokens_at(const struct rtcp_tokens *tokens, __u64 now_us,
				   const struct rtcp_limit *limit)
{
	__u64 gained_ubytes = rtcp_brings(limit->rate_bytes_per_s, rtcp_since(now_us, tokens->at_us));

	return rtcp_min(tokens->level_ubytes + gained_ubytes, limit->bucket_bytes * RTCP_PPM);
}

/* Refills a bucket up to a time, takes from it, and returns whether there was enough. */
static inline int rtcp_tokens_take(struct rtcp_tokens *tokens, __u64 now_us, __u64 taken_bytes,
				   const struct rtcp_limit *limit)
{
	__u64 level_ubytes = rtcp_tokens_at(tokens, now_us, limit);
	__u64 taken_ubytes = taken_bytes * RTCP_PPM;
	int enough = taken_ubytes <= level_ubytes;

	tokens->at_us = now_us;
	tokens->level_ubytes = enough ? level_ubytes - taken_ubytes : 0;
	return enough;
}

/* Estimated level of the client's token bucket [bytes]; 0 without a limit. */
static inline __u64 rtcp_tokens_bytes(const struct rtcp_detector *d, __u64 now_us)
{
	struct rtcp_limit limit = {d->bucket_bytes, d->rate_bytes_per_s};

	return d->limited ? rtcp_tokens_at(&d->tokens, now_us, &limit) / RTCP_PPM : 0;
}

/* --- candidates (section 4.2) --------------------------------------------------------------------------------- */

/* The lowest rate at which a bucket has let so much through, rounded up. */
static inline __u64 rtcp_lowest_rate(__u64 delivered_bytes, __u64 bucket_bytes, __u64 t_us)
{
	__u64 ubytes = rtcp_since(delivered_bytes, bucket_bytes) * RTCP_PPM;

	return ubytes / t_us + !!(ubytes % t_us);
}

/*
 * How many candidates there are: read anew at each place. Verifiers before 6.4 keep what one comparison has said of a
 * number that they have seen, follow each number of candidates through all that comes after it, and give up.
 */
static inline __u32 rtcp_count(const struct rtcp_options *o)
{
	return *(const volatile __u32 *)&o->n_candidates;
}

/* Bucket of a candidate, by its place. */
static inline __u64 rtcp_bucket(const struct rtcp_candidates *c, __u32 n, __u32 j)
{
	return !j && c->from_zero ? 0 : c->largest_bytes - (n - 1 - j) * c->step_bytes;
}

/* Chooses the best candidate, and returns whether it is the largest. */
static inline int rtcp_select(struct rtcp_candidates *c, const struct rtcp_options *o, __u64 t_us)
{
	__u64 most_bytes_per_s = RTCP_MOST_UBYTES / t_us, lowest_ubytes = ~0ULL;

	for (__u32 k = 0; k < RTCP_MAX_CANDIDATES; k++) {
		__u32 j = RTCP_MAX_CANDIDATES - 1 - k;
		__u64 rate_bytes_per_s = c->all[j].rate_bytes_per_s, bucket_bytes, ubytes;

		if (j >= rtcp_count(o))
			continue;
		bucket_bytes = rtcp_bucket(c, rtcp_count(o), j);
		ubytes = bucket_bytes * RTCP_PPM + rtcp_min(rate_bytes_per_s, most_bytes_per_s) * t_us / 2;
		/* Theorem 2: no smaller one is better either. */
		if (ubytes >= lowest_ubytes)
			break;
		lowest_ubytes = ubytes;
		c->chosen = j;
		c->best = (struct rtcp_limit){bucket_bytes, rate_bytes_per_s};
	}
	return c->chosen == rtcp_count(o) - 1;
}

/* The line through the ACKs that the best candidate's line and its neighbour's touch, one before half the time, one
 * after it. */
static inline void rtcp_draw_line(struct rtcp_candidates *c, const struct rtcp_options *o, __u64 t_us)
{
	/* Read back, so that the verifier does not look at every place by itself. */
	__u32 low = *(volatile __u32 *)&c->chosen;
	const struct rtcp_candidate *before, *after;
	__u64 rate_bytes_per_s, come_ubytes;

	c->line = c->best;
	if (low >= RTCP_MAX_CANDIDATES)
		return;
	if (c->all[low].touch_us * 2 > t_us)
		low--;
	if (low >= RTCP_MAX_CANDIDATES - 1 || low + 1 >= rtcp_count(o))
		return;
	before = &c->all[low];
	after = before + 1;
	if (after->touch_us <= before->touch_us)
		return;
	rate_bytes_per_s = rtcp_since(after->touch_bytes, before->touch_bytes) * RTCP_PPM /
			   (after->touch_us - before->touch_us);
	rate_bytes_per_s = rtcp_max(rate_bytes_per_s, after->rate_bytes_per_s);
	rate_bytes_per_s = rtcp_min(rate_bytes_per_s, before->rate_bytes_per_s);
	come_ubytes = rate_bytes_per_s * before->touch_us;
	c->line.rate_bytes_per_s = rate_bytes_per_s;
	c->line.bucket_bytes = 0;
	if (before->touch_bytes * RTCP_PPM > come_ubytes)
		c->line.bucket_bytes = (before->touch_bytes * RTCP_PPM - come_ubytes) / RTCP_PPM;
}

static inline struct rtcp_candidate rtcp_touching(__u64 bucket_bytes, __u64 delivered_bytes, __u64 t_us)
{
	return (struct rtcp_candidate){rtcp_lowest_rate(delivered_bytes, bucket_bytes, t_us), t_us,
				       delivered_bytes};
}

static inline void rtcp_candidates_init(struct rtcp_candidates *c, const struct rtcp_options *o,
					__u64 delivered_bytes, __u64 t_us)
{
	__u64 step_bytes = rtcp_share(delivered_bytes, o->reduction_ratio_ppm) / (rtcp_count(o) - 1);
	__u64 bucket_bytes = delivered_bytes;

	c->step_bytes = step_bytes;
	c->largest_bytes = delivered_bytes;
	c->from_zero = 1;
	/* From the largest, as rtcp_bucket has them: verifiers before 6.4 refuse how clang lays that out here. */
	for (__u32 k = 0; k < RTCP_MAX_CANDIDATES; k++) {
		__u32 j = RTCP_MAX_CANDIDATES - 1 - k;

		if (j >= rtcp_count(o))
			continue;
		c->all[j] = rtcp_touching(j ? bucket_bytes : 0, delivered_bytes, t_us);
		bucket_bytes -= step_bytes;
	}
	rtcp_select(c, o, t_us);
	rtcp_draw_line(c, o, t_us);
}

/* Adds a larger candidate: each takes the place of the one before it, and the smallest goes. */
static inline void rtcp_candidates_extend(struct rtcp_candidates *c, const struct rtcp_options *o,
					  __u64 delivered_bytes, __u64 t_us)
{
	struct rtcp_candidate held;

	c->largest_bytes += c->step_bytes;
	c->from_zero = 0;
	held = rtcp_touching(c->largest_bytes, delivered_bytes, t_us);
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
					  __u64 delivered_bytes, __u64 t_us)
{
	__u64 most_bytes_per_s = RTCP_MOST_UBYTES / t_us;

	for (__u32 j = 0; j < RTCP_MAX_CANDIDATES; j++) {
		__u64 bucket_bytes;

		if (j >= rtcp_count(o))
			break;
		bucket_bytes = rtcp_bucket(c, rtcp_count(o), j);
		if (rtcp_min(c->all[j].rate_bytes_per_s, most_bytes_per_s) * t_us <
		    rtcp_since(delivered_bytes, bucket_bytes) * RTCP_PPM)
			c->all[j] = rtcp_touching(bucket_bytes, delivered_bytes, t_us);
	}
	/* Both new lines go through this ACK, and there the smaller bucket wins: twice at most. */
	for (int i = 0; i < 2; i++) {
		if (!rtcp_select(c, o, t_us) || c->best.bucket_bytes >= delivered_bytes)
			break;
		rtcp_candidates_extend(c, o, delivered_bytes, t_us);
		rtcp_select(c, o, t_us);
	}
	rtcp_draw_line(c, o, t_us);
}

#endif
