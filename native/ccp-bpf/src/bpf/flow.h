/* SPDX-License-Identifier: GPL-2.0 */
/* A flow's slot: life cycle, mailbox, primitives and reports. */
#ifndef CCP_FLOW_H
#define CCP_FLOW_H

#include "extension.h"
#include "fallback.h"

#define ALL_ONES (~0ULL)

/* Starts CCP's counters: for a new flow, and again when an agent takes over from the fallback. */
static __always_inline void flow_start_counting(struct tcp_sock *tp, struct ccp_flow *flow)
{
	flow->last_bytes_acked = tp->bytes_acked;
	flow->last_sacked_out = tp->sacked_out;
	flow->last_lost = tp->lost;
	flow->last_delivered = tp->delivered;
	flow->last_delivered_ce = tp->delivered_ce;
	if (HAS_ACCECN)
		flow->last_ecn_bytes = accecn_bytes(tp);
	flow->local_congestion = 0;
}

static __always_inline void flow_fill_info(struct sock *sk, struct ccp_flow_info *info, u32 cc_id)
{
	struct tcp_sock *tp = tcp_sk(sk);

	info->family = sk->__sk_common.skc_family;
	put_saddr(info->saddr, sk);
	put_daddr(info->daddr, sk);
	info->sport = sk->__sk_common.skc_num;
	info->dport = bpf_ntohs(sk->__sk_common.skc_dport);
	info->ecn_mode = is_accecn(tp) ? CCP_ECN_ACCECN : has_ecn(tp) ? CCP_ECN_RFC3168 : CCP_ECN_NONE;
	info->mss = tp->mss_cache;
	info->init_cwnd_bytes = tp->snd_cwnd * tp->mss_cache;
	info->cc_id = cc_id;
	info->netns_inum = netns_of(sk);
	info->cgroup_id = cgroup_of(sk);
	info->created_us = tp->tcp_mstamp;
	info->sock_cookie = sk->__sk_common.skc_cookie.counter;
	info->uid = sk->sk_uid.val;
}

static __always_inline void fill_record(struct ccp_record *record, struct ccp_flow *flow, u32 kind,
					u64 now_us)
{
	record->kind = kind;
	record->age_us = 0;
	record->flow_id = flow->flow_id;
	record->now_us = now_us;
	record->cwnd_bytes = flow->cwnd_bytes;
	record->rate_bytes_per_s = flow->rate_bytes_per_s;
	record->program = flow->program;
	record->missed = flow->missed;
	record->flags = flow->report_flags;
}

#define READS_PACKETS (1 << CCP_ACK_ECN_PACKETS)
#define READS_BYTES (1 << CCP_ACK_ECN_BYTES)

/* The kernel's counters of marks are followed only for programs that read them (fold.bpf.c). */
static __always_inline void flow_start_marks(struct tcp_sock *tp, struct ccp_flow *flow, u64 prims_used)
{
	bool accecn = is_accecn(tp);
	u32 read = flow->reads_marks;

	if (!(read & (accecn ? READS_PACKETS | READS_BYTES : READS_PACKETS)))
		flow->last_delivered_ce = tp->delivered_ce;
	if (accecn && !(read & READS_BYTES))
		flow->last_ecn_bytes = accecn_bytes(tp);
	flow->reads_marks = prims_used & (READS_PACKETS | READS_BYTES);
}

/* Sets registers to their initial values, as libccp's reset_state(), init_register_state() and reset_time() do. */
static __always_inline void flow_start_program(struct tcp_sock *tp, struct ccp_flow *flow, u32 program)
{
	struct ccp_program *p = bpf_map_lookup_elem(&programs, &program);

	flow->program = program;
	if (!p || !program)
		return;
	for (int i = 0; i < CCP_MAX_REPORT; i++)
		flow->report[i] = p->report_init[i];
	for (int i = 0; i < CCP_MAX_CONTROL; i++)
		flow->control[i] = p->control_init[i];
	for (int i = 0; i < CCP_MAX_LOCAL; i++)
		flow->local[i] = 0;
	flow_start_marks(tp, flow, p->prims_used);
	flow->record.program_uid = p->uid;
	flow->record.n_fields = p->n_report;
	flow->time_zero_us = tp->tcp_mstamp;
	flow->missed = 0;
	flow->report_flags = 0;
	flow->record.now_us = 0; /* it has sent no report yet */
	flow->asked_us = 0;
}

