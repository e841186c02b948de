/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * Defines which remote ends are one client and share its limit: those with addresses of a prefix and ports of a block.
 *
 * Operators limit subscribers, not addresses. In IPv6 a subscriber has a prefix, at least a /64 (RFC 6177), and its hosts
 * change addresses in it (RFC 8981). In IPv4 it may have a block of an address's ports, if carrier-grade NAT maps so (RFC
 * 7422, RFC 7753), also behind NAT64. Ports below 1024 are one block: NAT skips the system ports, and counts from there.
 *
 * Not distinguished: sets of ports that are not a block (MAP-E, RFC 7597), and subscribers with random ports.
 */
#ifndef RTCP_REMOTE_H
#define RTCP_REMOTE_H

#include "types.h"

enum {
	RTCP_MAPPED_BITS = 96, /* length of the IPv4-mapped prefix */
	RTCP_FIRST_USER_PORT = 1024,
	RTCP_LAST_PORT = 65535,
};

/* Ends of connections that belong to one client. */
struct rtcp_remote {
	__u8 address[16]; /* zero beyond the prefix; IPv4-mapped for IPv4 */
	__u16 first_port; /* host order */
	__u16 last_port;
	__u8 prefix_bits;
	__u8 pad[3];
};

/* Whether it is one port of one address. */
static inline int rtcp_is_single(const struct rtcp_remote *remote)
{
	return remote->prefix_bits == 128 && remote->first_port == remote->last_port;
}

/* Makes it a client with a single port at `remote->address`, which must be complete. */
static inline void rtcp_remote_single(struct rtcp_remote *remote, __u32 port)
{
	remote->first_port = remote->last_port = port;
	remote->prefix_bits = 128;
	__builtin_memset(remote->pad, 0, sizeof(remote->pad));
}

/* ::ffff:0:0/96 */
static inline int rtcp_is_mapped(const __u8 *address)
{
	for (int i = 0; i < 10; i++)
		if (address[i])
			return 0;
	return address[10] == 0xff && address[11] == 0xff;
}

/*
 * Addresses of IPv4 hosts behind NAT64: 64:ff9b::/96 (RFC 6052) and 64:ff9b:1::/48 (RFC 8215), within which all bits may be
 * of the IPv4 address.
 */
static inline int rtcp_is_nat64(const __u8 *address)
{
	if (address[0] || address[1] != 0x64 || address[2] != 0xff || address[3] != 0x9b || address[4])
		return 0;
	if (address[5])
		return address[5] == 1;
	for (int i = 6; i < 12; i++)
		if (address[i])
			return 0;
	return 1;
}

/* The client of a port at `remote->address`, which must be complete. Ports below 1024 are one block, which NAT skips. */
static inline void rtcp_remote_of(struct rtcp_remote *remote, const struct rtcp_options *o, __u32 port)
{
	__u32 bits = o->ipv6_prefix_bits, block = o->ports_per_client, first = 0, last = RTCP_LAST_PORT;

	if (rtcp_is_mapped(remote->address) || rtcp_is_nat64(remote->address))
		bits = RTCP_MAPPED_BITS + o->ipv4_prefix_bits;
	for (__u32 i = 0; i < 16; i++) {
		__u32 kept = bits > 8 * i ? bits - 8 * i : 0;

		if (kept < 8)
			remote->address[i] &= (__u8)(0xff00U >> kept);
	}
	if (block && port < RTCP_FIRST_USER_PORT) {
		last = RTCP_FIRST_USER_PORT - 1;
	} else if (block) {
		first = port - (port - RTCP_FIRST_USER_PORT) % block;
		if (first + block - 1 < last)
			last = first + block - 1;
	}
	remote->first_port = first;
	remote->last_port = last;
	remote->prefix_bits = bits;
	__builtin_memset(remote->pad, 0, sizeof(remote->pad));
}

#endif
