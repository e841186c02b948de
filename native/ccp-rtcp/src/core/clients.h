/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Clients: one detector and one limiter for all connections to a client, which share its limit. Each connection adds its
 * deliveries and losses, and learns what it may send. A transfer of the client begins when one of its connections starts and
 * none was active. The state of a limited client outlives its connections for a while, so that the next one is limited from
 * its first packet on (SR-TCP).
 *
 * Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI 2026, sections
 * 4.4 ("Concurrent flows") and 6.1 ("Stateful Optimization"). Choices that the paper leaves open:
 *
 * - ACKs also count while their connection is application-limited: the acknowledged data has used tokens.
 * - The minimum RTT is that of the connection whose ACK arrives.
 * - A limited client is forgotten ten minutes after its last connection (kept_us), an unlimited one immediately. A client
 *   awaiting a verdict is kept for ten seconds: its next connection continues where this one ended.
 * - A client whose connections cannot share a bucket (member.h) is several clients behind one address. It stays in the table
 *   with this information: each of its connections joins a client of its own, with the port in the key.
 * - Once a limit is found to have been lifted, existing connections stay unlimited; the client's next connection starts
 *   detection again, as it would in the paper, which has a detector per flow.
 *
 * A connection remembers when its client was born. If the client was deleted and created again meanwhile, it is a different
 * one, which the connection joins when it starts to send again, so no references are needed. A locked client is skipped:
 * counters are cumulative, and the next ACK adds the difference.
 *
 * Compiled into BPF programs, with the table in table.h and the socket in tcp.h, and for the host (native/ccp-rtcp-core),
 * which has files of the same names.
 */
#ifndef RTCP_CLIENTS_H
#define RTCP_CLIENTS_H

#include "tcp.h"
#include "rtcp.h"
#include "table.h"

/* The state of a connection. */
struct rtcp_flow {
	struct rtcp_key key;
	struct rtcp_member member;
	u32 delivered_pkts;
	u32 lost_pkts;
	u64 sent_bytes; /* at the last computation of the mean segment */
	u32 sent_segs;
	u32 seg_bytes; /* mean of earlier segments: small writes make small segments */
	u32 in_flight_bytes;
	u64 born_us; /* of the client in which this one is counted; 0: none */
	u64 rate_bytes_per_s; /* maximum rate; 0: not capped */
	u8 active;
	u8 sharing;
	u8 limited; /* its client is limited */
	u8 suspected; /* it seems limited: an estimate awaits its verdict */
	u8 seeks; /* enum rtcp_seeking: whether to probe for more */
	u8 no_room; /* the table was full when it tried to join its client */
};

#define NO_WINDOW (~0U)
#define SEGS_OF_A_MEAN 32

/* Called when the verdict has changed; implemented by the including file. */
static __always_inline void rtcp_event(struct rtcp_flow *flow, struct rtcp_client *client, u64 now_us);

static __always_inline struct rtcp_client *client_of(const struct rtcp_flow *flow)
{
	struct rtcp_client *client;

	if (!flow->born_us)
		return NULL;
	client = client_find(&flow->key);
	return client && client->born_us == flow->born_us ? client : NULL;
}

static __always_inline u32 client_verdict(const struct rtcp_client *client)
{
	if (client->apart)
		return RTCP_APART;
	if (!client->detector.limited)
		return client->detector.detected ? RTCP_GONE : RTCP_OPEN;
	switch (client->limiter.stage) {
	case RTCP_STAGE_CAPPED:
		return RTCP_CAPPED;
	case RTCP_STAGE_PROBING:
		return RTCP_PROBING;
	case RTCP_STAGE_RAISED:
	case RTCP_STAGE_LIFTED:
		return RTCP_RAISED;
	default:
		return RTCP_LIMITED;
	}
}

/* The state of a client, for observers. */
static __always_inline void client_row(struct rtcp_row *row, const struct rtcp_flow *flow,
				       const struct rtcp_client *client, u64 now_us)
{
	row->t_us = now_us;
	row->bucket_bytes = client->detector.bucket_bytes;
	row->rate_bytes_per_s = client->detector.rate_bytes_per_s;
	row->tokens_bytes = rtcp_tokens_bytes(&client->detector, now_us);
	row->netns = client->netns;
	row->verdict = client_verdict(client);
	row->active_flows = client->active_flows;
	row->remote = flow->key.remote;
	row->pad = 0;
}

/* Initialises a new connection. */
static __always_inline void flow_begin(struct sock *sk, struct rtcp_flow *flow, const struct rtcp_options *o)
{
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->key.netns_cookie = netns_cookie_of(sk);
	put_daddr(flow->key.remote.address, sk);
	rtcp_remote_of(&flow->key.remote, o, dport_of(sk));
}

