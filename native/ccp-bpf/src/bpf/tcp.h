/* SPDX-License-Identifier: GPL-2.0 */
/* Reading a TCP socket. */
#ifndef CCP_TCP_H
#define CCP_TCP_H

#include "ecn.h"
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define USEC_PER_SEC 1000000ULL

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline u32 tcp_ca_state(struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
}

static __always_inline u32 packets_in_flight(struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline void put_be32(__u8 *out, __be32 address)
{
	__builtin_memcpy(out, &address, sizeof(address));
}

static __always_inline void put_in6(__u8 *out, const struct in6_addr *address)
{
	for (int i = 0; i < 4; i++)
		put_be32(out + 4 * i, address->in6_u.u6_addr32[i]);
}

/* IPv4-mapped IPv6 address: ::ffff:a.b.c.d. */
static __always_inline void put_mapped(__u8 *out, __be32 address)
{
	__builtin_memset(out, 0, 8);
	put_be32(out + 8, bpf_htonl(0xffff));
	put_be32(out + 12, address);
}

/* The socket's local address, 16 bytes. */
static __always_inline void put_saddr(__u8 *out, struct sock *sk)
{
	if (sk->__sk_common.skc_family == AF_INET6)
		put_in6(out, &sk->__sk_common.skc_v6_rcv_saddr);
	else
		put_mapped(out, sk->__sk_common.skc_rcv_saddr);
}

/* The remote address, 16 bytes. */
static __always_inline void put_daddr(__u8 *out, struct sock *sk)
{
	if (sk->__sk_common.skc_family == AF_INET6)
		put_in6(out, &sk->__sk_common.skc_v6_daddr);
	else
		put_mapped(out, sk->__sk_common.skc_daddr);
}

/* Id of the socket's cgroup (v2); 0 if the kernel has none. */
static __always_inline u64 cgroup_of(struct sock *sk)
{
	if (bpf_core_field_exists(sk->sk_cgrp_data) && sk->sk_cgrp_data.cgroup)
		return sk->sk_cgrp_data.cgroup->kn->id;
	return 0;
}

static __always_inline u32 netns_of(struct sock *sk)
{
	return sk->__sk_common.skc_net.net ? sk->__sk_common.skc_net.net->ns.inum : 0;
}

#endif
