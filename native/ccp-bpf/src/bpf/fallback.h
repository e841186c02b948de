/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fallback: the kernel's own CUBIC, for flows without a program, an agent or a slot. A congestion control with
 * cong_control has to handle recovery itself, so proportional rate reduction (RFC 6937) is done here. Nothing in this file
 * needs a slot: all state is in icsk_ca_priv.
 */
#ifndef CCP_FALLBACK_H
#define CCP_FALLBACK_H

#include "sock.h"
#include "cubic.h"

extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;

/*
 * Which of these functions the running kernel has; set by the loader, because bpf_ksym_exists needs Linux 6.4. If CUBIC is
 * a module that is not loaded, Reno is used.
 */
const volatile bool have_cubic = false;
const volatile bool have_cubic_cwnd_event = false;
const volatile bool have_cubic_tx_start = false;
#define HAVE_CUBIC have_cubic

/* Value of ccp_sk.fallback: the fallback keeps the flow until the agent answers, even if there are a program and a heartbeat. */
#define FALLBACK_UNTIL_ANSWERED 2

static __always_inline void fallback_enter(struct sock *sk, struct ccp_sk *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 min_rtt_us = tp->rtt_min.s[0].v, slack_us = min_rtt_us >> 3;

	if (HAVE_CUBIC)
		cubictcp_init(sk);
	ca->prr_delivered = 0;
	ca->prior_ca_state = tcp_ca_state(tp);
	ca->undone = 0;
	ca->fallback_una = tp->snd_una;
	ca->fallback = 1;
	/*
	 * CUBIC starts from the algorithm's window. It may stay in slow start (with HyStart) only if the path shows neither a
	 * loss nor a queue, by HyStart's threshold.
	 */
	if (slack_us < 4000)
		slack_us = 4000;
	if (tp->lost || tp->srtt_us >> 3 > min_rtt_us + slack_us) {
		if (tp->snd_ssthresh > tp->snd_cwnd)
			tp->snd_ssthresh =
				tp->snd_cwnd > CCP_MIN_CWND_PKTS ? tp->snd_cwnd : CCP_MIN_CWND_PKTS;
	}
	stop_pacing(sk, ca);
}

static __always_inline bool in_reduction(u32 ca_state)
{
	return ca_state == TCP_CA_CWR || ca_state == TCP_CA_Recovery;
}

/* Keeps ssthresh, which becomes the window, between two packets and the window before the reduction. */
static __always_inline void clamp_ssthresh(struct tcp_sock *tp)
{
	if (tp->snd_ssthresh > tp->prior_cwnd)
		tp->snd_ssthresh = tp->prior_cwnd;
	if (tp->snd_ssthresh < CCP_MIN_CWND_PKTS)
		tp->snd_ssthresh = CCP_MIN_CWND_PKTS;
}

/* RFC 6937 section 3, with the slow-start reduction bound of RFC 9937 as Linux applies it. */
static __always_inline void fallback_prr(struct tcp_sock *tp, struct ccp_sk *ca, u32 delivered, bool progress)
{
	u32 in_flight = packets_in_flight(tp), ssthresh = tp->snd_ssthresh;
	s64 send;

	if (!delivered || !tp->prior_cwnd)
		return;
	ca->prr_delivered += delivered;
	if (in_flight > ssthresh) {
		u64 share = (u64)ssthresh * ca->prr_delivered + tp->prior_cwnd - 1;

		send = (s64)(share / tp->prior_cwnd) - tp->prr_out;
	} else {
		send = (s64)ca->prr_delivered - tp->prr_out;
		if (send < delivered)
			send = delivered;
		send += progress;
		if (send > ssthresh - in_flight)
			send = ssthresh - in_flight;
	}
	if (send < !tp->prr_out)
		send = !tp->prr_out; /* the first retransmission always leaves */
	if (send < 0)
		send = 0;
	tp->snd_cwnd = in_flight + (u32)send;
}

static __always_inline void fallback_on_ack(struct sock *sk, struct ccp_sk *ca, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 state = tcp_ca_state(tp), prior = ca->prior_ca_state;
	u32 delivered = rs->acked_sacked;
	bool advanced = tp->snd_una != ca->fallback_una;

	if (rs->rtt_us > 0 && HAVE_CUBIC) {
		struct ack_sample sample = {
			.pkts_acked = delivered,
			.rtt_us = rs->rtt_us,
			.in_flight = packets_in_flight(tp),
		};

		cubictcp_acked(sk, &sample);
	}
	/* On some kernels hooks can return wrong numbers (docs/kernels.md). An undo restores the ssthresh before. */
	if ((in_reduction(state) || in_reduction(prior)) && !ca->undone && tp->prior_cwnd)
		clamp_ssthresh(tp);
	if (in_reduction(state)) {
		fallback_prr(tp, ca, delivered, advanced && !rs->losses);
	} else {
		if (in_reduction(prior) && !ca->undone && state != TCP_CA_Loss)
			tp->snd_cwnd = tp->snd_ssthresh;
		if (advanced) {
			if (HAVE_CUBIC)
				cubictcp_cong_avoid(sk, tp->snd_una, delivered);
			else
				tcp_reno_cong_avoid(sk, tp->snd_una, delivered);
		}
	}
	ca->fallback_una = tp->snd_una;
	ca->prior_ca_state = state;
	update_pacing_rate(sk);
}

static __always_inline u32 fallback_ssthresh(struct sock *sk)
{
	struct ccp_sk *ca = ccp_sk(sk);

	ca->prr_delivered = 0; /* a reduction begins, perhaps on the ACK that ended the previous one */
	ca->undone = 0;
	return HAVE_CUBIC ? cubictcp_recalc_ssthresh(sk) : tcp_reno_ssthresh(sk);
}

static __always_inline void fallback_tx_start(struct sock *sk)
{
	if (have_cubic_tx_start)
		cubictcp_cwnd_event_tx_start(sk);
	else if (have_cubic_cwnd_event)
		cubictcp_cwnd_event(sk, CA_EVENT_TX_START);
}

#endif