static __always_inline void flow_set_rate(struct sock *sk, struct ccp_sk *ca, struct ccp_flow *flow, u64 rate)
{
	if (rate == ALL_ONES) /* CCP programs write +infinity for "not paced" */
		rate = 0;
	flow->rate_bytes_per_s = rate;
	apply_rate(sk, ca, flow);
}

/* The program was uninstalled while the flow ran it: the fallback takes over at the next ACK. */
static __always_inline void program_is_gone(struct ccp_flow *flow)
{
	flow->program = 0;
	flow->counts.fallback_cause = CCP_FALLBACK_UNINSTALLED;
}

/* Applies the agent's update. The owner word keeps the agent out during reading, and this program out during writing. */
static __noinline int take_mail(struct sock *sk, struct ccp_flow *flow)
{
	struct ccp_globals *g = ccp_globals();
	struct ccp_mailbox *mail;
	struct ccp_sk *ca;
	u64 mask;

	if (!flow || !g)
		return 0;
	mail = &flow->mail;
	ca = ccp_sk(sk);
	if (__sync_val_compare_and_swap(&mail->owner, CCP_MAIL_FULL, CCP_MAIL_READING) != CCP_MAIL_FULL)
		return 0;
	if (mail->flow_id == flow->flow_id) {
		if (mail->what & CCP_MAIL_PROGRAM) {
			flow_start_program(tcp_sk(sk), flow, mail->program);
			flow->record.stamp = mail->stamp;
			/* A new agent's first update must not hide that its predecessor fell silent. */
			if (!mail->program &&
			    (mail->stamp || flow->counts.fallback_cause != CCP_FALLBACK_SILENT ||
			     !flow->fallback))
				flow->counts.fallback_cause = CCP_FALLBACK_NO_PROGRAM + mail->stamp;
		}
		mask = mail->control_mask;
		for (int i = 0; mask && i < CCP_MAX_CONTROL; i++, mask >>= 1) {
			if (mask & 1)
				flow->control[i] = mail->control[i];
		}
		if (mail->what & CCP_MAIL_EXTENSIONS)
			flow->extensions |= mail->extensions;
		if (mail->what & CCP_MAIL_CWND && mail->cwnd_bytes)
			apply_cwnd(tcp_sk(sk), flow, mail->cwnd_bytes, g->max_cwnd_bytes);
		if (mail->what & CCP_MAIL_RATE)
			flow_set_rate(sk, ca, flow, mail->rate_bytes_per_s);
		flow->counts.mail_applied++;
		flow->counts.mail_applied_us = bpf_ktime_get_ns() / 1000;
	}
	mail->what = 0;
	mail->control_mask = 0;
	__sync_lock_test_and_set(&mail->owner, CCP_MAIL_EMPTY);
	return 0;
}

/* Moves the flow to the fallback, for the cause in its counts. */
static __noinline int flow_to_fallback(struct sock *sk, struct ccp_flow *flow)
{
	struct ccp_globals *g = ccp_globals();
	struct ccp_sk *ca;

	if (!flow || !g)
		return 0;
	ca = ccp_sk(sk);
	fallback_enter(sk, ca);
	flow->fallback = 1;
	flow->rate_bytes_per_s = 0;
	clear_bounds(flow);
	flow->counts.fallback_entries++;
	flow->counts.fallback_entered_us = tcp_sk(sk)->tcp_mstamp;
	flow->counts.fallback_left_us = 0;
	__sync_fetch_and_add(&g->fallback_entries[flow->counts.fallback_cause % CCP_FALLBACK_CAUSES], 1);
	return 0;
}

/*
 * Prepares a flow's return from the fallback: its registers get their initial values. Returns whether the flow may return. If
 * it waits for an answer, that is a report or an announcement that the agent has handled, or a program.
 */
static __noinline int flow_may_return(struct sock *sk, struct ccp_flow *flow)
{
	struct ccp_sk *ca;

	if (!flow)
		return 0;
	ca = ccp_sk(sk);
	if (ca->fallback == FALLBACK_UNTIL_ANSWERED && flow->asked_us > flow->mail.answered_us) {
		if (flow->mail.owner == CCP_MAIL_FULL)
			take_mail(sk, flow);
		if (flow->asked_us)
			return 0;
	} else {
		flow_start_program(tcp_sk(sk), flow, flow->program);
	}
	ca->fallback = 1;
	return 1;
}

