/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's BBR (version 1): its functions, and the parts of its state that these programs change. */
#ifndef RTCP_BBR_H
#define RTCP_BBR_H

#include "tcp.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bbr {
	u64 cycle_mstamp;
	u32 mode : 3;
	u32 lt_is_sampling : 1;
	u32 lt_rtt_cnt : 7;
	u32 lt_use_bw : 1;
	u32 lt_bw;
	u32 full_bw_reached : 1;
	u32 full_bw_cnt : 2;
	u32 cycle_idx : 3;
	u32 full_bw;
};

#pragma clang attribute pop

extern void bbr_init(struct sock *sk) __ksym __weak;
extern void bbr_main(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs) __ksym __weak;
extern void bbr_main___6_9(struct sock *sk, const struct rate_sample *rs) __ksym __weak;
extern void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym __weak;
extern void bbr_cwnd_event_tx_start(struct sock *sk) __ksym __weak; /* since 7.1, instead of cwnd_event */
extern void bbr_set_state(struct sock *sk, u8 new_state) __ksym __weak;
extern u32 bbr_ssthresh(struct sock *sk) __ksym __weak;
extern u32 bbr_undo_cwnd(struct sock *sk) __ksym __weak;
extern u32 bbr_sndbuf_expand(struct sock *sk) __ksym __weak;

static __always_inline struct bbr *bbr_of(struct sock *sk)
{
	return (void *)tcp_sk(sk)->inet_conn.icsk_ca_priv;
}

enum {
	BBR_STARTUP = 0,
	BBR_DRAIN = 1,
	BBR_PROBE_BW = 2,
	BBR_PROBE_RTT = 3,
};

/* Makes BBR probe for bandwidth as at the start, as far as its pacing rate allows. */
static __always_inline void bbr_start_up(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	if (BPF_CORE_READ_BITFIELD(bbr, mode) == BBR_PROBE_RTT ||
	    !BPF_CORE_READ_BITFIELD(bbr, full_bw_reached))
		return;
	BPF_CORE_WRITE_BITFIELD(bbr, mode, BBR_STARTUP);
	BPF_CORE_WRITE_BITFIELD(bbr, full_bw_reached, 0);
	BPF_CORE_WRITE_BITFIELD(bbr, full_bw_cnt, 0);
	bbr->full_bw = 0;
}

/* Ends BBR's search for bandwidth. */
static __always_inline void bbr_drain(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	if (BPF_CORE_READ_BITFIELD(bbr, mode) != BBR_STARTUP)
		return;
	BPF_CORE_WRITE_BITFIELD(bbr, mode, BBR_DRAIN);
	BPF_CORE_WRITE_BITFIELD(bbr, full_bw_reached, 1);
}

/* Keeps BBR in the phase of its cycle that sends a quarter more than is delivered. */
static __always_inline void bbr_probe(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	if (BPF_CORE_READ_BITFIELD(bbr, mode) != BBR_PROBE_BW)
		return;
	BPF_CORE_WRITE_BITFIELD(bbr, cycle_idx, 0);
	bbr->cycle_mstamp = tcp_sk(sk)->delivered_mstamp;
}

/* Restarts BBR's own detection of policers; at each ACK, this keeps it from a verdict. */
static __always_inline void bbr_forget_policer(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	bbr->lt_bw = 0;
	BPF_CORE_WRITE_BITFIELD(bbr, lt_use_bw, 0);
	BPF_CORE_WRITE_BITFIELD(bbr, lt_is_sampling, 0);
	BPF_CORE_WRITE_BITFIELD(bbr, lt_rtt_cnt, 0);
}

#endif
