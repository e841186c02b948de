// SPDX-License-Identifier: GPL-2.0
/*
 * Datapath extension: keeps a flow within the token bucket that limits its client (R-TCP), if the agent asks for it. Window
 * and pacing rate are bounded where they are applied, whatever controls the flow.
 */
#include "extend.h"
#include "clients.h"

/* The state of a flow's limit. */
struct ccp_limit {
	struct rtcp_flow flow; /* first, so that rtcp_event() can convert the pointer */
	struct rtcp_options options;
	u64 flow_id; /* flow that the state belongs to */
	u32 caps; /* enum rtcp_caps */
	u32 reported; /* enum rtcp_verdict last sent to the agent */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CCP_MAX_FLOWS);
	__type(key, u32);
	__type(value, struct ccp_limit);
} limits SEC(".maps");

EXTENSION_MAIL(struct rtcp_message);

/* The message to the agent. */
struct limit_reported {
	struct ccp_record record;
	struct rtcp_row row;
};

static __always_inline struct ccp_limit *limit_of(const struct ccp_flow *flow)
{
	u32 slot = (u32)flow->flow_id;

	return bpf_map_lookup_elem(&limits, &slot);
}

static __always_inline void rtcp_event(struct rtcp_flow *flow, struct rtcp_client *client, u64 now_us)
{
	struct ccp_limit *limit = (struct ccp_limit *)flow;
	u32 verdict = client_verdict(client);
	struct limit_reported *reported;

	client->reported = verdict;
	if (verdict == limit->reported)
		return;
	reported = bpf_ringbuf_reserve(&records, sizeof(*reported), 0);
	if (!reported)
		return; /* sent at the next ACK */
	extension_sends(&reported->record, sizeof(*reported), limit->flow_id, now_us);
	client_row(&reported->row, flow, client, now_us);
	bpf_ringbuf_submit(reported, 0);
	limit->reported = verdict;
}

/* Reports that there is no room for the flow's client. */
static __always_inline void report_no_room(struct sock *sk, struct ccp_limit *limit)
{
	struct limit_reported *reported;

	if (!limit->flow.no_room || limit->reported == RTCP_NO_ROOM)
		return;
	reported = bpf_ringbuf_reserve(&records, sizeof(*reported), 0);
	if (!reported)
		return; /* sent at the next ACK */
	extension_sends(&reported->record, sizeof(*reported), limit->flow_id, tcp_sk(sk)->tcp_mstamp);
	__builtin_memset(&reported->row, 0, sizeof(reported->row));
	reported->row.t_us = tcp_sk(sk)->tcp_mstamp;
	reported->row.netns = netns_of(sk);
	reported->row.verdict = RTCP_NO_ROOM;
	reported->row.remote = limit->flow.key.remote;
	bpf_ringbuf_submit(reported, 0);
	limit->reported = RTCP_NO_ROOM;
}

/* Bounds window and pacing rate by what the client's limit allows this flow now. */
static __always_inline void limit_apply(struct sock *sk, struct ccp_sk *ca, struct ccp_flow *flow,
					const struct ccp_limit *limit)
{
	u64 rate = limit->flow.rate_bytes_per_s, max_bytes = NO_CWND_BOUND, pace_cap = 0;
	bool paced = limit->caps & RTCP_CAP_RATE;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 floor_pkts = paced ? limit->options.floor_pkts : CCP_MIN_CWND_PKTS;
	u32 max_pkts = flow_window(tp, &limit->flow, floor_pkts, paced);
	u64 mss = tp->mss_cache;

	if (limit->caps & RTCP_CAP_CWND && max_pkts != NO_WINDOW)
		max_bytes = mss * max_pkts;
	if (rate && paced)
		pace_cap = rtcp_share(rate, limit->options.margin_ratio_ppm);
	flow->rate_allowed_bytes_per_s = rate;
	flow->cwnd_cap_bytes = max_bytes;
	if (tp->snd_cwnd * mss > max_bytes)
		apply_cwnd(tp, flow, max_bytes, max_bytes);
	if (pace_cap != flow->pace_cap_bytes_per_s) {
		flow->pace_cap_bytes_per_s = pace_cap;
		apply_rate(sk, ca, flow);
	}
}