/* Makes the connection a separate client, because others of its client have another bucket. */
static __always_inline void flow_single(struct sock *sk, struct rtcp_flow *flow)
{
	put_daddr(flow->key.remote.address, sk);
	rtcp_remote_single(&flow->key.remote, dport_of(sk));
}

static __always_inline void client_begin(struct rtcp_client *client, u32 mss_bytes)
{
	rtcp_detector_init(&client->detector, mss_bytes);
	__builtin_memset(&client->limiter, 0, sizeof(client->limiter));
}

/* Counts the connection as one of its client's, if there is room. */
static __noinline int flow_join(struct sock *sk, struct rtcp_flow *flow, const struct rtcp_options *o)
{
	struct rtcp_client *client;
	struct tcp_sock *tp = tcp_sk(sk);
	u64 now_us = tp->tcp_mstamp;

	sweep_from_now_on();
	flow->born_us = 0;
	flow->active = 0;
	flow->sharing = 0;
	flow->rate_bytes_per_s = 0;
	flow->limited = flow->suspected = flow->seeks = 0;
	flow->in_flight_bytes = 0;
	flow->delivered_pkts = tp->delivered;
	flow->lost_pkts = tp->lost;
	client = client_find(&flow->key);
	if (client && client->apart && !is_over(client, now_us)) {
		client->over_us = now_us + o->kept_us;
		flow_single(sk, flow);
		client = client_find(&flow->key);
	}
	if (!client) {
		if (!client_insert(&flow->key)) {
			if (!flow->no_room)
				count_no_room();
			flow->no_room = 1;
			return 0;
		}
		client = client_find(&flow->key);
	}
	flow->no_room = 0;
	if (!client || !client_lock(client))
		return 0;
	if (!client->born_us || is_over(client, now_us)) {
		client->reported = RTCP_OPEN;
		client->apart = 0;
		client->born_us = rtcp_max(now_us, 1);
		client->netns = netns_of(sk);
		client_begin(client, tp->mss_cache);
	} else if (client->detector.undetected) {
		/* The limit was lifted for existing connections; the next connection starts detection again. */
		client_begin(client, client->detector.mss_bytes);
	}
	flow->born_us = client->born_us;
	__sync_fetch_and_add(&client->open_flows, 1);
	client_unlock(client);
	return 0;
}

static __always_inline void flow_rest(struct rtcp_flow *flow, struct rtcp_client *client)
{
	if (flow->active)
		__sync_fetch_and_sub(&client->active_flows, 1);
	if (flow->sharing)
		__sync_fetch_and_sub(&client->sharing_flows, 1);
	flow->active = 0;
	flow->sharing = 0;
}

/* The connection ends, or leaves these programs. */
static __noinline int flow_leave(struct sock *sk, struct rtcp_flow *flow, const struct rtcp_options *o)
{
	struct rtcp_client *client = client_of(flow);

	flow->born_us = 0;
	if (!client)
		return 0;
	flow_rest(flow, client);
	__sync_fetch_and_sub(&client->in_flight_bytes, flow->in_flight_bytes);
	client->over_us = tcp_sk(sk)->tcp_mstamp +
			  (client->detector.limited || client->apart ? o->kept_us : (u64)RTCP_UNDECIDED_US);
	if (__sync_fetch_and_sub(&client->open_flows, 1) == 1 && !client->detector.limited &&
	    !client->apart && !rtcp_is_undecided(&client->detector))
		client_delete(&flow->key);
	return 0;
}

/* Mean bytes per packet: packets of small writes are not full. */
static __always_inline u32 flow_seg_bytes(struct tcp_sock *tp, struct rtcp_flow *flow)
{
	u32 segs = tp->data_segs_out - flow->sent_segs, mss = tp->mss_cache;

	if (segs >= SEGS_OF_A_MEAN || !flow->seg_bytes) {
		u64 mean = segs ? (tp->bytes_sent - flow->sent_bytes) / segs : mss;

		flow->seg_bytes = mean < mss ? mean : mss;
		flow->sent_bytes = tp->bytes_sent;
		flow->sent_segs = tp->data_segs_out;
	}
	return flow->seg_bytes;
}

/* Full segments in packets of this size; the rest counts with the next packets. */
static __always_inline u32 full_segs(u16 *rest_bytes, u32 pkts, u32 seg_bytes, u32 mss_bytes)
{
	u64 bytes;

	if (seg_bytes == mss_bytes || !mss_bytes)
		return pkts;
	bytes = (u64)pkts * seg_bytes + *rest_bytes;
	*rest_bytes = bytes % mss_bytes;
	return bytes / mss_bytes;
}

