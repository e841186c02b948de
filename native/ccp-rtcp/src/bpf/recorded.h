/* SPDX-License-Identifier: GPL-2.0 */
/* The detector's input, for recording. */
#ifndef RTCP_RECORDED_H
#define RTCP_RECORDED_H

#include "tcp.h"
#include "dropped.h"
#include "rtcp.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set by the loader, if ACKs are recorded */
} acks SEC(".maps");

static __always_inline void record(struct sock *sk, bool starts)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 min_rtt_us = tp->rtt_min.s[0].v;
	struct rtcp_ack *row;

	row = bpf_ringbuf_reserve(&acks, sizeof(*row), 0);
	if (!row) {
		count_dropped();
		return;
	}
	row->t_us = tp->tcp_mstamp;
	row->acked_bytes = tp->bytes_acked;
	row->delivered_pkts = tp->delivered;
	row->lost_pkts = tp->lost;
	row->in_flight_pkts = packets_in_flight(tp);
	row->min_rtt_us = min_rtt_us == ~0U ? 0 : min_rtt_us;
	row->srtt_us = tp->srtt_us >> 3;
	row->prior_delivered_pkts = tp->delivered - tp->rate_delivered;
	row->sport = sk->__sk_common.skc_num;
	row->dport = bpf_ntohs(sk->__sk_common.skc_dport);
	put_saddr(row->saddr, sk);
	put_daddr(row->daddr, sk);
	row->starts = starts;
	row->app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
	__builtin_memset(row->pad, 0, sizeof(row->pad));
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
}

#endif