/* Removes the flow from its client. */
static __always_inline void limit_end(struct sock *sk, struct ccp_flow *flow, struct ccp_limit *limit)
{
	limit->caps = 0;
	clear_bounds(flow);
	flow_leave(sk, &limit->flow, &limit->options);
}

static __always_inline void limit_begin(struct sock *sk, struct ccp_flow *flow, struct ccp_limit *limit)
{
	limit->flow_id = flow->flow_id;
	limit->reported = RTCP_OPEN;
	flow_begin(sk, &limit->flow, &limit->options);
	flow_join(sk, &limit->flow, &limit->options);
	if (tcp_sk(sk)->packets_out) /* it is already sending */
		flow_start(sk, &limit->flow, &limit->options);
}

/* Applies the agent's message: other caps, other options, or none. */
static __noinline int take_limit_mail(struct sock *sk, struct ccp_flow *flow, struct ccp_limit *limit,
				      struct extension_mail *mail)
{
	bool had = limit->caps && limit->flow_id == flow->flow_id;

	if (!mail_begin(&mail->head))
		return 0;
	if (mail_is_for(&mail->head, flow)) {
		if (mail->head.n_bytes && mail->message.caps) {
			limit->caps = mail->message.caps;
			limit->options = mail->message.options;
			if (!had)
				limit_begin(sk, flow, limit);
		} else if (had) {
			limit_end(sk, flow, limit);
			apply_rate(sk, ccp_sk(sk), flow);
		}
	}
	mail_end(&mail->head);
	return 0;
}

/* A flow and the state of its limit. */
struct limited {
	struct ccp_flow *flow;
	struct ccp_limit *limit; /* NULL: limits are not looked for */
};

static __always_inline struct limited limited_of(struct sock *sk)
{
	struct limited it = {.flow = ccp_flow_of(ccp_sk(sk))};
	struct extension_mail *messages;
	u32 slot;

	if (!it.flow)
		return it;
	slot = (u32)it.flow->flow_id;
	it.limit = limit_of(it.flow);
	messages = bpf_map_lookup_elem(&mail, &slot);
	if (it.limit && messages && messages->head.owner == CCP_MAIL_FULL)
		take_limit_mail(sk, it.flow, it.limit, messages);
	if (it.limit && (!it.limit->caps || it.limit->flow_id != it.flow->flow_id))
		it.limit = NULL;
	return it;
}

static __always_inline void on_start(struct sock *sk)
{
	struct limited it = limited_of(sk);

	if (!it.flow || !it.limit || !tcp_sk(sk)->app_limited)
		return;
	flow_start(sk, &it.limit->flow, &it.limit->options);
	limit_apply(sk, ccp_sk(sk), it.flow, it.limit);
}

SEC("struct_ops")
void BPF_PROG(limit_on_ack, struct sock *sk)
{
	struct limited it = limited_of(sk);

	if (!it.flow || !it.limit)
		return;
	flow_ack(sk, &it.limit->flow, &it.limit->options);
	report_no_room(sk, it.limit);
	limit_apply(sk, ccp_sk(sk), it.flow, it.limit);
}

SEC("struct_ops")
void BPF_PROG(limit_on_cwnd_event, struct sock *sk)
{
	on_start(sk);
}

SEC("struct_ops")
void BPF_PROG(limit_on_cwnd_event_tx_start, struct sock *sk)
{
	on_start(sk);
}

SEC("struct_ops")
void BPF_PROG(limit_on_release, struct sock *sk)
{
	struct limited it = limited_of(sk);

	if (it.flow && it.limit)
		limit_end(sk, it.flow, it.limit);
}

EXTENSION("rate_limits", .cong_control = (void *)limit_on_ack, .cwnd_event = (void *)limit_on_cwnd_event,
	  .cwnd_event_tx_start = (void *)limit_on_cwnd_event_tx_start, .release = (void *)limit_on_release);

char LICENSE[] SEC("license") = "GPL";
