// SPDX-License-Identifier: GPL-2.0
/* The congestion control: hooks of tcp_congestion_ops, implemented in flow.h (with agent) and fallback.h (fallback). */
#include "answers.h"
#include "flow.h"
#include "idle.h"
#include "leave.h"
#include "slot.h"
#include <bpf/bpf_tracing.h>

const volatile bool needs_ecn = false;

SEC("struct_ops")
void BPF_PROG(ccp_init, struct sock *sk)
{
	struct ccp_globals *g = ccp_globals();
	struct ccp_sk *ca = ccp_sk(sk);

	if (arrives(sk, ca))
		return;
	ca->slot1 = 0;
	ca->asks_at = 0;
	ca->prior_rcv_nxt = tcp_sk(sk)->rcv_nxt;
	if (!g)
		return;
	if (g->load != load && leave(sk))
		return;
	fallback_enter(sk, ca);
	take_slot(sk);
}

SEC("struct_ops")
void BPF_PROG(ccp_release, struct sock *sk)
{
	struct ccp_sk *ca = ccp_sk(sk);
	struct ccp_flow *flow = ccp_flow_of(ca);

	if (!flow) {
		forget_slotless(ca);
		return;
	}
	if (moving_of(sk))
		return;
	if (flow->extensions)
		extensions_release(ctx, flow->extensions);
	flow_ends(sk, flow);
}

SEC("struct_ops")
u32 BPF_PROG(ccp_ssthresh, struct sock *sk)
{
	struct ccp_sk *ca = ccp_sk(sk);
	u32 half = tcp_sk(sk)->snd_cwnd >> 1;

	if (ca->fallback)
		return fallback_ssthresh(sk);
	/* With cong_control the algorithm sets the window; ssthresh only ends the kernel's slow start. */
	return half > CCP_MIN_CWND_PKTS ? half : CCP_MIN_CWND_PKTS;
}

SEC("struct_ops")
u32 BPF_PROG(ccp_undo_cwnd, struct sock *sk)
{
	ccp_sk(sk)->undone = 1;
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(ccp_set_state, struct sock *sk, u8 new_state)
{
	struct ccp_sk *ca = ccp_sk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct ccp_flow *flow = ccp_flow_of(ca);

	if (flow) {
		/*
		 * A queue of this host refused a packet: the kernel enters CWR while transmitting. If an ACK with ECE is
		 * the reason, that ACK has just raised tp->delivered and no fold has run for it yet.
		 */
		if (new_state == TCP_CA_CWR && tp->delivered == flow->last_delivered) {
			flow->local_congestion++;
			flow->counts.local_congestion++;
		}
		if (new_state == TCP_CA_Loss)
			flow->counts.timeouts++;
		if (follow_agent(sk, ca, flow)) {
			if (new_state == TCP_CA_Loss) {
				u32 program = flow->program;

				flow->report_flags |= CCP_REPORT_TIMEOUT;
				bpf_tail_call(ctx, &folds_on_timeout, program);
				program_is_gone(flow);
			}
			return;
		}
	}
	if (ca->fallback && HAVE_CUBIC)
		cubictcp_state(sk, new_state);
}

/* RFC 8257 section 3.2: a DCTCP receiver's reaction when the CE mark of arriving data changes. */
static __always_inline void dctcp_receive(struct sock *sk, bool ce)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ccp_sk *ca = ccp_sk(sk);

	if (is_accecn(tp)) /* the kernel echoes each mark, and acknowledges changes immediately */
		return;
	if (ca->ce_state != ce) {
		if (tp->inet_conn.icsk_ack.pending & ICSK_ACK_TIMER) {
			/* immediately acknowledge earlier data with the old mark */
			if (ca->ce_state)
				tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
			else
				tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
			bpf_tcp_send_ack(tp, ca->prior_rcv_nxt);
		}
		tp->inet_conn.icsk_ack.pending |= ICSK_ACK_NOW;
	}
	ca->prior_rcv_nxt = tp->rcv_nxt;
	ca->ce_state = ce;
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/* Sending resumes after the flow had nothing to send. Returns the bits of its extensions. */
static __always_inline u32 tx_start(struct sock *sk)
{
	struct ccp_globals *g = ccp_globals();
	struct ccp_sk *ca = ccp_sk(sk);
	struct ccp_flow *flow;

	if (g && may_leave(sk, ca, g) && leave(sk))
		return 0;
	flow = flow_or_turn(sk, ca, g);
	if (flow && follow_agent(sk, ca, flow)) {
		/* If the algorithm paces, the window leaves without a burst; the kernel's BBR also keeps its window. */
		if (!flow->rate_bytes_per_s)
			restart_after_idle(sk);
		return flow->extensions;
	}
	restart_after_idle(sk);
	fallback_tx_start(sk);
	return 0;
}

SEC("struct_ops")
void BPF_PROG(ccp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START) {
		u32 extensions = tx_start(sk);

		if (extensions)
			extensions_cwnd_event(ctx, extensions);
	} else if (needs_ecn && event == CA_EVENT_ECN_IS_CE) {
		dctcp_receive(sk, true);
	} else if (needs_ecn && event == CA_EVENT_ECN_NO_CE) {
		dctcp_receive(sk, false);
	}
}

