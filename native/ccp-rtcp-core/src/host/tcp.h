/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The members of a TCP socket that clients.h reads, under the kernel's names, for the host. Rust sets them. */
#ifndef CCP_TCP_H
#define CCP_TCP_H

#include <stdbool.h>
#include <stddef.h>

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
#define __VMLINUX_H__

#define __always_inline inline
#define __noinline
#define USEC_PER_SEC 1000000ULL

/* A connection's namespace and remote end. */
struct sock {
	__u32 netns;
	__u16 dport;
	__u8 daddr[16];
};

struct minmax {
	struct {
		__u32 v;
	} s[1];
};

struct tcp_sock {
	struct sock sk;
	__u64 tcp_mstamp;
	__u64 bytes_sent;
	__u64 write_seq;
	__u64 snd_una;
	__u32 delivered;
	__u32 lost;
	__u32 in_flight_pkts;
	__u32 packets_out;
	__u32 data_segs_out;
	__u32 mss_cache;
	__u32 srtt_us; /* times eight, as in the kernel */
	struct minmax rtt_min;
};

static inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static inline u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->in_flight_pkts;
}

static inline void put_daddr(__u8 *out, const struct sock *sk)
{
	__builtin_memcpy(out, sk->daddr, sizeof(sk->daddr));
}

static inline u32 dport_of(const struct sock *sk)
{
	return sk->dport;
}

static inline u32 netns_of(const struct sock *sk)
{
	return sk->netns;
}

static inline u64 netns_cookie_of(const struct sock *sk)
{
	return sk->netns;
}

#endif
