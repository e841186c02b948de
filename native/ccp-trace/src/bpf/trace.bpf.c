// SPDX-License-Identifier: GPL-2.0
/*
 * Emits a row per TCP socket and interval: on arrival of a segment the program checks whether the interval is over, so that
 * unwanted rows never leave the kernel. A socket's last row is emitted when it closes.
 */
#include "kernel.h"
#include "addresses.h"
#include "dropped.h"
#include "netns.h"
#include "row.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define NSEC_PER_USEC 1000ULL
#define ALL_ONES (~0ULL)

const volatile struct trace_config config = {};

struct sampled {
	u64 last_us; /* 0: not yet */
	__u16 sport; /* the kernel takes the port away before it closes the socket */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sampled);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set by the loader */
} rows SEC(".maps");

static __always_inline void fill(struct tcp_row *row, struct tcp_sock *tp, u64 now_us, __u16 sport, u8 state)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	unsigned long rate = sk->sk_pacing_rate;
	u32 min_rtt_us = tp->rtt_min.s[0].v;
	u64 mss_bytes = tp->mss_cache;

	row->t_us = now_us;
	row->cwnd_bytes = tp->snd_cwnd * mss_bytes;
	row->ssthresh_bytes = ALL_ONES;
	if (tp->snd_ssthresh < TCP_INFINITE_SSTHRESH)
		row->ssthresh_bytes = tp->snd_ssthresh * mss_bytes;
	row->pacing_rate_bytes_per_s = rate == ~0UL ? ALL_ONES : rate;
	row->delivered_pkts = tp->delivered;
	row->lost_pkts = tp->lost;
	row->retrans_pkts = tp->total_retrans;
	row->bytes_acked = tp->bytes_acked;
	row->bytes_received = tp->bytes_received;
	row->bytes_sent = tp->bytes_sent;
	row->bytes_retrans = tp->bytes_retrans;
	row->bytes_in_flight =
		(tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out) * mss_bytes;
	row->netns = sk->__sk_common.skc_net.net->ns.inum;
	row->srtt_us = tp->srtt_us >> 3; /* the kernel keeps eight times the value */
	row->min_rtt_us = min_rtt_us == ~0U ? 0 : min_rtt_us;
	row->rtt_us = tp->rack.rtt_us;
	row->mss_bytes = mss_bytes;
	row->delivered_ce = tp->delivered_ce;
	row->sport = sport;
	row->dport = bpf_ntohs(sk->__sk_common.skc_dport);
	row->family = sk->__sk_common.skc_family;
	row->ca_state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	row->state = state;
	row->app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
	put_addresses(row->saddr, row->daddr, sk);
	bpf_probe_read_kernel(row->congestion, sizeof(row->congestion), tp->inet_conn.icsk_ca_ops->name);
}

static __always_inline void emit(struct sock *sk, u64 now_us, __u16 sport, u8 state)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct tcp_row *row;

	if (!tp)
		return;
	row = bpf_ringbuf_reserve(&rows, sizeof(*row), 0);
	if (!row) {
		count_dropped();
		return;
	}
	fill(row, tp, now_us, sport, state);
	row->cookie = bpf_get_socket_cookie(sk);
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP); /* the reader polls */
}

/*
 * A segment arrives on an open connection; its ACK is not processed yet. There is no such tracepoint for closing connections:
 * data in flight at close() shows only in the last row.
 */
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_segment, struct sock *sk, struct sk_buff *skb)
{
	struct sampled *sampled;
	u64 now_us;

	if (config.only_some_netns && !is_in_wanted_netns(sk))
		return 0;
	sampled = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!sampled)
		return 0;
	now_us = bpf_ktime_get_ns() / NSEC_PER_USEC;
	if (sampled->last_us && now_us - sampled->last_us < config.interval_us)
		return 0;
	sampled->last_us = now_us;
	sampled->sport = sk->__sk_common.skc_num;
	emit(sk, now_us, sampled->sport, sk->__sk_common.skc_state);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int before, int after)
{
	struct sampled *sampled;

	if (after != TCP_CLOSE || before == TCP_CLOSE)
		return 0;
	sampled = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!sampled)
		return 0; /* never connected, or not wanted */
	emit(sk, bpf_ktime_get_ns() / NSEC_PER_USEC, sampled->sport, TCP_CLOSE);
	bpf_sk_storage_delete(&sockets, sk);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