SEC("struct_ops")
void BPF_PROG(ccp_cwnd_event_tx_start, struct sock *sk)
{
	u32 extensions = tx_start(sk);

	if (extensions)
		extensions_cwnd_event_tx_start(ctx, extensions);
}

/* Needed only where cong_control does not get the ACK's flags (kernels before 6.10); otherwise it would waste CPU. */
SEC("struct_ops")
void BPF_PROG(ccp_in_ack_event, struct sock *sk, u32 flags)
{
	ccp_sk(sk)->ece = !!(flags & CA_ACK_ECE);
}

/* Returns the index of the fold program to run, 0 for none. */
static __always_inline u32 on_ack(void *ctx, struct sock *sk, const struct rate_sample *rs)
{
	struct ccp_sk *ca = ccp_sk(sk);
	struct ccp_globals *g = ccp_globals();
	struct tcp_sock *tp = tcp_sk(sk);
	struct ccp_flow *flow;

	if (g && may_leave(sk, ca, g) && leave(sk))
		return 0;
	flow = flow_or_turn(sk, ca, g);
	if (!flow) {
		fallback_on_ack(sk, ca, rs);
		return 0;
	}
	flow->acks++;
	if ((s64)(tp->tcp_mstamp - flow->stats_due_us) > 0) {
		refresh_stats(sk, flow);
		look_for_answer(sk, flow);
	}
	if (!follow_agent(sk, ca, flow)) {
		flow->last_delivered = tp->delivered; /* set_state() detects local congestion by it */
		fallback_on_ack(sk, ca, rs);
		return 0;
	}
	if (flow->extensions)
		extensions_ack(ctx, flow->extensions);
	if (!flow->rate_bytes_per_s && !flow->pace_cap_bytes_per_s)
		update_pacing_rate(sk);
	return flow->program;
}

static __always_inline void fold_is_gone(struct sock *sk)
{
	struct ccp_flow *flow = ccp_flow_of(ccp_sk(sk));

	if (flow)
		program_is_gone(flow);
}

/* Returns when fold and finish are done. */
static __noinline int fold_and_return(u64 *ctx, u32 program)
{
	bpf_tail_call(ctx, &folds_on_ack, program);
	fold_is_gone(((struct sock **)ctx)[0]);
	return 0;
}

static __always_inline void on_ack_and_fold(void *ctx, struct sock *sk, const struct rate_sample *rs)
{
	u32 program = on_ack(ctx, sk, rs);
	struct ccp_flow *flow;

	if (!program)
		return;
	flow = ccp_flow_of(ccp_sk(sk));
	if (flow && flow->extensions) {
		fold_and_return(ctx, program);
		extensions_fold(ctx, flow->extensions);
		return;
	}
	bpf_tail_call(ctx, &folds_on_ack, program);
	fold_is_gone(sk);
}

SEC("struct_ops")
void BPF_PROG(ccp_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	on_ack_and_fold(ctx, sk, rs);
}

SEC("struct_ops")
void BPF_PROG(ccp_cong_control_6_9, struct sock *sk, const struct rate_sample *rs)
{
	on_ack_and_fold(ctx, sk, rs);
}

SEC("struct_ops")
void BPF_PROG(ccp_finish_on_ack, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	finish_fold(sk);
}

SEC("struct_ops")
void BPF_PROG(ccp_finish_on_ack_6_9, struct sock *sk, const struct rate_sample *rs)
{
	finish_fold(sk);
}

SEC("struct_ops")
void BPF_PROG(ccp_finish_on_timeout, struct sock *sk, u8 new_state)
{
	finish_fold(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___ccp ccp = {
	.ssthresh = (void *)ccp_ssthresh,
	.set_state = (void *)ccp_set_state,
	.cwnd_event = (void *)ccp_cwnd_event,
	.cwnd_event_tx_start = (void *)ccp_cwnd_event_tx_start,
	.in_ack_event = (void *)ccp_in_ack_event,
	.cong_control = (void *)ccp_cong_control,
	.undo_cwnd = (void *)ccp_undo_cwnd,
	.init = (void *)ccp_init,
	.release = (void *)ccp_release,
	.name = "ccp",
	.flags = TCP_CONG_NON_RESTRICTED,
};

/* Never registered: tells libbpf the member that each program is loaded for, so that folds may tail-call it. */
SEC(".struct_ops.link")
struct tcp_congestion_ops___ccp ccp_finish = {
	.cong_control = (void *)ccp_finish_on_ack,
	.set_state = (void *)ccp_finish_on_timeout,
	.name = "ccp_finish",
};

char LICENSE[] SEC("license") = "GPL";
