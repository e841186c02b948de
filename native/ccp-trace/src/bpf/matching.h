/* SPDX-License-Identifier: GPL-2.0 */
/* Whether a rule matches a socket. */
#ifndef CCP_MATCHING_H
#define CCP_MATCHING_H

#include "kernel.h"
#include "conditions.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define MAX_CGROUP_DEPTH 32

/* The properties of a connection that rules may check. */
struct connection {
	__u64 saddr[2];
	__u64 daddr[2];
	__u64 cgroup; /* address of its struct; 0: unknown yet, matches any */
	__u16 sport;
	__u16 dport;
};

/* Whether a cgroup has this id, or is below the one that has. */
static __always_inline bool is_within(u64 address, u64 id)
{
	struct cgroup *cgroup = (struct cgroup *)address, *ancestor;
	int level = BPF_CORE_READ(cgroup, level);
	void *ancestors = __builtin_preserve_access_index(&cgroup->ancestors[0]);

	for (int i = 0; i < MAX_CGROUP_DEPTH; i++) {
		if (i > level)
			return false;
		if (bpf_probe_read_kernel(&ancestor, sizeof(ancestor), ancestors + i * sizeof(ancestor)))
			return false;
		if (BPF_CORE_READ(ancestor, kn, id) == id)
			return true;
	}
	return false;
}

static __always_inline bool has_prefix(const __u64 *address, const __u64 *prefix, const __u64 *mask)
{
	return !(((address[0] ^ prefix[0]) & mask[0]) | ((address[1] ^ prefix[1]) & mask[1]));
}

static __always_inline bool matches(const struct connection *it, const struct socket_conditions *wanted)
{
	if (!has_prefix(it->saddr, wanted->src, wanted->src_mask) ||
	    !has_prefix(it->daddr, wanted->dst, wanted->dst_mask))
		return false;
	if (it->sport < wanted->sport_low || it->sport > wanted->sport_high ||
	    it->dport < wanted->dport_low || it->dport > wanted->dport_high)
		return false;
	return wanted->cgroup == ANY_CGROUP || !it->cgroup || is_within(it->cgroup, wanted->cgroup);
}

#endif
