/* SPDX-License-Identifier: GPL-2.0 */
/* The maps. All are pinned, and shared by all registered congestion-control names. */
#ifndef CCP_MAPS_H
#define CCP_MAPS_H

#include "kernel.h"
#include "intf.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader: the limit of concurrent flows */
	__type(key, u32);
	__type(value, struct ccp_flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ccp_globals);
} globals SEC(".maps");

/* Free indices of flows[]; filled by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, u32);
} free_slots SEC(".maps");

/* Number of slots per holder, if there is a quota. Twice as many entries as slots. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2);
	__type(key, struct ccp_holder);
	__type(value, u32);
} holders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CCP_MAX_PROGRAMS);
	__type(key, u32);
	__type(value, struct ccp_program);
} programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CCP_MAX_NAMES);
	__type(key, u32);
	__type(value, struct ccp_name);
} names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CCP_MAX_EXTENSIONS);
	__type(key, u32);
	__type(value, struct ccp_extension);
} extensions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

/*
 * Fold programs by index, one table per struct_ops member that runs them: a program may tail-call only programs of the same
 * member.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, CCP_MAX_PROGRAMS);
	__type(key, u32);
	__type(value, u32);
} folds_on_ack SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, CCP_MAX_PROGRAMS);
	__type(key, u32);
	__type(value, u32);
} folds_on_timeout SEC(".maps");

/* Tail-called by a fold that has something to apply or to report. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} finish_on_ack SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} finish_on_timeout SEC(".maps");

/*
 * Programs of extensions by index, one table per member that calls them, for the same reason. Empty where no extension is
 * loaded. The last entry is never called: the loader puts a program there first, to learn whether the table takes it.
 */
#define EXTENSION_TABLE(hook)                                \
	struct {                                             \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);       \
		__uint(max_entries, CCP_MAX_EXTENSIONS + 1); \
		__type(key, u32);                            \
		__type(value, u32);                          \
	} extensions_on_##hook SEC(".maps")

EXTENSION_TABLE(ack); /* member cong_control, as the next */
EXTENSION_TABLE(fold);
EXTENSION_TABLE(cwnd_event);
EXTENSION_TABLE(cwnd_event_tx_start);
EXTENSION_TABLE(release);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CCP_MAX_MOVING);
	__type(key, u64); /* the socket's address */
	__type(value, struct ccp_moving);
} moving SEC(".maps");

static __always_inline struct ccp_globals *ccp_globals(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&globals, &zero);
}

#endif
