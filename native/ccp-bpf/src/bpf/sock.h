/* SPDX-License-Identifier: GPL-2.0 */
/* Reading and controlling a TCP socket. */
#ifndef CCP_SOCK_H
#define CCP_SOCK_H

#include "maps.h"
#include "state.h"

/* NULL if the socket has no slot, or its slot was reclaimed. */
static __always_inline struct ccp_flow *ccp_flow_of(struct ccp_sk *ca)
{
	u32 slot = ca->slot1 - 1;
	struct ccp_flow *flow = bpf_map_lookup_elem(&flows, &slot); /* NULL for slot1 == 0: out of range */

	return flow && flow->flow_id >> 32 == ca->generation ? flow : NULL;
}

/* By the kernel's rule: in slow start half-used windows may still grow. */
static __always_inline bool cwnd_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/*
 * The kernel computes sk_pacing_rate only for congestion controls without cong_control. The rate sizes TSO packets and
 * bounds the data in the qdisc even without pacing, so it must be updated: by the kernel's rule, at its default ratios
 * (net.ipv4.tcp_pacing_ss_ratio 200, tcp_pacing_ca_ratio 120).
 */
static __always_inline void update_pacing_rate(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tp->snd_cwnd, srtt_us = tp->srtt_us;
	u64 rate = (u64)tp->mss_cache * ((USEC_PER_SEC / 100) << 3);
	u64 max_rate = sk->sk_max_pacing_rate;

	rate *= cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	rate *= cwnd > tp->packets_out ? cwnd : tp->packets_out;
	if (srtt_us)
		rate /= srtt_us;
	sk->sk_pacing_rate = rate < max_rate ? rate : max_rate;
}

static __always_inline void pace_at(struct sock *sk, struct ccp_sk *ca, u64 rate_bytes_per_s)
{
	u64 max_rate = sk->sk_max_pacing_rate;

	sk->sk_pacing_rate = rate_bytes_per_s < max_rate ? rate_bytes_per_s : max_rate;
	if (sk->sk_pacing_status == SK_PACING_NONE) {
		sk->sk_pacing_status = SK_PACING_NEEDED; /* without fq the rate has no effect until then */
		ca->paced_by_us = 1;
	}
}

static __always_inline void stop_pacing(struct sock *sk, struct ccp_sk *ca)
{
	if (ca->paced_by_us && sk->sk_pacing_status == SK_PACING_NEEDED)
		sk->sk_pacing_status = SK_PACING_NONE;
	ca->paced_by_us = 0;
	update_pacing_rate(sk);
}

#define NO_CWND_BOUND (~0ULL)

/* Removes the bounds; extensions may set them again. */
static __always_inline void clear_bounds(struct ccp_flow *flow)
{
	flow->cwnd_cap_bytes = NO_CWND_BOUND;
	flow->pace_cap_bytes_per_s = 0;
	flow->rate_allowed_bytes_per_s = 0;
}

/* Paces at the algorithm's rate or at the bound, otherwise as the kernel would. */
static __always_inline void apply_rate(struct sock *sk, struct ccp_sk *ca, const struct ccp_flow *flow)
{
	u64 rate = flow->rate_bytes_per_s, maximum = flow->pace_cap_bytes_per_s;

	if (maximum && (!rate || rate > maximum))
		rate = maximum;
	if (rate)
		pace_at(sk, ca, rate);
	else
		stop_pacing(sk, ca);
}

/* Sets snd_cwnd in packets from a window in bytes: at least 2, at most the socket's clamp and ccplane's limits. */
static __always_inline void apply_cwnd(struct tcp_sock *tp, struct ccp_flow *flow, u64 cwnd_bytes,
				       u64 max_bytes)
{
	u64 mss = tp->mss_cache, pkts;

	if (!mss)
		return;
	if (cwnd_bytes > max_bytes)
		cwnd_bytes = max_bytes;
	if (cwnd_bytes > flow->cwnd_cap_bytes)
		cwnd_bytes = flow->cwnd_cap_bytes;
	if (cwnd_bytes < CCP_MIN_CWND_PKTS * mss)
		cwnd_bytes = CCP_MIN_CWND_PKTS * mss;
	pkts = cwnd_bytes / mss;
	if (pkts > tp->snd_cwnd_clamp) {
		pkts = tp->snd_cwnd_clamp;
		cwnd_bytes = pkts * mss;
	}
	tp->snd_cwnd = pkts;
	flow->applied_pkts = pkts;
	flow->cwnd_bytes = cwnd_bytes;
	flow->cwnd_floor_bytes = pkts * mss;
}

/* The algorithm's window, unless the kernel has changed snd_cwnd since (a timeout, an undo). */
static __always_inline void refresh_cwnd(struct tcp_sock *tp, struct ccp_flow *flow)
{
	u64 floor_bytes = (u64)tp->snd_cwnd * tp->mss_cache;

	if (tp->snd_cwnd != flow->applied_pkts || floor_bytes != flow->cwnd_floor_bytes) {
		flow->applied_pkts = tp->snd_cwnd;
		flow->cwnd_bytes = floor_bytes;
		flow->cwnd_floor_bytes = floor_bytes;
	}
}

static __always_inline void refresh_stats(struct sock *sk, struct ccp_flow *flow)
{
	struct ccp_stats *stats = &flow->stats;
	struct tcp_sock *tp = tcp_sk(sk);

	flow->stats_due_us = tp->tcp_mstamp + CCP_STATS_INTERVAL_US;
	stats->now_us = tp->tcp_mstamp;
	stats->acks = flow->acks;
	stats->bytes_acked = tp->bytes_acked;
	stats->bytes_retrans = tp->bytes_retrans;
	stats->cwnd_bytes = (u64)tp->snd_cwnd * tp->mss_cache;
	stats->mss_bytes = tp->mss_cache;
	stats->srtt_us = tp->srtt_us >> 3;
	stats->min_rtt_us = tp->rtt_min.s[0].v;
	stats->delivered_pkts = tp->delivered;
	stats->lost_pkts = tp->lost;
	stats->retrans_pkts = tp->total_retrans;
	stats->packets_in_flight = packets_in_flight(tp);
	stats->ca_state = tcp_ca_state(tp);
	stats->snd_ssthresh_pkts = tp->snd_ssthresh;
	stats->pacing_rate_bytes_per_s = sk->sk_pacing_rate;
}

#endif
