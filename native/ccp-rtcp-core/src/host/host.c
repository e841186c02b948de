// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/* The core as linkable functions. */
#include "clients.h"

void rtcp_host_init(struct rtcp_detector *d, __u32 mss_bytes)
{
	rtcp_detector_init(d, mss_bytes);
}

void rtcp_host_start(struct rtcp_detector *d, const struct rtcp_options *o, const struct rtcp_progress *now)
{
	rtcp_detector_start(d, o, now);
}

void rtcp_host_ack(struct rtcp_detector *d, const struct rtcp_options *o, const struct rtcp_progress *now)
{
	rtcp_detector_ack(d, o, now);
}

__u32 rtcp_host_tokens_bytes(const struct rtcp_detector *d, __u64 now_us)
{
	return rtcp_tokens_bytes(d, now_us);
}

__u64 rtcp_host_last_us(const struct rtcp_detector *d)
{
	return rtcp_last_us(d);
}

void rtcp_host_limiter_ack(struct rtcp_limiter *l, struct rtcp_detector *d, const struct rtcp_options *o,
			   const struct rtcp_progress *now)
{
	rtcp_limiter_ack(l, d, o, now);
}

__u64 rtcp_host_limiter_rate(const struct rtcp_limiter *l, const struct rtcp_detector *d,
			     const struct rtcp_options *o, const struct rtcp_progress *now)
{
	return rtcp_limiter_rate(l, d, o, now);
}

void rtcp_host_remote_of(struct rtcp_remote *remote, const struct rtcp_options *o, __u32 port)
{
	rtcp_remote_of(remote, o, port);
}

void rtcp_host_member_start(struct rtcp_member *m, __u64 now_us)
{
	rtcp_member_start(m, now_us);
}

void rtcp_host_member_add(struct rtcp_member *m, __u64 now_us, __u64 delivered_bytes, __u64 lost_bytes)
{
	rtcp_member_add(m, now_us, delivered_bytes, lost_bytes);
}

int rtcp_host_member_ack(struct rtcp_member *m, __u32 mss_bytes, const struct rtcp_progress *client)
{
	return rtcp_member_ack(m, mss_bytes, client);
}

static void rtcp_event(struct rtcp_flow *flow, struct rtcp_client *client, u64 now_us)
{
	client_row(&rtcp_table->row, flow, client, now_us);
	rtcp_table->has_row = 1;
	rtcp_table->is_news = client->reported != rtcp_table->row.verdict;
	client->reported = rtcp_table->row.verdict;
}

void rtcp_host_flow_begin(struct rtcp_table *table, struct tcp_sock *tp, struct rtcp_flow *flow,
			  const struct rtcp_options *o)
{
	rtcp_table = table;
	flow_begin(&tp->sk, flow, o);
	flow_join(&tp->sk, flow, o);
}

void rtcp_host_flow_start(struct rtcp_table *table, struct tcp_sock *tp, struct rtcp_flow *flow,
			  const struct rtcp_options *o)
{
	rtcp_table = table;
	flow_start(&tp->sk, flow, o);
}

void rtcp_host_flow_ack(struct rtcp_table *table, struct tcp_sock *tp, struct rtcp_flow *flow,
			const struct rtcp_options *o)
{
	rtcp_table = table;
	flow_ack(&tp->sk, flow, o);
}

void rtcp_host_flow_leave(struct rtcp_table *table, struct tcp_sock *tp, struct rtcp_flow *flow,
			  const struct rtcp_options *o)
{
	rtcp_table = table;
	flow_leave(&tp->sk, flow, o);
}

__u32 rtcp_host_flow_window(struct tcp_sock *tp, const struct rtcp_flow *flow, __u32 floor_pkts, int paced)
{
	return flow_window(tp, flow, floor_pkts, paced);
}
