// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's CUBIC as a congestion control in BPF, without agent, maps or state of our own: each hook calls the kernel's
 * function. What it costs is what struct_ops cost anybody; benchmarks measure ours beside it.
 */
#include "cubic.h"
#include <bpf/bpf_tracing.h>

SEC("struct_ops")
void BPF_PROG(plain_init, struct sock *sk)
{
	cubictcp_init(sk);
}

SEC("struct_ops")
u32 BPF_PROG(plain_ssthresh, struct sock *sk)
{
	return cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops")
u32 BPF_PROG(plain_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(plain_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	cubictcp_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(plain_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubictcp_acked(sk, sample);
}

SEC("struct_ops")
void BPF_PROG(plain_set_state, struct sock *sk, u8 new_state)
{
	cubictcp_state(sk, new_state);
}

SEC("struct_ops")
void BPF_PROG(plain_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	cubictcp_cwnd_event(sk, event);
}

SEC("struct_ops")
void BPF_PROG(plain_tx_start, struct sock *sk)
{
	cubictcp_cwnd_event_tx_start(sk);
}

/* Of the kernel's CUBIC every member, under any supported kernel: libbpf drops those that are zero and unknown. */
struct tcp_congestion_ops___plain {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*cwnd_event_tx_start)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	u32 flags;
	void (*init)(struct sock *sk);
};

#define CUBIC                                                                                    \
	.ssthresh = (void *)plain_ssthresh, .cong_avoid = (void *)plain_cong_avoid,              \
	.set_state = (void *)plain_set_state, .pkts_acked = (void *)plain_pkts_acked,            \
	.undo_cwnd = (void *)plain_undo_cwnd, .init = (void *)plain_init, .name = "plain_cubic", \
	.flags = TCP_CONG_NON_RESTRICTED

SEC(".struct_ops.link")
struct tcp_congestion_ops___plain plain_7_0 = {CUBIC, .cwnd_event = (void *)plain_cwnd_event};

SEC(".struct_ops.link")
struct tcp_congestion_ops___plain plain_7_1 = {CUBIC, .cwnd_event_tx_start = (void *)plain_tx_start};

char LICENSE[] SEC("license") = "GPL";
