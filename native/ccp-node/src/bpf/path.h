/* SPDX-License-Identifier: GPL-2.0 */
/* What a packet found on its way, out of its trace: as ccp_int's echo.rs sees it. */
#ifndef CCP_NODE_PATH_H
#define CCP_NODE_PATH_H

#include "counts.h"
#include "slot.h"

/* More than a trace of ours has room for. */
#define PATH_NODES 8
/* Schemas of our snapshots, without their last octet: the version. The second has the link's rate, and counters. */
#define OUR_SCHEMAS 0x6363
#define SECOND_VERSION 2

/* Where fields lie within a node's data, and the words of the snapshot behind its head. */
struct places {
	u32 queue;
	u32 snapshot;
};

#define FREE_AT 4
#define ARRIVAL_AT 8
#define FLOWS_AT 12
#define RATE_AT 20
#define COUNTS_AT 24

/* The node where a packet waits longest. */
struct bottleneck {
	u64 wait;
	u32 at; /* of its data in the packet; 0: there is none */
	u32 from_end; /* of the path */
};

/* Counters of a flow at a node, or at the sink, as the wire has them: HALF_MISSING where it does not count. */
struct counted {
	u32 id;
	u16 missing;
	u16 dropped;
};

/* What counters were when a node's queue and the link behind it were looked at last. */
struct looked_at {
	struct counted node; /* for its queue alone */
	struct counted near, far; /* the node and whoever is next, for the link between them */
};

/* What was lost where, of one flow. */
struct path_losses {
	s32 all;
	s32 congestion; /* dropped by the queues of nodes */
	s32 link; /* between neighbours that both count */
	struct counted sink;
	struct looked_at last[PATH_NODES]; /* from the end of the path */
};

/* Words in host order, all ones where a node does not tell. */
struct path {
	u32 nodes;
	u32 all_known; /* bool: all nodes on the way told depth and room of their queues */
	u32 hop; /* the bottleneck's position from the sender, from 1; 0: no node told */
	u32 node_id;
	u32 queue_pkts;
	u32 free_pkts;
	u32 arrival_pkts_per_s;
	u32 link_rate_bytes_per_s;
	u32 flow_count;
	u32 hop_limit; /* told: of the packet, when it came to the sink */
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

/* Nodes come with the last of the path first: of those where it waits equally long it is the first of the path. */
static __always_inline void note_wait(struct bottleneck *longest, u64 wait, u32 at, u32 from_end)
{
	if (longest->at && wait < longest->wait)
		return;
	longest->wait = wait;
	longest->at = at;
	longest->from_end = from_end;
}

static __always_inline bool is_second(u32 head)
{
	return (head & 0xff) >= SECOND_VERSION;
}

static __always_inline u32 rate_of(struct __sk_buff *skb, u32 snapshot_at, u32 head)
{
	return is_second(head) ? word_at(skb, snapshot_at + RATE_AT) : NODE_MISSING;
}

/* Where a counter is known now and was before, of the same node: how much more it is. */
static __always_inline bool find_more(u32 now, u32 before, s32 *difference)
{
	s32 more = now - before;

	if (now == HALF_MISSING || before == HALF_MISSING)
		return false;
	if (more > (s32)FLOW_MODULUS / 2)
		more -= FLOW_MODULUS;
	else if (more < -(s32)FLOW_MODULUS / 2)
		more += FLOW_MODULUS;
	*difference = more;
	return true;
}

/*
 * Adds what a node's queue dropped since that was last known, and what the link behind it lost since all was known that
 * tells: a node does not always know what its queue dropped.
 */
static __always_inline void add_losses_at(struct path_losses *losses, u32 i, const struct counted *node,
					  const struct counted *next)
{
	struct looked_at *last = &losses->last[i & (PATH_NODES - 1)];
	s32 dropped, near, far;

	if (node->dropped == HALF_MISSING)
		return;
	if (last->node.id == node->id && find_more(node->dropped, last->node.dropped, &dropped))
		losses->congestion += dropped;
	last->node = *node;
	if (node->missing == HALF_MISSING || next->missing == HALF_MISSING)
		return;
	if (last->near.id == node->id && last->far.id == next->id &&
	    find_more(node->dropped, last->near.dropped, &dropped) &&
	    find_more(node->missing, last->near.missing, &near) &&
	    find_more(next->missing, last->far.missing, &far))
		losses->link += far - near - dropped;
	last->near = *node;
	last->far = *next;
}

/*
 * Reads a trace. Where all nodes that tell their queue tell the rate of their link, too, the bottleneck is where the next
 * packet waits longest, else where the queue is deepest. Not static: the verifier looks at it once.
 */
__noinline int read_path(struct __sk_buff *skb, struct options *options, struct path *path,
			 struct path_losses *losses)
{
	struct bottleneck by_rate = {}, by_depth = {}, longest;
	struct trace_header trace;
	struct places places = {};
	bool rates_known = true;
	u32 trace_at, trace_end, hop_limit, at, flags;
	struct counted node, next;

	if (!path || !options || !losses)
		return 0;
	trace_at = options->trace_at;
	trace_end = options->trace_end;
	hop_limit = path->hop_limit;
	next = losses->sink;
	__builtin_memset(path, 0xff, sizeof(*path));
	path->nodes = path->all_known = path->hop = 0;
	if (bpf_skb_load_bytes(skb, trace_at, &trace, sizeof(trace)) ||
	    !find_places(bpf_ntohl(trace.type), &places))
		return 0;
	flags = bpf_ntohs(trace.flags);
	at = trace_at + sizeof(trace) + (flags & REMAINING) * 4;
	path->all_known = !(flags & OVERFLOW);
	for (u32 i = 0; i < PATH_NODES && at < trace_end; i++) {
		u32 snapshot_at = at + places.snapshot, head = word_at(skb, snapshot_at);
		u32 queue_pkts = word_at(skb, at + places.queue);
		u32 limit_and_id = word_at(skb, at), node_hop_limit = limit_and_id >> 24, counts, rate;
		bool is_ours = (head >> 8 & 0xffff) == OUR_SCHEMAS;

		/* Between neighbours the hop limit falls by one, and on the last link by none. */
		if (node_hop_limit != hop_limit)
			next.missing = HALF_MISSING;
		if (node_hop_limit != hop_limit || !is_ours || queue_pkts == NODE_MISSING ||
		    word_at(skb, snapshot_at + FREE_AT) == NODE_MISSING)
			path->all_known = 0;
		hop_limit = node_hop_limit + 1;
		counts = is_ours && is_second(head) ? word_at(skb, snapshot_at + COUNTS_AT) : NODE_MISSING;
		node.id = limit_and_id & 0xffffff;
		node.missing = counts >> 16;
		node.dropped = counts & 0xffff;
		add_losses_at(losses, i, &node, &next);
		next = node;
		if (is_ours && queue_pkts != NODE_MISSING) {
			rate = rate_of(skb, snapshot_at, head);
			if (!rate || rate == NODE_MISSING)
				rates_known = false;
			else
				note_wait(&by_rate, (((u64)queue_pkts + 1) << 31) / rate, at, i);
			note_wait(&by_depth, queue_pkts, at, i);
		}
		path->nodes = i + 1;
		at = snapshot_at + 4 + (head >> 24) * 4;
	}
	if (at != trace_end)
		path->all_known = 0;
	longest = rates_known ? by_rate : by_depth;
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
