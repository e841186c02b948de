/* SPDX-License-Identifier: GPL-2.0 */
/* Constants, maps and counters of a node. */
#ifndef CCP_NODE_MAPS_H
#define CCP_NODE_MAPS_H

#include "kernel.h"
#include "node.h"
#include "rules.h"
#include <bpf/bpf_helpers.h>

struct ipv6_header {
	__be32 version;
	__be16 payload_bytes;
	u8 next_header;
	u8 hop_limit;
	u8 saddr[16];
	u8 daddr[16];
};

const volatile struct node_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct node_now);
} now SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct node_link);
} link SEC(".maps");

/* The device: address of its struct net_device. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} device SEC(".maps");

/* Flows of the last second, with the time of their last packet [ns]; the loader removes old ones. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct node_flow);
	__type(value, u64);
} active SEC(".maps");

/* The last flow, and when it was recorded in `active` [ns]: a flow is looked up at most once per SEEN_NS. */
struct node_seen {
	struct node_flow flow;
	u64 noted_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct node_seen);
} last_seen SEC(".maps");

/* Per flow: packets sent by the source, and the transit node's counts of numbered packets. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct node_flow);
	__type(value, struct node_count);
} counts SEC(".maps");

/* Sink: flows with headers, and their packets without headers. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct node_flow);
	__type(value, struct node_sunk);
} sunk SEC(".maps");

/* Peers of wireless links by hardware address; all zeroes match any. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u8[6]);
	__type(value, struct node_radio);
} radios SEC(".maps");

/* The same peers: their queues in mac80211. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u8[6]);
	__type(value, struct node_air);
} airs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct node_counters);
} counters SEC(".maps");

/* Variables that do not fit on the stack. */
struct node_scratch {
	union {
		struct {
			struct ipv6_header ip;
			u8 headers[NODE_TEMPLATE_BYTES];
		};
		__be32 slot[64];
		struct {
			struct node_record record;
			u8 read[NODE_HEADERS_BYTES];
		};
	};
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct node_scratch);
} scratch SEC(".maps");

#define ONLY(map)                                    \
	({                                           \
		u32 zero_ = 0;                       \
		bpf_map_lookup_elem(&(map), &zero_); \
	})

#define COUNT(counter, pkts)                                      \
	({                                                        \
		struct node_counters *counters_ = ONLY(counters); \
		if (counters_)                                    \
			counters_->counter += (pkts);             \
	})

#endif
