/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How sockets get a slot and return it. A socket that finds none runs the fallback, and asks again from time to time, at its
 * events. The agent may reclaim a slot (reap.rs): the socket notices by the generation, and asks for another one.
 */
#ifndef CCP_SLOT_H
#define CCP_SLOT_H

#include "answers.h"
#include "flow.h"
#include "holders.h"
#include "leave.h"

/* One copy of these programs is loaded per registered name. */
const volatile u32 cc_id = 0;

#define ASK_AGAIN_MS 1000

/* Approximate milliseconds. */
static __always_inline u32 now_ms(struct tcp_sock *tp)
{
	return tp->tcp_mstamp >> 10;
}

static __always_inline void give_back(u64 uid, u64 cgroup_id, u32 held)
{
	if (held & CCP_HOLDER_USER)
		holder_gives_back(uid, CCP_HOLDER_USER);
	if (held & CCP_HOLDER_CGROUP)
		holder_gives_back(cgroup_id, CCP_HOLDER_CGROUP);
}

/* Counts the socket in `held` if there are quotas. Returns whether it is within them. */
static __always_inline bool within_quotas(struct sock *sk, struct ccp_globals *g, u32 *held)
{
	u64 cgroup_id;

	*held = 0;
	if (g->flows_per_user) {
		if (!holder_takes(sk->sk_uid.val, CCP_HOLDER_USER, g->flows_per_user))
			return false;
		*held |= CCP_HOLDER_USER;
	}
	cgroup_id = g->flows_per_cgroup ? cgroup_of(sk) : 0;
	if (cgroup_id) {
		if (!holder_takes(cgroup_id, CCP_HOLDER_CGROUP, g->flows_per_cgroup)) {
			give_back(sk->sk_uid.val, 0, *held);
			return false;
		}
		*held |= CCP_HOLDER_CGROUP;
	}
	return true;
}

/* Stops counting the socket as one without a slot. */
static __always_inline void forget_slotless(struct ccp_sk *ca)
{
	struct ccp_globals *g = ccp_globals();
	u32 cause = ca->slot1 ? 0 : ca->asks_at & NO_SLOT_BITS;

	if (g && cause)
		__sync_fetch_and_sub(&g->without_slot[cause & NO_SLOT_BITS], 1);
}

/* Schedules the socket's next request. It is counted when it is first refused. */
static __always_inline void ask_later(struct tcp_sock *tp, struct ccp_sk *ca, struct ccp_globals *g,
				      u32 cause)
{
	bool first = !(ca->asks_at & NO_SLOT_BITS);

	if (first && cause == CCP_NO_SLOT_LIMIT)
		__sync_fetch_and_add(&g->flows_over_limit, 1);
	if (first && cause == CCP_NO_SLOT_QUOTA)
		__sync_fetch_and_add(&g->flows_over_quota, 1);
	forget_slotless(ca);
	__sync_fetch_and_add(&g->without_slot[cause & NO_SLOT_BITS], 1);
	ca->asks_at = ((now_ms(tp) + ASK_AGAIN_MS) & ~NO_SLOT_BITS) | cause;
}

static __always_inline u32 next_generation(struct ccp_globals *g)
{
	u32 generation = __sync_add_and_fetch(&g->generation, 1);

	return generation ? generation : (u32)__sync_add_and_fetch(&g->generation, 1);
}

