/* SPDX-License-Identifier: GPL-2.0 */
/* A socket's addresses in the format of rows: IPv6, IPv4-mapped for IPv4. */
#ifndef CCP_ADDRESSES_H
#define CCP_ADDRESSES_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

static __always_inline void put_in6(__u8 *to, const struct in6_addr *from)
{
	for (int i = 0; i < 4; i++)
		((__be32 *)to)[i] = from->in6_u.u6_addr32[i];
}

static __always_inline void put_mapped(__u8 *to, __be32 ipv4)
{
	__be32 *words = (__be32 *)to;

	words[0] = 0;
	words[1] = 0;
	words[2] = bpf_htonl(0xffff);
	words[3] = ipv4;
}

static __always_inline void put_addresses(__u8 *saddr, __u8 *daddr, const struct sock *sk)
{
	if (sk->__sk_common.skc_family == AF_INET6) {
		put_in6(saddr, &sk->__sk_common.skc_v6_rcv_saddr);
		put_in6(daddr, &sk->__sk_common.skc_v6_daddr);
	} else {
		put_mapped(saddr, sk->__sk_common.skc_rcv_saddr);
		put_mapped(daddr, sk->__sk_common.skc_daddr);
	}
}

#endif
