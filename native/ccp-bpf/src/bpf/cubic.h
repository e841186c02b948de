/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's own CUBIC: its functions. */
#ifndef CCP_CUBIC_H
#define CCP_CUBIC_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

extern void cubictcp_init(struct sock *sk) __ksym __weak;
extern u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym __weak;
extern void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym __weak;
extern void cubictcp_state(struct sock *sk, u8 new_state) __ksym __weak;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym __weak;
extern void
cubictcp_cwnd_event_tx_start(struct sock *sk) __ksym __weak; /* since 7.1, instead of cwnd_event */
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym __weak;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

#endif
