/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the far end told a socket of its path. A node of in-band telemetry (ccp-node) takes it out of ACKs before TCP sees
 * them, folds read it. The map is pinned in the agent's pin directory (`ccp-load/src/echoes.rs`): a change here is another
 * pin.
 */
#ifndef CCP_PATH_ECHO_H
#define CCP_PATH_ECHO_H

#include "kernel.h"
#include "path_loss.h"
#include <bpf/bpf_helpers.h>

#define ECHO_MISSING 0xffffffffU
#define ECHO_UNLIMITED 0xfffffffeU

/* Words as on the wire (docs/ioam.md), in host order. */
struct path_echo {
	u32 busy; /* somebody writes or reads: who finds it so goes without */
	u32 echoes; /* so many came */
	u32 seen; /* echoes when the last fold looked */
	u32 hops;
	u32 hop;
	u32 all_known;
	u32 node_id;
	u32 queue_pkts;
	u32 free_pkts;
	u32 arrival_pkts_per_s;
	u32 link_rate_bytes_per_s;
	u32 flow_count;
	u64 left_us; /* when the packet left this host, CLOCK_MONOTONIC */
	u64 losses[PATH_LOSSES]; /* since the first echo: never less than before, whatever a sink forgets */
	u32 told[PATH_LOSSES]; /* as the last echo had them */
	u32 spare;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct path_echo);
} path_echoes SEC(".maps");

static __always_inline bool take_turn(u32 *busy)
{
	return !__sync_lock_test_and_set(busy, 1);
}

static __always_inline void end_turn(u32 *busy)
{
	__sync_lock_test_and_set(busy, 0);
}

#endif