/* Adds the connection's deliveries and losses to the client's sums. The client is locked. */
static __always_inline void flow_add(struct tcp_sock *tp, struct rtcp_flow *flow, struct rtcp_client *client,
				     struct rtcp_progress *sum)
{
	u32 in_flight_bytes = packets_in_flight(tp) * tp->mss_cache, min_rtt_us = tp->rtt_min.s[0].v;
	u32 seg_bytes = flow_seg_bytes(tp, flow), mss_bytes = client->detector.mss_bytes;
	u64 delivered_bytes = (u64)(tp->delivered - flow->delivered_pkts) * seg_bytes;
	u64 lost_bytes = (u64)(tp->lost - flow->lost_pkts) * seg_bytes, now_us = tp->tcp_mstamp;

	client->delivered_pkts += full_segs(&client->delivered_rest_bytes,
					    tp->delivered - flow->delivered_pkts, seg_bytes, mss_bytes);
	client->lost_pkts +=
		full_segs(&client->lost_rest_bytes, tp->lost - flow->lost_pkts, seg_bytes, mss_bytes);
	rtcp_member_add(&flow->member, now_us, delivered_bytes, lost_bytes);
	__sync_fetch_and_add(&client->in_flight_bytes, in_flight_bytes - flow->in_flight_bytes);
	flow->delivered_pkts = tp->delivered;
	flow->lost_pkts = tp->lost;
	flow->in_flight_bytes = in_flight_bytes;
	/* Each socket's clock is the time of its last ACK, so they differ by some microseconds. */
	sum->time_us = rtcp_max(now_us, rtcp_last_us(&client->detector));
	sum->delivered_pkts = client->delivered_pkts;
	sum->lost_pkts = client->lost_pkts;
	sum->in_flight_bytes = client->in_flight_bytes;
	sum->min_rtt_us = min_rtt_us == ~0U ? 0 : min_rtt_us;
	sum->srtt_us = tp->srtt_us >> 3;
}

/* Equation 22, with its result at the previous ACK. Returns the share. */
static __always_inline u32 flow_share(struct tcp_sock *tp, struct rtcp_flow *flow, struct rtcp_client *client,
				      u64 rate_bytes_per_s)
{
	u32 sharing = client->sharing_flows, pending_bytes = tp->write_seq - tp->snd_una;
	u64 share_bytes_per_s = sharing ? rate_bytes_per_s / sharing : rate_bytes_per_s;
	bool shares = pending_bytes && pending_bytes * USEC_PER_SEC >= share_bytes_per_s * (tp->srtt_us >> 3);

	if (shares && !flow->sharing)
		sharing = __sync_fetch_and_add(&client->sharing_flows, 1) + 1;
	else if (!shares && flow->sharing)
		sharing = __sync_fetch_and_sub(&client->sharing_flows, 1) - 1;
	flow->sharing = shares;
	return sharing ? sharing : 1;
}

static __noinline int client_ack(struct rtcp_client *client, const struct rtcp_options *o,
				 struct rtcp_progress *sum)
{
	rtcp_detector_ack(&client->detector, o, sum);
	if (!o->observe)
		rtcp_limiter_ack(&client->limiter, &client->detector, o, sum);
	return 0;
}

static __noinline int client_start(struct rtcp_client *client, const struct rtcp_options *o,
				   struct rtcp_progress *sum)
{
	rtcp_detector_start(&client->detector, o, sum);
	return 0;
}

/* Whether the connection and the client's others cannot share a bucket. */
static __noinline int flow_doubts(struct rtcp_flow *flow, const struct rtcp_client *client,
				  const struct rtcp_progress *sum)
{
	return rtcp_member_ack(&flow->member, client->detector.mss_bytes, sum);
}

/* Updates what the connection may send. The client is locked. */
static __always_inline void flow_learn(struct tcp_sock *tp, struct rtcp_flow *flow,
				       struct rtcp_client *client, const struct rtcp_options *o,
				       const struct rtcp_progress *sum)
{
	u64 rate = rtcp_limiter_rate(&client->limiter, &client->detector, o, sum);

	if (client->detector.limited)
		rate /= flow_share(tp, flow, client, client->detector.rate_bytes_per_s);
	if (!o->observe) {
		flow->rate_bytes_per_s = rate;
		flow->limited = client->detector.limited;
		flow->suspected =
			rtcp_is_undecided(&client->detector) && rtcp_is_reduced(&client->detector, o);
		flow->seeks = flow->limited ? rtcp_limiter_seeks(&client->limiter) : RTCP_SEEKS_NOTHING;
	}
	rtcp_event(flow, client, sum->time_us);
}

