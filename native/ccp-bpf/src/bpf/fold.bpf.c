// SPDX-License-Identifier: GPL-2.0
/*
 * The program around a fold: loads CCP's primitives, runs the fold, and calls ccp_finish_* if there is something to apply
 * or to report. The loader (frame.rs) makes a copy for each fold program: it inserts the fold's code as fold_code(), and
 * replaces the constant of each primitive by whether the fold reads it, so that the verifier removes unused code.
 */
#include "path_echo.h"
#include "sock.h"
#include <bpf/bpf_tracing.h>

#define NO_RTT_SAMPLE 0xffffffffULL /* libccp's value for an ACK without a sample */
#define ALL_ONES (~0ULL)
#define MAX_AHEAD_BYTES (1 << 20) /* of estimates over the counts of an AccECN receiver */

/* Whether the fold reads a primitive: the loader replaces the constant by 0 or 1. */
#define READS(name)                                                                       \
	({                                                                                \
		u64 reads;                                                                \
		asm volatile("%0 = %1" : "=r"(reads) : "i"(CCP_MAGIC_PRIM + CCP_##name)); \
		reads;                                                                    \
	})
/* Whether it reads a primitive that echoes of the path set. */
#define READS_OF_PATH                                                                         \
	({                                                                                    \
		u64 reads;                                                                    \
		asm volatile("%0 = %1" : "=r"(reads) : "i"(CCP_MAGIC_PRIM + CCP_PRIM_COUNT)); \
		reads;                                                                        \
	})
/* Sets a primitive if the fold reads it. */
#define LOAD(name, value)                                 \
	do {                                              \
		if (READS(name))                          \
			fold->prim[CCP_##name] = (value); \
	} while (0)

/* Replaced by the fold's code. Returns enum ccp_fold_error. */
static __noinline u64 fold_code(struct ccp_flow *flow, struct ccp_fold *fold)
{
	u64 error;

	asm volatile("%0 = 0" : "=r"(error) : "r"(flow), "r"(fold) : "memory");
	return error;
}

/* The event that the fold handles: an ACK or a timeout. */
struct fold_event {
	const struct rate_sample *rs; /* NULL: a retransmission timeout */
	u32 ca_state;
	bool ece;
};

/* An invalid sample (-1 from tcp_rate_gen()) keeps the last valid rate. */
static __always_inline void load_rates(struct tcp_sock *tp, struct ccp_flow *flow,
				       const struct rate_sample *rs)
{
	u64 bytes;

	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return;
	bytes = (u64)rs->delivered * tp->mss_cache * USEC_PER_SEC;
	if (rs->snd_interval_us)
		flow->rate_outgoing_bytes_per_s = bytes / rs->snd_interval_us;
	if (rs->rcv_interval_us)
		flow->rate_incoming_bytes_per_s = bytes / rs->rcv_interval_us;
}

/*
 * Marked bytes of an ACK with ECE. In classic ECN the flag is all that a receiver returns. In AccECN it returns the number
 * of marked packets in each ACK, and that of bytes in an option, which may be missing: then packets count as full-sized,
 * and later counts correct the sum.
 */
static __always_inline u64 marked_bytes(struct tcp_sock *tp, struct ccp_flow *flow, u64 bytes_acked)
{
	s32 bytes;
	u32 estimate;

	if (!is_accecn(tp))
		return bytes_acked;
	estimate = (tp->delivered_ce - flow->last_delivered_ce) * tp->mss_cache;
	flow->last_delivered_ce = tp->delivered_ce;
	bytes = accecn_bytes(tp) - flow->last_ecn_bytes;
	if (bytes > 0)
		estimate = bytes;
	else if (bytes < -MAX_AHEAD_BYTES) /* options no longer arrive */
		return estimate;
	flow->last_ecn_bytes += estimate;
	return estimate;
}

/*
 * CCP's primitives, with the meaning of ccp-kernel's load_primitives(), and ccplane's. Losses are taken from tp->lost, to
 * include packets marked lost between two ACKs.
 */
static __always_inline void load_primitives(struct sock *sk, struct ccp_flow *flow, struct ccp_fold *fold,
					    const struct fold_event *fold_event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct rate_sample *rs = fold_event->rs;
	u64 mss = tp->mss_cache;
	u64 bytes_acked = tp->bytes_acked - flow->last_bytes_acked;
	u32 sacked_out = tp->sacked_out, lost = tp->lost, delivered = tp->delivered;
	u32 misordered = sacked_out > flow->last_sacked_out ? sacked_out - flow->last_sacked_out : 0;
	u32 new_delivered = delivered - flow->last_delivered;

	LOAD(ACK_NOW, tp->tcp_mstamp);
	LOAD(ACK_BYTES_ACKED, bytes_acked);
	LOAD(ACK_PACKETS_ACKED, new_delivered > misordered ? new_delivered - misordered : 0);
	LOAD(ACK_PACKETS_MISORDERED, misordered);
	LOAD(ACK_BYTES_MISORDERED, misordered * mss);
	LOAD(ACK_LOST_PKTS_SAMPLE, lost - flow->last_lost);
	LOAD(FLOW_PACKETS_IN_FLIGHT, packets_in_flight(tp));
	LOAD(FLOW_BYTES_IN_FLIGHT, packets_in_flight(tp) * mss);
	LOAD(FLOW_RTT_SAMPLE_US, rs && rs->rtt_us > 0 ? rs->rtt_us : NO_RTT_SAMPLE);
	LOAD(FLOW_WAS_TIMEOUT, !rs);
	LOAD(FLOW_SRTT_US, tp->srtt_us >> 3);
	LOAD(FLOW_MSS, mss);
	LOAD(FLOW_CA_STATE, fold_event->ca_state);
	LOAD(FLOW_CWND_LIMITED, cwnd_limited(tp));
	LOAD(FLOW_LOCAL_CONGESTION, flow->local_congestion);
	LOAD(FLOW_DELIVERED_BYTES, tp->bytes_acked);
	LOAD(FLOW_SENT_BYTES, tp->bytes_acked + (u32)(tp->snd_nxt - tp->snd_una));
	LOAD(FLOW_PRIOR_DELIVERED, rs ? rs->prior_delivered : 0);
	LOAD(FLOW_PRIOR_IN_FLIGHT, rs ? rs->prior_in_flight : 0);
	LOAD(FLOW_SND_SSTHRESH,
	     tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH ? ALL_ONES : tp->snd_ssthresh * mss);
	LOAD(FLOW_MIN_RTT_US, tp->rtt_min.s[0].v);
	LOAD(ACK_ECN_PACKETS, tp->delivered_ce - flow->last_delivered_ce);
	LOAD(ACK_ECN_BYTES, fold_event->ece ? marked_bytes(tp, flow, bytes_acked) : 0);
	LOAD(FLOW_DELIVERED, delivered);
	LOAD(FLOW_LOST, lost);
	LOAD(FLOW_RETRANS, tp->total_retrans);
	LOAD(FLOW_BYTES_PENDING, tp->write_seq - tp->snd_una);
	LOAD(FLOW_ECN_OK, has_ecn(tp));
	LOAD(FLOW_APP_LIMITED, rs && rs->is_app_limited);
	LOAD(FLOW_RATE_ALLOWED, flow->rate_allowed_bytes_per_s);
	if (READS(FLOW_RATE_INCOMING) | READS(FLOW_RATE_OUTGOING)) {
		if (rs)
			load_rates(tp, flow, rs);
		LOAD(FLOW_RATE_INCOMING, flow->rate_incoming_bytes_per_s);
		LOAD(FLOW_RATE_OUTGOING, flow->rate_outgoing_bytes_per_s);
	}
	if (READS(ACK_ECN_PACKETS))
		flow->last_delivered_ce = tp->delivered_ce;
	flow->last_bytes_acked = tp->bytes_acked;
	flow->last_sacked_out = sacked_out;
	flow->last_lost = lost;
	flow->last_delivered = delivered;
	flow->local_congestion = 0;
}

#define PATH(name) flow->inband[CCP_INT_##name - CCP_INT_AGE_US]

static __always_inline u64 or_zero(u32 word)
{
	return word == ECHO_MISSING ? 0 : word;
}

/* Nodes receive ACKs before TCP does, which may hold them back, or refuse them. */
static __always_inline bool is_acknowledged(const struct tcp_sock *tp, const struct path_echo *path)
{
	return (s32)(tp->snd_una - path->acknowledged) >= 0;
}

/* Copies what echoes brought since the last fold into the slot. */
static __always_inline void load_path(struct sock *sk, struct ccp_flow *flow)
{
	struct path_echo *path = bpf_sk_storage_get(&path_echoes, sk, 0, 0);
	struct tcp_sock *tp = tcp_sk(sk);
	u64 mss = tp->mss_cache, age_us;

	PATH(FRESH) = 0;
	if (path && path->echoes != path->seen && is_acknowledged(tp, path) && take_turn(&path->busy)) {
		path->seen = path->echoes;
		PATH(FRESH) = 1;
		PATH(HOP) = path->hop;
		PATH(NODE) = or_zero(path->node_id);
		PATH(HOPS) = path->hops;
		PATH(ALL_KNOWN) = path->all_known;
		PATH(QUEUE_BYTES) = or_zero(path->queue_pkts) * mss;
		PATH(FREE_BYTES) =
			path->free_pkts == ECHO_UNLIMITED ? ALL_ONES : or_zero(path->free_pkts) * mss;
		PATH(ARRIVAL_BYTES_PER_S) = or_zero(path->arrival_pkts_per_s) * mss;
		PATH(LINK_BYTES_PER_S) = or_zero(path->link_rate_bytes_per_s);
		PATH(FLOW_COUNT) = or_zero(path->flow_count);
		PATH(LOSSES_CONGESTION) = path->losses[LOST_BY_CONGESTION];
		PATH(LOSSES_LINK) = path->losses[LOST_BY_LINK];
		PATH(LOSSES_UNKNOWN) = path->losses[LOST_UNKNOWN];
		flow->echo_left_us = path->left_us;
		end_turn(&path->busy);
	}
	age_us = tp->tcp_mstamp - flow->echo_left_us;
	if ((s64)age_us < 0)
		age_us = 0;
	PATH(AGE_US) = flow->echo_left_us ? age_us : ALL_ONES;
}

/* Runs the fold. Returns whether there is something to apply, to report, or an error. */
static __always_inline bool run_fold(struct sock *sk, const struct fold_event *fold_event)
{
	struct ccp_flow *flow = ccp_flow_of(ccp_sk(sk));
	struct tcp_sock *tp = tcp_sk(sk);
	struct ccp_fold fold;

	if (!flow)
		return false;
	load_primitives(sk, flow, &fold, fold_event);
	if (READS_OF_PATH)
		load_path(sk, flow);
	refresh_cwnd(tp, flow);
	/* libccp's state before a fold: flags clear; Micros, Cwnd and Rate unchanged. */
	fold.impl[CCP_IMPL_EVENT_FLAG] = 0;
	fold.impl[CCP_IMPL_SHOULD_CONTINUE] = 0;
	fold.impl[CCP_IMPL_SHOULD_REPORT] = 0;
	fold.impl[CCP_IMPL_MICROS] = tp->tcp_mstamp - flow->time_zero_us;
	fold.impl[CCP_IMPL_CWND] = flow->cwnd_bytes;
	fold.impl[CCP_IMPL_RATE] = flow->rate_bytes_per_s;
	if (!fold_code(flow, &fold) && !fold.impl[CCP_IMPL_SHOULD_REPORT] &&
	    fold.impl[CCP_IMPL_CWND] - flow->cwnd_floor_bytes < tp->mss_cache &&
	    fold.impl[CCP_IMPL_RATE] == flow->rate_bytes_per_s) {
		flow->cwnd_bytes = fold.impl[CCP_IMPL_CWND]; /* still within the same segment */
		return false;
	}
	flow->finish[CCP_IMPL_SHOULD_REPORT] = fold.impl[CCP_IMPL_SHOULD_REPORT];
	flow->finish[CCP_IMPL_CWND] = fold.impl[CCP_IMPL_CWND];
	flow->finish[CCP_IMPL_RATE] = fold.impl[CCP_IMPL_RATE];
	return true;
}

static __always_inline void fold_ack(void *ctx, struct sock *sk, const struct rate_sample *rs, bool ece)
{
	struct fold_event fold_event = {.rs = rs, .ca_state = tcp_ca_state(tcp_sk(sk)), .ece = ece};

	if (run_fold(sk, &fold_event))
		bpf_tail_call(ctx, &finish_on_ack, 0);
}

SEC("struct_ops")
void BPF_PROG(fold_on_ack, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	fold_ack(ctx, sk, rs, flag & FLAG_ECE);
}

SEC("struct_ops")
void BPF_PROG(fold_on_ack_6_9, struct sock *sk, const struct rate_sample *rs)
{
	fold_ack(ctx, sk, rs, ccp_sk(sk)->ece);
}

SEC("struct_ops")
void BPF_PROG(fold_on_timeout, struct sock *sk, u8 new_state)
{
	struct fold_event fold_event = {.ca_state = new_state};

	if (run_fold(sk, &fold_event))
		bpf_tail_call(ctx, &finish_on_timeout, 0);
}

/* Never registered: tells libbpf the member that each program is loaded for. */
SEC(".struct_ops.link")
struct tcp_congestion_ops___ccp ccp_fold = {
	.cong_control = (void *)fold_on_ack,
	.set_state = (void *)fold_on_timeout,
	.name = "ccp_fold",
};

char LICENSE[] SEC("license") = "GPL";