/* Makes the socket a new flow if there is a free slot; returns whether. The fallback has it until an agent sets a program. */
static __noinline int take_slot(struct sock *sk)
{
	struct ccp_globals *g = ccp_globals();
	struct ccp_sk *ca = ccp_sk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct ccp_flow *flow;
	u32 generation;
	u32 slot, held;

	if (!g)
		return 0;
	if (!within_quotas(sk, g, &held)) {
		ask_later(tp, ca, g, CCP_NO_SLOT_QUOTA);
		return 0;
	}
	if (bpf_map_pop_elem(&free_slots, &slot)) {
		if (held)
			give_back(sk->sk_uid.val, cgroup_of(sk), held);
		ask_later(tp, ca, g, CCP_NO_SLOT_LIMIT);
		return 0;
	}
	flow = bpf_map_lookup_elem(&flows, &slot);
	if (!flow)
		return 0;
	generation = next_generation(g);
	flow->flow_id = (u64)generation << 32 | slot;
	flow->program = 0;
	flow->fallback = 1;
	flow->applied_pkts = tp->snd_cwnd;
	flow->cwnd_bytes = (u64)tp->snd_cwnd * tp->mss_cache;
	flow->cwnd_floor_bytes = flow->cwnd_bytes;
	flow->rate_bytes_per_s = 0;
	flow->extensions = 0;
	clear_bounds(flow);
	flow->fold_error = CCP_FOLD_OK;
	flow->missed = 0;
	flow->report_flags = 0;
	flow->record.now_us = 0;
	flow->asked_us = 0;
	__builtin_memset(&flow->counts, 0, sizeof(flow->counts));
	flow->counts.fallback_entered_us = tp->tcp_mstamp;
	flow->acks = 0;
	flow->rate_incoming_bytes_per_s = 0;
	flow->rate_outgoing_bytes_per_s = 0;
	flow->echo_left_us = 0;
	__builtin_memset(&flow->inband, 0, sizeof(flow->inband));
	flow_fill_info(sk, &flow->info, cc_id);
	flow->info.held = held;
	flow_start_counting(tp, flow);
	refresh_stats(sk, flow);
	/* An update for the slot's last flow may still be here, or being written: its flow_id shows it. */
	__sync_val_compare_and_swap(&flow->mail.owner, CCP_MAIL_FULL, CCP_MAIL_EMPTY);
	flow->state = CCP_FLOW_ACTIVE;
	forget_slotless(ca);
	ca->slot1 = slot + 1;
	ca->generation = generation;
	__sync_fetch_and_add(&g->flows_active, 1);

	if (announce(flow, tp->tcp_mstamp))
		__sync_fetch_and_add(&g->creates_missed, 1);
	return 1;
}

/*
 * Returns the socket's flow. A socket without a slot asks again if it is time. One that never asked is not initialised yet:
 * the ACK of its SYN precedes init.
 */
static __always_inline struct ccp_flow *flow_or_turn(struct sock *sk, struct ccp_sk *ca,
						     struct ccp_globals *g)
{
	struct ccp_flow *flow = ccp_flow_of(ca);

	if (flow || !g)
		return flow;
	if (ca->slot1) { /* it was reclaimed */
		ca->slot1 = 0;
		ca->asks_at = 0;
		if (!ca->fallback)
			fallback_enter(sk, ca);
	} else if (!(ca->asks_at & NO_SLOT_BITS) || g->flows_active >= g->max_flows ||
		   (s32)(now_ms(tcp_sk(sk)) - ca->asks_at) < 0) {
		return NULL;
	}
	return g->load == load && take_slot(sk) ? ccp_flow_of(ca) : NULL;
}

/*
 * Reports the flow's last totals and frees its slot, unless an agent has just reclaimed it: only one of the two clears the
 * flow's id. A separate function, because kernels forbid tail calls (to extensions) in a caller with so large a stack.
 */
static __noinline int flow_ends(struct sock *sk, struct ccp_flow *flow)
{
	struct ccp_globals *g = ccp_globals();
	struct ccp_sk *ca = ccp_sk(sk);
	struct ccp_close close = {};
	u32 slot = ca->slot1 - 1;
	u64 flow_id = (u64)ca->generation << 32 | slot;

	ca->slot1 = 0;
	ca->asks_at = 0;
	if (!flow || !g)
		return 0;
	refresh_stats(sk, flow);
	fill_record(&close.record, flow, CCP_RECORD_CLOSE, tcp_sk(sk)->tcp_mstamp);
	close.record.flow_id = flow_id;
	close.stats = flow->stats;
	close.counts = flow->counts;
	if (__sync_val_compare_and_swap(&flow->flow_id, flow_id, 0) != flow_id)
		return 0;
	if (flow->info.held)
		give_back(flow->info.uid, flow->info.cgroup_id, flow->info.held);
	flow->state = CCP_FLOW_FREE; /* first, so that readers of the record find the flow gone */
	if (bpf_ringbuf_output(&records, &close, sizeof(close), 0))
		__sync_fetch_and_add(&g->closes_missed, 1);
	if (bpf_map_push_elem(&free_slots, &slot, BPF_ANY)) {
		/* The queue's lock can be refused; the agent returns the slot (reap.rs). */
		flow->state = CCP_FLOW_REAPED;
		__sync_fetch_and_add(&g->slots_not_returned, 1);
		return 0;
	}
	__sync_fetch_and_sub(&g->flows_active, 1);
	return 0;
}

#endif