/*
 * Applies the agent's update, and enters or leaves the fallback depending on whether there are a program and an agent.
 * When a flow leaves the fallback its registers have their initial values, except those set by the update. Returns whether
 * the algorithm is in control.
 */
static __always_inline bool follow_agent(struct sock *sk, struct ccp_sk *ca, struct ccp_flow *flow)
{
	struct ccp_globals *g = ccp_globals();
	struct tcp_sock *tp = tcp_sk(sk);
	bool silent;

	if (!g)
		return false;
	silent = (s64)(tp->tcp_mstamp - g->heartbeat_us) > (s64)g->heartbeat_timeout_us;
	if (ca->fallback && !silent && !flow_may_return(sk, flow))
		return false;
	if (flow->mail.owner == CCP_MAIL_FULL)
		take_mail(sk, flow);
	if (!flow->program || silent) {
		if (!ca->fallback) {
			if (silent)
				flow->counts.fallback_cause = CCP_FALLBACK_SILENT;
			flow_to_fallback(sk, flow);
		}
		return false;
	}
	if (ca->fallback) {
		ca->fallback = 0;
		flow->fallback = 0;
		flow->counts.fallback_left_us = tp->tcp_mstamp;
		flow_start_counting(tp, flow);
	}
	return true;
}

/*
 * Sends the report registers. Volatile ones are reset only if the report fits into the ring. Otherwise the next report
 * carries their sum, and the number of reports in it.
 */
static __always_inline void send_report(struct ccp_globals *g, struct ccp_flow *flow, u64 ack_us)
{
	u32 n = flow->record.n_fields, program = flow->program;
	struct ccp_program *p = bpf_map_lookup_elem(&programs, &program);

	if (!p || n > CCP_MAX_REPORT)
		return;
	fill_record(&flow->record, flow, CCP_RECORD_REPORT, ack_us);
	u64 now_us = bpf_ktime_get_ns() / 1000;
	u64 wake = now_us < g->looks_at_us ? BPF_RB_NO_WAKEUP : 0;

	flow->record.age_us = now_us - flow->record.now_us;
	if (bpf_ringbuf_output(&records, &flow->record, sizeof(flow->record) + n * sizeof(u64), wake)) {
		if (!flow->missed++)
			flow->missing_us = ack_us;
		flow->counts.reports_missed++;
		__sync_fetch_and_add(&g->reports_missed, 1);
		return;
	}
	flow->counts.reports++;
	flow->missed = 0;
	flow->report_flags = 0;
	/* Unrolled: verifiers before 6.4 reject clang's layout of these loops ("back-edge"). */
#pragma clang loop unroll(full)
	for (u32 i = 0; i < CCP_MAX_REPORT; i++) {
		if (p->report_volatile >> i & 1)
			flow->report[i] = p->report_init[i];
	}
	if (!p->control_volatile)
		return;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < CCP_MAX_CONTROL; i++) {
		if (p->control_volatile >> i & 1)
			flow->control[i] = p->control_init[i];
	}
}

/* Runs after a fold with results to apply, a report to send or an error. */
static __always_inline void finish_fold(struct sock *sk)
{
	struct ccp_sk *ca = ccp_sk(sk);
	struct ccp_flow *flow = ccp_flow_of(ca);
	struct ccp_globals *g = ccp_globals();

	if (!flow || !g)
		return;
	if (flow->fold_error) { /* as libccp: registers stay, nothing is applied or reported */
		flow->counts.last_fold_error = flow->fold_error;
		flow->counts.fold_errors++;
		flow->fold_error = CCP_FOLD_OK;
		flow->report_flags |= CCP_REPORT_FOLD_ERROR;
		__sync_fetch_and_add(&g->fold_errors, 1);
		return;
	}
	if (flow->finish[CCP_IMPL_CWND])
		apply_cwnd(tcp_sk(sk), flow, flow->finish[CCP_IMPL_CWND], g->max_cwnd_bytes);
	if (flow->finish[CCP_IMPL_RATE] != flow->rate_bytes_per_s)
		flow_set_rate(sk, ca, flow, flow->finish[CCP_IMPL_RATE]);
	if (flow->finish[CCP_IMPL_SHOULD_REPORT])
		send_report(g, flow, tcp_sk(sk)->tcp_mstamp);
}

#endif
