/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether the agent answers a flow's reports. A heartbeat says only that the agent's loop runs. A flow whose report the agent
 * has not handled within the report timeout runs the fallback, and announces itself until it gets an answer.
 *
 * The agent stores the time of the last report that it has handled (ccp_mailbox.answered_us). These functions compare it
 * with the time of one report that it has not handled; of a later one when that one was. They run whenever the totals are
 * refreshed, not on every ACK. A flow that sends no reports waits for no answer.
 */
#ifndef CCP_ANSWERS_H
#define CCP_ANSWERS_H

#include "flow.h"

/* Sends the record of a new flow: agents ignore it if they know the flow. Returns 0 if it found room. */
static __noinline int announce(struct ccp_flow *flow, u64 now_us)
{
	struct ccp_create create = {};

	if (!flow)
		return 1;
	fill_record(&create.record, flow, CCP_RECORD_CREATE, now_us);
	create.info = flow->info;
	return bpf_ringbuf_output(&records, &create, sizeof(create), 0) ? 1 : 0;
}

/*
 * Whether a report waits for longer than the timeout. Reports that found no room are sent with the next one that finds room,
 * so their time counts only if another one finds no room after the timeout.
 */
static __always_inline bool is_unanswered(struct ccp_flow *flow, u64 now_us, u64 timeout_us)
{
	u64 answered_us = flow->mail.answered_us, last_us = flow->record.now_us;

	if (flow->missed && last_us - flow->missing_us > timeout_us)
		return true;
	if (!flow->missed && flow->asked_us <= answered_us)
		flow->asked_us = last_us;
	return flow->asked_us > answered_us && (s64)(now_us - flow->asked_us) > (s64)timeout_us;
}

/* Moves the flow to the fallback if a report was not answered in time, and announces it from time to time until then. */
static __noinline int look_for_answer(struct sock *sk, struct ccp_flow *flow)
{
	struct ccp_globals *g = ccp_globals();
	struct ccp_sk *ca;
	u64 now_us;

	if (!flow || !g)
		return 0;
	ca = ccp_sk(sk);
	now_us = tcp_sk(sk)->tcp_mstamp;
	if (!ca->fallback) {
		if (!is_unanswered(flow, now_us, g->report_timeout_us))
			return 0;
		flow->counts.fallback_cause = CCP_FALLBACK_UNANSWERED;
		flow_to_fallback(sk, flow);
		ca->fallback = FALLBACK_UNTIL_ANSWERED;
	} else if (ca->fallback != FALLBACK_UNTIL_ANSWERED ||
		   (!flow->missed && now_us - flow->asked_us <= g->report_timeout_us)) {
		return 0;
	}
	flow->asked_us = now_us;
	flow->missed = announce(flow, now_us);
	return 0;
}

#endif
