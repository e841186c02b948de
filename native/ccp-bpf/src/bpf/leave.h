/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sockets of replaced programs move to the replacement by themselves, at their next event. So sockets need not be found:
 * even a listener or a namespace default that the agent cannot reach creates sockets that move immediately.
 */
#ifndef CCP_LEAVE_H
#define CCP_LEAVE_H

#include "fallback.h"

#define TCP_CONGESTION 13

/* The copy of the programs, and its registered name; set by the loader. */
const volatile u32 load = 0;
const volatile char cc_name[CCP_NAME_LEN] = {};

static __always_inline struct ccp_moving *moving_of(struct sock *sk)
{
	u64 address = (u64)sk;

	return bpf_map_lookup_elem(&moving, &address);
}

/* Sets the socket's congestion control by name. Returns whether it changed. */
static __always_inline bool go_to(struct sock *sk, char *name)
{
	u64 before = (u64)tcp_sk(sk)->inet_conn.icsk_ca_ops;

	if (bpf_setsockopt(sk, IPPROTO_TCP, TCP_CONGESTION, name, CCP_NAME_LEN))
		return false;
	barrier();
	return (u64)tcp_sk(sk)->inet_conn.icsk_ca_ops != before;
}

/*
 * Returns whether the socket has moved; this program must not touch it then. The kernel calls release and init meanwhile. If
 * the maps stay, the new programs take over slot and state; if there is no room to pass the state, the flow is new there.
 */
static __noinline int leave(struct sock *sk)
{
	struct ccp_globals *g = ccp_globals();
	char name[CCP_NAME_LEN] = {}, plain[CCP_NAME_LEN] = "ccp";
	struct ccp_moving along;
	u64 address = (u64)sk;
	struct ccp_sk *ca;
	bool left;

	if (!g)
		return 0;
	ca = ccp_sk(sk);
	if (g->goes_to[0]) {
		__builtin_memcpy(name, g->goes_to, sizeof(name));
	} else {
		for (int i = 0; i < CCP_NAME_LEN; i++)
			name[i] = cc_name[i];
	}
	if (g->load && ca->slot1) {
		__builtin_memcpy(along.state, ca, sizeof(along.state));
		bpf_map_update_elem(&moving, &address, &along, BPF_ANY);
	}
	left = go_to(sk, name) || go_to(sk, plain); /* its own name may have been unregistered */
	bpf_map_delete_elem(&moving, &address);
	return left;
}

/*
 * Whether the socket should move now. If moving flows are new to the agent, it admits them gradually; if it falls silent,
 * they no longer wait.
 */
static __always_inline bool may_leave(struct sock *sk, struct ccp_sk *ca, struct ccp_globals *g)
{
	if (g->load == load)
		return false;
	return ca->slot1 <= g->leaves ||
	       (s64)(tcp_sk(sk)->tcp_mstamp - g->heartbeat_us) > (s64)g->heartbeat_timeout_us;
}

/* Takes over a socket of the replaced programs, with its slot. Returns whether it is one. */
static __always_inline bool arrives(struct sock *sk, struct ccp_sk *ca)
{
	struct ccp_moving *along = moving_of(sk);
	u32 fallback;

	if (!along)
		return false;
	__builtin_memcpy(ca, along->state, sizeof(along->state));
	fallback = ca->fallback;
	if (fallback) {
		fallback_enter(sk, ca);
		ca->fallback = fallback; /* also until the agent answers */
	}
	return true;
}

#endif
