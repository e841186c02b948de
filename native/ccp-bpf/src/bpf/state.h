/* SPDX-License-Identifier: GPL-2.0 */
/* Per-socket state. It is part of the layout: replacement programs take it over. */
#ifndef CCP_STATE_H
#define CCP_STATE_H

#include "intf.h"
#include "tcp.h"

/*
 * ccplane's part of icsk_ca_priv (104 bytes). The first 64 bytes belong to the kernel's CUBIC (struct bictcp, 60 bytes),
 * which the fallback runs on the same socket.
 */
#define CCP_SK_OFFSET 64

struct ccp_sk {
	u32 slot1; /* index in flows[] + 1; 0: the socket has no slot */
	union {
		u32 generation; /* of the flow; if the slot has another one, it was reclaimed */
		u32 asks_at; /* without a slot: when to ask again [ms], and in NO_SLOT_BITS the reason */
	};
	u32 fallback; /* the kernel's CUBIC is initialised and in control */
	u32 prr_delivered; /* packets delivered in this recovery (RFC 6937), for the fallback */
	u32 prior_ca_state; /* ca_state at the fallback's last ACK */
	u32 undone; /* the kernel has undone this reduction */
	u32 ece; /* kernels before 6.10: this ACK carries ECE, seen by in_ack_event */
	u32 fallback_una; /* snd_una at the fallback's last ACK */
	u16 ce_state; /* DCTCP receiver: the last data segment was marked (RFC 8257 section 3.2) */
	u16 paced_by_us; /* ccplane enabled pacing for an algorithm's rate */
	u32 prior_rcv_nxt; /* DCTCP receiver */
};

#define NO_SLOT_BITS (CCP_NO_SLOT_CAUSES - 1)

_Static_assert(CCP_SK_OFFSET + sizeof(struct ccp_sk) <= 104, "icsk_ca_priv");
_Static_assert(sizeof(struct ccp_sk) <= sizeof(struct ccp_moving), "all of it goes along");

static __always_inline struct ccp_sk *ccp_sk(struct sock *sk)
{
	return (void *)tcp_sk(sk)->inet_conn.icsk_ca_priv + CCP_SK_OFFSET;
}

#endif