/* Reports the connection's transfer so far to a new client. */
static __always_inline void client_catch_up(struct rtcp_client *client, const struct rtcp_member *m,
					    const struct rtcp_options *o, struct rtcp_progress *sum)
{
	u32 mss_bytes = client->detector.mss_bytes;

	if (mss_bytes) {
		client->delivered_pkts = m->delivered_bytes / mss_bytes;
		client->lost_pkts = m->lost_bytes / mss_bytes;
	}
	sum->time_us = m->start_us;
	client_start(client, o, sum);
	sum->time_us = m->calm_us;
	sum->delivered_pkts = mss_bytes ? m->calm_bytes / mss_bytes : 0;
	client_ack(client, o, sum);
}

/* The connection's client has fallen apart: the connection continues with a client of its own. */
static __noinline int flow_part(struct sock *sk, struct rtcp_flow *flow, const struct rtcp_options *o)
{
	struct rtcp_progress sum = {};
	u32 delivered_pkts = flow->delivered_pkts, lost_pkts = flow->lost_pkts;
	struct rtcp_client *client;
	bool active = flow->active;

	flow_leave(sk, flow, o);
	flow_join(sk, flow, o);
	flow->delivered_pkts = delivered_pkts; /* the rest counts at this ACK */
	flow->lost_pkts = lost_pkts;
	client = client_of(flow);
	if (!client || !active || !client_lock(client))
		return 0;
	flow->active = 1;
	if (!__sync_fetch_and_add(&client->active_flows, 1) && !client->detector.started &&
	    rtcp_member_is_short(&flow->member, tcp_sk(sk)->tcp_mstamp))
		client_catch_up(client, &flow->member, o, &sum);
	client_unlock(client);
	return 0;
}

/* The connection's client, if it has not fallen apart. */
static __always_inline struct rtcp_client *whole_client_of(struct sock *sk, struct rtcp_flow *flow,
							   const struct rtcp_options *o)
{
	struct rtcp_client *client = client_of(flow);

	if (!client || !client->apart)
		return client;
	flow_part(sk, flow, o);
	return client_of(flow);
}

/* Sending resumes after the connection had nothing to send. Returns whether that begins a transfer of its own. */
static __noinline int flow_start(struct sock *sk, struct rtcp_flow *flow, const struct rtcp_options *o)
{
	struct rtcp_client *client = whole_client_of(sk, flow, o);
	struct tcp_sock *tp = tcp_sk(sk);
	struct rtcp_progress sum;

	if (!client) {
		flow_join(sk, flow, o);
		client = client_of(flow);
	}
	if (!client || flow->active || !client_lock(client))
		return 0;
	flow_add(tp, flow, client, &sum);
	rtcp_member_start(&flow->member, sum.time_us);
	flow->active = 1;
	if (!__sync_fetch_and_add(&client->active_flows, 1))
		client_start(client, o, &sum);
	flow_learn(tp, flow, client, o, &sum);
	client_unlock(client);
	return 1;
}

/* Handles an ACK. Returns whether the detector received it. */
static __noinline int flow_ack(struct sock *sk, struct rtcp_flow *flow, const struct rtcp_options *o)
{
	struct rtcp_client *client = whole_client_of(sk, flow, o);
	struct tcp_sock *tp = tcp_sk(sk);
	struct rtcp_progress sum;

	if (!client || !client_lock(client))
		return 0;
	flow_add(tp, flow, client, &sum);
	client_ack(client, o, &sum);
	if (o->falls_apart && !rtcp_is_single(&flow->key.remote) && flow_doubts(flow, client, &sum))
		client->apart = 1;
	flow_learn(tp, flow, client, o, &sum);
	if (tp->write_seq == tp->snd_una)
		flow_rest(flow, client);
	client_unlock(client);
	return 1;
}

/*
 * The window that the rate fills [packets]; NO_WINDOW if not bounded. While a verdict is pending, paced flows are bounded by
 * pacing only: a verdict needs a loss, and a small window has none.
 */
static __always_inline u32 flow_window(struct tcp_sock *tp, const struct rtcp_flow *flow, u32 floor_pkts,
				       bool paced)
{
	u64 pkts = flow->rate_bytes_per_s * (tp->srtt_us >> 3) / USEC_PER_SEC;
	u32 mss = tp->mss_cache;

	if (!flow->rate_bytes_per_s || (paced && !flow->limited))
		return NO_WINDOW;
	if (mss)
		pkts = (pkts + mss - 1) / mss; /* a probe adds a fifth, which may be less than a packet */
	return pkts > floor_pkts ? pkts : floor_pkts;
}

#endif
