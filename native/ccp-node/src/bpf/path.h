/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the path of a packet from its trace. */
#ifndef CCP_NODE_PATH_H
#define CCP_NODE_PATH_H

#include "counts.h"
#include "slot.h"

/* Schemas of ccplane's snapshots, without their last byte, the version. Version 2 has the link's rate and counters. */
#define OUR_SCHEMAS 0x6363
#define SECOND_VERSION 2

/* Offsets of fields in a node's data, and the words of the snapshot after its head. */
struct places {
	u32 queue;
	u32 snapshot;
};

#define FREE_AT 4
#define ARRIVAL_AT 8
#define FLOWS_AT 12
#define RATE_AT 20
#define COUNTS_AT 24

/* Words in host order, all ones if a node does not report. */
struct path {
	u32 nodes;
	u32 all_known; /* bool: all nodes reported length and free room of their queues */
	u32 hop; /* the bottleneck's position, counted from 1 at the sender; 0: no node reported */
	u32 node_id;
	u32 queue_pkts;
	u32 free_pkts;
	u32 arrival_pkts_per_s;
	u32 link_rate_bytes_per_s;
	u32 flow_count;
	u32 hop_limit; /* of the packet at the sink */
};

static __always_inline u32 word_at(struct __sk_buff *skb, u32 at)
{
	__be32 word;

	return bpf_skb_load_bytes(skb, at, &word, sizeof(word)) ? NODE_MISSING : bpf_ntohl(word);
}

static __always_inline bool find_places(u32 type, struct places *places)
{
	if (!(type & FIELD(0)) || !(type & FIELD(6)) || !(type & SNAPSHOT) || type & UNKNOWN_FIELDS)
		return false;
	places->queue = 4 * words_of(type & ~((FIELD(6) << 1) - 1));
	places->snapshot = 4 * words_of(type);
	return true;
}

static __always_inline bool is_second(u32 head)
{
	return (head & 0xff) >= SECOND_VERSION;
}

static __always_inline u32 rate_of(struct __sk_buff *skb, u32 snapshot_at, u32 head)
{
	return is_second(head) ? word_at(skb, snapshot_at + RATE_AT) : NODE_MISSING;
}

/* Reads a trace. Not static, so that the verifier checks it once. */
__noinline int read_path(struct __sk_buff *skb, struct options *options, struct path *path,
			 struct path_losses *losses)
{
	struct path_reading reading = {};
	struct bottleneck longest;
	struct trace_header trace;
	struct places places = {};
	u32 trace_at, trace_end, at, flags;
	struct node_report reported;

	if (!path || !options || !losses)
		return 0;
	trace_at = options->trace_at;
	trace_end = options->trace_end;
	reading.hop_limit = path->hop_limit;
	reading.next = losses->sink;
	__builtin_memset(path, 0xff, sizeof(*path));
	path->nodes = path->all_known = path->hop = 0;
	if (bpf_skb_load_bytes(skb, trace_at, &trace, sizeof(trace)) ||
	    !find_places(bpf_ntohl(trace.type), &places))
		return 0;
	flags = bpf_ntohs(trace.flags);
	at = trace_at + sizeof(trace) + (flags & REMAINING) * 4;
	for (u32 i = 0; i < PATH_NODES && at < trace_end; i++) {
		u32 snapshot_at = at + places.snapshot, head = word_at(skb, snapshot_at);
		u32 limit_and_id = word_at(skb, at);
		bool is_own = (head >> 8 & 0xffff) == OUR_SCHEMAS;

		reported.id = limit_and_id & 0xffffff;
		reported.hop_limit = limit_and_id >> 24;
		reported.counts =
			is_own && is_second(head) ? word_at(skb, snapshot_at + COUNTS_AT) : NODE_MISSING;
		reported.queue_pkts = is_own ? word_at(skb, at + places.queue) : NODE_MISSING;
		reported.free_pkts = is_own ? word_at(skb, snapshot_at + FREE_AT) : NODE_MISSING;
		reported.rate_bytes_per_s = rate_of(skb, snapshot_at, head);
		read_node(&reading, losses, i, at, &reported);
		path->nodes = i + 1;
		at = snapshot_at + 4 + (head >> 24) * 4;
	}
	path->all_known = at == trace_end && !(flags & OVERFLOW) && !reading.has_silent_queue;
	longest = longest_wait(&reading);
	if (!longest.at)
		return 0;
	at = longest.at + places.snapshot;
	path->hop = path->nodes - longest.from_end;
	path->node_id = word_at(skb, longest.at) & 0xffffff;
	path->queue_pkts = word_at(skb, longest.at + places.queue);
	path->free_pkts = word_at(skb, at + FREE_AT);
	path->arrival_pkts_per_s = word_at(skb, at + ARRIVAL_AT);
	path->flow_count = word_at(skb, at + FLOWS_AT);
	path->link_rate_bytes_per_s = rate_of(skb, at, word_at(skb, at));
	return 0;
}

#endif
