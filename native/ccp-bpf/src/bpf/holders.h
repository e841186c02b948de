/* SPDX-License-Identifier: GPL-2.0 */
/* Slots per user and per cgroup. */
#ifndef CCP_HOLDERS_H
#define CCP_HOLDERS_H

#include "maps.h"

/* Set in the count of a holder that has no slots left and is being removed. Above all quotas. */
#define HOLDER_GOES (1U << 31)

/* Takes a slot for the holder if its quota allows. Fails also during the short time of its removal. */
static __noinline int holder_takes(u64 id, u32 kind, u32 maximum)
{
	struct ccp_holder holder = {.id = id, .kind = kind};
	u32 none = 0, *count;

	bpf_map_update_elem(&holders, &holder, &none, BPF_NOEXIST);
	count = bpf_map_lookup_elem(&holders, &holder);
	if (!count)
		return 0; /* no memory */
	if (__sync_fetch_and_add(count, 1) < maximum)
		return 1;
	__sync_fetch_and_sub(count, 1);
	return 0;
}

static __noinline int holder_gives_back(u64 id, u32 kind)
{
	struct ccp_holder holder = {.id = id, .kind = kind};
	u32 *count = bpf_map_lookup_elem(&holders, &holder);

	/* Whoever sets the mark removes the holder: nothing else counts in it from now on. */
	if (count && __sync_fetch_and_sub(count, 1) == 1 &&
	    __sync_val_compare_and_swap(count, 0, HOLDER_GOES) == 0)
		bpf_map_delete_elem(&holders, &holder);
	return 0;
}

#endif
