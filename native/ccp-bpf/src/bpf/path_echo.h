/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Telemetry that the far end echoed to a socket. A node of in-band telemetry (ccp-node) removes it from ACKs before TCP sees
 * them; folds read it. The map is pinned in the agent's pin directory (`ccp-load/src/echoes.rs`): if this layout changes,
 * change the pin's name.
 */
#ifndef CCP_PATH_ECHO_H
#define CCP_PATH_ECHO_H

#include "kernel.h"
#include "path_loss.h"
#include <bpf/bpf_helpers.h>

#define ECHO_MISSING 0xffffffffU
#define ECHO_UNLIMITED 0xfffffffeU

/* Values as on the wire (docs/ioam.md), in host order. */
struct path_echo {
	u32 busy; /* being written or read: others skip the access */
	u32 echoes; /* number of echoes received */
	u32 seen; /* number of echoes at the last fold */
	u32 hops;
	u32 hop;
	u32 all_known;
	u32 node_id;
	u32 queue_pkts;
	u32 free_pkts;
	u32 arrival_pkts_per_s;
	u32 link_rate_bytes_per_s;
	u32 flow_count;
	u64 left_us; /* time at which the packet left this host, CLOCK_MONOTONIC */
	u64 losses[PATH_LOSSES]; /* since the first echo; never decreases, even if a sink forgets */
	u32 reported[PATH_LOSSES]; /* as in the last echo */
	u32 acknowledged; /* by the ACK with the last echo: folds read the echo once snd_una has reached it */
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
