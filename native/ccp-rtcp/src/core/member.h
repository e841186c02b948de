/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * Decides whether a connection shares the bucket of its client's others, or belongs to another subscriber.
 *
 * Subscribers behind one address with random ports cannot be distinguished by their ends. But an empty bucket drops the
 * packets of any sender: if one connection loses much, and the others, which should have lost as great a share, lose nearly
 * nothing, they do not share a bucket.
 *
 * A round lasts 2 min-RTTs, or up to 8 while it is not significant. The connection is one side, all others of its client are
 * the other. If one lost at least 3 packets and a twentieth, the other should have lost that share of what it sent; fewer
 * than 4 packets do not count, nor do more than 16. What it should have lost adds to the doubt, and what it lost subtracts 4
 * times; 48 packets suffice. That is a cumulative sum test (Page, "Continuous Inspection Schemes", Biometrika 1954) of losses
 * as frequent as the others' against an eighth of that, for Poisson counts, with a bound because losses come in clusters.
 *
 * A round that took longer than 14 min-RTTs can only reduce doubt: a loss that shows in a timeout happened long before.
 */
#ifndef RTCP_MEMBER_H
#define RTCP_MEMBER_H

#include "detector.h"

enum {
	RTCP_ROUND_MIN_RTTS = 2,
	RTCP_LONG_ROUNDS = 4, /* maximum length of a round that is not significant */
	RTCP_STALE_ROUNDS = 7, /* losses and deliveries further apart are unrelated */
	RTCP_LOSSY_PKTS = 3, /* fewer losses in a round do not show an empty bucket */
	RTCP_LOSSY_PART = 20, /* nor does less than a twentieth */
	RTCP_DUE_PKTS = 4, /* a smaller expected loss may be absent by chance */
	RTCP_MAX_DUE_PKTS = 16, /* one round alone must not decide */
	RTCP_LOST_WEIGHT = 4, /* of a lost packet, relative to an expected loss */
	RTCP_APART_PKTS = 48,
};

/* Deliveries and losses at the start of a round. */
struct rtcp_round {
	__u64 time_us;
	__u64 delivered_pkts;
	__u64 lost_pkts;
};

/* A connection's state, with that of its client. */
struct rtcp_member {
	__u64 start_us; /* of its transfer */
	__u64 delivered_bytes; /* since then */
	__u64 lost_bytes;
	__u64 calm_us; /* at the last ACK before its first loss */
	__u64 calm_bytes;
	struct rtcp_round own;
	struct rtcp_round client;
	__u32 doubt_pkts;
	__u32 pad;
};

struct rtcp_sent {
	__u64 pkts;
	__u64 lost_pkts;
};

/* Begins a transfer. */
static inline void rtcp_member_start(struct rtcp_member *m, __u64 now_us)
{
	m->start_us = m->calm_us = now_us;
	m->delivered_bytes = m->lost_bytes = m->calm_bytes = 0;
	m->own.time_us = 0;
}

/* Adds deliveries and losses. */
static inline void rtcp_member_add(struct rtcp_member *m, __u64 now_us, __u64 delivered_bytes,
				   __u64 lost_bytes)
{
	m->delivered_bytes += delivered_bytes;
	m->lost_bytes += lost_bytes;
	if (m->lost_bytes)
		return;
	m->calm_us = now_us;
	m->calm_bytes = m->delivered_bytes;
}

/* Evidence of a round against a shared bucket, where one side lost much and the other should have [packets]. */
static inline __s64 rtcp_doubt(const struct rtcp_sent *lossy, const struct rtcp_sent *other, int stale)
{
	__u64 maximum = 1ULL << 31, due_pkts, weight;

	if (lossy->lost_pkts < RTCP_LOSSY_PKTS ||
	    rtcp_min(lossy->lost_pkts, maximum) * RTCP_LOSSY_PART < lossy->pkts)
		return 0;
	due_pkts =
		rtcp_min(rtcp_min(other->pkts, maximum) * rtcp_min(lossy->lost_pkts, maximum) / lossy->pkts,
			 RTCP_MAX_DUE_PKTS);
	weight = rtcp_min(other->lost_pkts, maximum) * RTCP_LOST_WEIGHT;
	if (weight <= due_pkts && (due_pkts < RTCP_DUE_PKTS || stale))
		return 0;
	return (__s64)due_pkts - (__s64)weight;
}

/* Whether the transfer fits the detector's range; longer ones are split. */
static inline int rtcp_member_is_short(const struct rtcp_member *m, __u64 now_us)
{
	return rtcp_above(now_us, m->start_us) <= RTCP_MAX && m->delivered_bytes <= RTCP_MAX;
}

/* Handles an ACK that is added to the client's sums. Returns whether the two cannot share a bucket. */
static inline int rtcp_member_ack(struct rtcp_member *m, __u32 mss_bytes, const struct rtcp_progress *client)
{
	struct rtcp_round own = {client->time_us, 0, 0};
	struct rtcp_sent mine, others;
	__u64 round_us = (__u64)RTCP_ROUND_MIN_RTTS * client->min_rtt_us, past_us;
	__s64 doubt, of_others, sum;

	if (!mss_bytes || !round_us)
		return 0;
	own.delivered_pkts = m->delivered_bytes / mss_bytes;
	own.lost_pkts = m->lost_bytes / mss_bytes;
	past_us = rtcp_above(client->time_us, m->own.time_us);
	if (m->own.time_us && past_us < round_us)
		return 0;
	if (m->own.time_us) {
		int stale = past_us > RTCP_STALE_ROUNDS * round_us;

		mine.lost_pkts = rtcp_above(own.lost_pkts, m->own.lost_pkts);
		mine.pkts = rtcp_above(own.delivered_pkts, m->own.delivered_pkts) + mine.lost_pkts;
		others.lost_pkts =
			rtcp_above(rtcp_above(client->lost_pkts, m->client.lost_pkts), mine.lost_pkts);
		others.pkts = rtcp_above(rtcp_above(client->delivered_pkts, m->client.delivered_pkts) +
						 rtcp_above(client->lost_pkts, m->client.lost_pkts),
					 mine.pkts);
		others.pkts = rtcp_max(others.pkts, others.lost_pkts);
		doubt = rtcp_doubt(&mine, &others, stale);
		of_others = rtcp_doubt(&others, &mine, stale);
		if (doubt >= 0 && (of_others < 0 || of_others > doubt))
			doubt = of_others;
		if (!doubt && past_us < RTCP_LONG_ROUNDS * round_us)
			return 0;
		sum = (__s64)m->doubt_pkts + doubt;
		m->doubt_pkts = sum > 0 ? sum : 0;
	}
	m->own = own;
	m->client = (struct rtcp_round){client->time_us, client->delivered_pkts, client->lost_pkts};
	return m->doubt_pkts >= RTCP_APART_PKTS;
}

#endif
