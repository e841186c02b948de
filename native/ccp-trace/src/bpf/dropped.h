/* SPDX-License-Identifier: GPL-2.0 */
/* Number of rows for which there was no room. The loader reads it: `dropped` of load.rs. Include after kernel.h. */
#ifndef CCP_DROPPED_H
#define CCP_DROPPED_H

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} dropped SEC(".maps");

static __always_inline void count_dropped(void)
{
	u32 zero = 0;
	u64 *count = bpf_map_lookup_elem(&dropped, &zero);

	if (count)
		__sync_fetch_and_add(count, 1);
}

#endif
