/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keeps a flow within the token bucket that limits its client (R-TCP), if the agent asks for that. Whoever steers the
 * flow asks for more at will: window and pacing rate are bounded where they are applied.
 */
#ifndef CCP_LIMIT_H
#define CCP_LIMIT_H

#include "law.h"

/* Not to be taken for the table of other sockets' clients. */
#define rtcp_clients limit_clients
#define rtcp_blank limit_blank
#include "clients.h"

#define NO_CWND_CAP (~0ULL)

/* What is known of a flow's limit. */
struct ccp_limit {
	struct rtcp_flow flow; /* in front: rtcp_tell() makes one of the other */
	struct rtcp_options options;
	u64 flow_id;
	u32 told; /* enum rtcp_verdict that the agent knows */
};

/* By slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader: as many as there are flows */
	__type(key, u32);
	__type(value, struct ccp_limit);
} limits SEC(".maps");

static __always_inline struct ccp_limit *limit_of(const struct ccp_flow *flow)
{
	u32 slot = (u32)flow->flow_id;

	return bpf_map_lookup_elem(&limits, &slot);
}

static __always_inline void rtcp_tell(struct rtcp_flow *flow, struct rtcp_client *client, u64 now_us)
{
	struct ccp_limit *limit = (struct ccp_limit *)flow;
	u32 verdict = client_verdict(client);
	struct ccp_limit_change *change;

	if (verdict == limit->told)
		return;
	change = bpf_ringbuf_reserve(&records, sizeof(*change), 0);
	if (!change)
		return; /* told at the next ACK */
	__builtin_memset(&change->record, 0, sizeof(change->record));
	change->record.kind = CCP_RECORD_LIMIT;
	change->record.flow_id = limit->flow_id;
	change->record.now_us = now_us;
	client_row(&change->row, flow, client, now_us);
	bpf_ringbuf_submit(change, 0);
	limit->told = verdict;
}

/* No caps, until there is a limit again. */
static __always_inline void limit_forget(struct ccp_flow *flow)
{
	flow->cwnd_most_bytes = NO_CWND_CAP;
	flow->pace_most_bytes_per_s = 0;
	flow->limit_rate_bytes_per_s = 0;
}

/* Bounds window and pacing to what the client's limit lets this flow send now. */
static __always_inline void limit_apply(struct sock *sk, struct ccp_sk *ca, struct ccp_flow *flow,
					const struct ccp_limit *limit)
{
	u64 rate = limit->flow.rate_bytes_per_s, most_bytes = NO_CWND_CAP, pace_most = 0;
	bool paced = flow->caps & CCP_CAP_RATE;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 floor_pkts = paced ? limit->options.floor_pkts : CCP_MIN_CWND_PKTS;
	u32 most_pkts = flow_window(tp, &limit->flow, floor_pkts, paced);
	u64 mss = tp->mss_cache;

	if (flow->caps & CCP_CAP_CWND && most_pkts != NO_WINDOW)
		most_bytes = mss * most_pkts;
	if (rate && paced)
		pace_most = rtcp_share(rate, limit->options.margin_ratio_ppm);
	flow->limit_rate_bytes_per_s = rate;
	flow->cwnd_most_bytes = most_bytes;
	if (tp->snd_cwnd * mss > most_bytes)
		apply_cwnd(tp, flow, most_bytes, most_bytes);
	if (pace_most != flow->pace_most_bytes_per_s) {
		flow->pace_most_bytes_per_s = pace_most;
		apply_rate(sk, ca, flow);
	}
}

static __noinline int limit_on_ack(struct sock *sk, struct ccp_sk *ca, struct ccp_flow *flow)
{
	struct ccp_limit *limit = limit_of(flow);

	if (!limit)
		return 0;
	flow_ack(sk, &limit->flow, &limit->options);
	limit_apply(sk, ca, flow, limit);
	return 0;
}

static __noinline int limit_on_start(struct sock *sk, struct ccp_sk *ca, struct ccp_flow *flow)
{
	struct ccp_limit *limit = limit_of(flow);

	if (!limit)
		return 0;
	flow_start(sk, &limit->flow, &limit->options);
	limit_apply(sk, ca, flow, limit);
	return 0;
}

static __noinline int limit_end(struct sock *sk, struct ccp_flow *flow)
{
	struct ccp_limit *limit = limit_of(flow);

	flow->caps = 0;
	limit_forget(flow);
	if (limit)
		flow_leave(sk, &limit->flow);
	return 0;
}

/* What the agent wants: other caps, other options, or none any more. */
static __always_inline void limit_set(struct sock *sk, struct ccp_sk *ca, struct ccp_flow *flow,
				      const struct ccp_mailbox *mail)
{
	struct ccp_limit *limit = limit_of(flow);
	bool joins = !flow->caps;

	if (!limit)
		return;
	if (!mail->caps) {
		if (!joins) {
			limit_end(sk, flow);
			apply_rate(sk, ca, flow);
		}
		return;
	}
	limit->options = mail->options;
	flow->caps = mail->caps;
	if (!joins)
		return;
	limit->flow_id = flow->flow_id;
	limit->told = RTCP_OPEN;
	limit->flow.key.netns = flow->info.netns_inum;
	__builtin_memcpy(limit->flow.key.address, flow->info.daddr, sizeof(flow->info.daddr));
	flow_join(sk, &limit->flow, &limit->options);
	if (tcp_sk(sk)->packets_out) /* it sends already */
		flow_start(sk, &limit->flow, &limit->options);
}

#endif
