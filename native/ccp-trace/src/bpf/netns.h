/* SPDX-License-Identifier: GPL-2.0 */
/* Restricts programs to the sockets of some network namespaces. */
#ifndef CCP_NETNS_H
#define CCP_NETNS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* Inodes of the observed network namespaces, if not all are observed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, u32);
	__type(value, u8);
} netns_wanted SEC(".maps");

static __always_inline bool is_in_wanted_netns(struct sock *sk)
{
	u32 netns = sk->__sk_common.skc_net.net->ns.inum;

	return bpf_map_lookup_elem(&netns_wanted, &netns);
}

#endif
