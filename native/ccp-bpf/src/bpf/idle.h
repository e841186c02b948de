/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The window after an idle period: Linux' tcp_slow_start_after_idle_check() and tcp_cwnd_restart() (RFC 5681 section 4.1,
 * RFC 2861), which the kernel skips for congestion controls with cong_control. The kernel acts when data is written, this
 * code when it is sent: the burst whose first packet is being sent keeps its size.
 */
#ifndef CCP_IDLE_H
#define CCP_IDLE_H

#include "tcp.h"

#define INITIAL_CWND_PKTS 10 /* TCP_INIT_CWND, RFC 6928 */
#define METRICS_FLAGS 3UL /* DST_METRICS_FLAGS */
#define INITCWND_OF_ROUTE 10 /* RTAX_INITCWND - 1 */

static __always_inline u32 initial_cwnd(struct sock *sk)
{
	struct dst_entry *dst = sk->sk_dst_cache;
	u32 *metrics, cwnd = 0;

	if (dst) {
		metrics = (u32 *)(dst->_metrics & ~METRICS_FLAGS);
		bpf_probe_read_kernel(&cwnd, sizeof(cwnd), metrics + INITCWND_OF_ROUTE);
	}
	return cwnd ? cwnd : INITIAL_CWND_PKTS;
}

/* tcp_current_ssthresh() */
static __always_inline u32 current_ssthresh(struct tcp_sock *tp)
{
	u32 state = tcp_ca_state(tp), ssthresh = tp->snd_ssthresh;
	u32 maximum = (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2);

	return state == TCP_CA_CWR || state == TCP_CA_Recovery || ssthresh > maximum ? ssthresh : maximum;
}

/* After an idle period longer than a timeout the window halves for each timeout, down to the initial window. */
static __always_inline void restart_after_idle(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct net *net = sk->__sk_common.skc_net.net;
	u32 rto = tp->inet_conn.icsk_rto, idle = bpf_jiffies64() - tp->lsndtime;
	u32 cwnd = tp->snd_cwnd, minimum, halvings;

	if (tp->packets_out || !tp->data_segs_out || !rto || idle <= rto || (s32)idle < 0)
		return;
	if (!net || !net->ipv4.sysctl_tcp_slow_start_after_idle)
		return;
	minimum = initial_cwnd(sk);
	if (minimum > tp->snd_cwnd_clamp)
		minimum = tp->snd_cwnd_clamp;
	tp->snd_ssthresh = current_ssthresh(tp);
	if (cwnd <= minimum)
		return;
	halvings = (idle - 1) / rto;
	cwnd >>= halvings < 31 ? halvings : 31;
	tp->snd_cwnd = cwnd > minimum ? cwnd : minimum;
}

#endif
