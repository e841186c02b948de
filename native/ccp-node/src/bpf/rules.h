/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * A node's counters and conclusions, without maps and packets. Included by the BPF programs, and compiled for the host by
 * ccp-int.
 */
#ifndef CCP_NODE_RULES_H
#define CCP_NODE_RULES_H

#include "node.h"
#include "path_loss.h"

#ifdef __VMLINUX_H__
#include <bpf/bpf_helpers.h>
#else
#include <stdbool.h>
typedef int __s32;
#define __always_inline inline
#endif

/* Counters on the wire wrap here; all ones mean unknown. */
#define FLOW_MODULUS 0xffffU
#define HALF_MISSING 0xffffU
/* After this many consecutive packets with old numbers, the source has restarted. */
#define OLD_PKTS 64
/* Retries for concurrent counting of a flow on several processors. */
#define MAX_TRIES 4

struct node_count {
	__u64 sent_pkts; /* sent by the source, on the wire: the number of the next one */
	__u64 sent_packets; /* a super-packet counts once */
	__u64 counts; /* bool: the transit node counts the flow, because it has numbered packets */
	__u64 highest; /* number seen */
	__u64 missing; /* packets that did not arrive */
	__u64 dropped; /* packets that the queue dropped */
	__u64 old_pkts; /* consecutive packets with old numbers */
};

/* The numbers of a packet: one, or one per segment. */
struct numbers {
	__u64 first;
	__u32 pkts; /* 0: none */
};

/* Late packets without a number make the count temporarily negative: the wire has no sign, so it is sent as 0. */
static __always_inline __u32 on_wire(__u64 pkts)
{
	return (pkts + ((__u64)FLOW_MODULUS << 32)) % FLOW_MODULUS;
}

static __always_inline void count_old(struct node_count *count, const struct numbers *numbers, __u64 last)
{
	__sync_fetch_and_add(&count->missing, -(__u64)numbers->pkts);
	if (__sync_fetch_and_add(&count->old_pkts, numbers->pkts) + numbers->pkts < OLD_PKTS)
		return;
	/* None of them was missing. */
	__sync_fetch_and_add(&count->missing, count->old_pkts);
	count->old_pkts = 0;
	count->highest = last;
}

/* Counts numbered packets that arrive at the queue. */
static __always_inline void count_numbers(struct node_count *count, const struct numbers *numbers)
{
	__u64 last = numbers->first + numbers->pkts - 1, highest;

	if (!count->counts) {
		count->highest = last;
		count->counts = true;
		return;
	}
	for (int i = 0; i < MAX_TRIES; i++) {
		highest = count->highest;
		if (numbers->first <= highest)
			break;
		if (__sync_val_compare_and_swap(&count->highest, highest, last) == highest) {
			count->old_pkts = 0;
			__sync_fetch_and_add(&count->missing, numbers->first - highest - 1);
			return;
		}
	}
	count_old(count, numbers, last);
}

/* Counts packets without a number. */
static __always_inline void count_plain(struct node_count *count, __u32 pkts)
{
	if (count->counts)
		__sync_fetch_and_add(&count->missing, -(__u64)pkts);
}

/*
 * What a processor remembers of the drop that it reports. The kernel skips a tracing program for events that interrupt a run
 * of that program, so three programs see each drop by a queue: the first counts the packet and notes it; the second counts
 * packets that the first has not noted; the third forgets the note, which the second leaves if it was skipped. Without the
 * third, a later packet at the same address would pass for counted. Queues drop packets only while softirqs are disabled:
 * such an event interrupts no other one, and at most one of the programs is skipped for it.
 */
struct node_noted {
	__u64 packet; /* address of its struct sk_buff; 0: none */
};

static __always_inline void note(struct node_noted *noted, __u64 packet)
{
	noted->packet = packet;
}

static __always_inline void forget(struct node_noted *noted)
{
	noted->packet = 0;
}

/* Whether the packet is the noted one. */
static __always_inline bool take_note(struct node_noted *noted, __u64 packet)
{
	bool is_noted = noted->packet == packet;

	forget(noted);
	return is_noted;
}

/* Exceeds the capacity of ccplane's traces. */
#define PATH_NODES 8

/* A node's data in a packet; all ones for unknown values. */
struct node_report {
	__u32 id;
	__u32 hop_limit;
	__u32 counts; /* packets missing and dropped, in wire format */
	__u32 queue_pkts;
	__u32 free_pkts;
	__u32 rate_bytes_per_s; /* of its link; 0: unknown */
};

/* The node where packets wait longest. */
struct bottleneck {
	__u64 wait;
	__u32 at; /* offset of its data in the packet; 0: none */
	__u32 from_end; /* position from the end of the path */
};

/* Counters of a flow at a node or at the sink, in wire format; HALF_MISSING if not counted. */
struct counted {
	__u32 id;
	__u16 missing;
	__u16 dropped;
};

/* Counters at the last evaluation of a node's queue and of the link after it. */
struct looked_at {
	struct counted node; /* for its queue only */
	struct counted near, far; /* the node and its successor, for the link between them */
};

/* Losses of a flow, by place. */
struct path_losses {
	__s32 all;
	__s32 congestion; /* dropped by the queues of nodes */
	__s32 link; /* between two neighbours that count */
	struct counted sink;
	struct looked_at last[PATH_NODES]; /* indexed from the end of the path */
};

/* A sink's state for the losses of a flow's path. */
struct path_known {
	__u64 next; /* number after the highest seen */
	__u32 old_pkts; /* consecutive packets with old numbers */
	__u32 reported[PATH_LOSSES];
	struct path_losses losses;
};

/* State while reading a path, from its end. */
struct path_reading {
	struct bottleneck by_rate, by_depth;
	struct counted next; /* the node read before, or the sink */
	__u32 hop_limit; /* hop limit at which the packet left the node, if it is the neighbour of `next` */
	bool has_silent_queue;
	bool has_silent_rate;
};

/* Of nodes with equal waits the first of the path counts; it is read last. */
static __always_inline void note_wait(struct bottleneck *longest, __u64 wait, __u32 at, __u32 from_end)
{
	if (longest->at && wait < longest->wait)
		return;
	longest->wait = wait;
	longest->at = at;
	longest->from_end = from_end;
}

/* Computes the increase of a counter, if both values are known. */
static __always_inline bool find_more(__u32 now, __u32 before, __s32 *difference)
{
	__s32 more = now - before;

	if (now == HALF_MISSING || before == HALF_MISSING)
		return false;
	if (more > (__s32)FLOW_MODULUS / 2)
		more -= FLOW_MODULUS;
	else if (more < -(__s32)FLOW_MODULUS / 2)
		more += FLOW_MODULUS;
	*difference = more;
	return true;
}

/*
 * Adds the drops of a node's queue since they were last known, and the losses of the link after it since all its counters
 * were known: a node does not always know its queue's drops.
 */
static __always_inline void add_losses_at(struct path_losses *losses, __u32 i, const struct counted *node,
					  const struct counted *next)
{
	struct looked_at *last = &losses->last[i & (PATH_NODES - 1)];
	__s32 dropped, near, far;

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

/* Reads the data of the i-th node from the end of the path, at offset `at`, which is not 0. */
static __always_inline void read_node(struct path_reading *path, struct path_losses *losses, __u32 i,
				      __u32 at, const struct node_report *reported)
{
	struct counted node = {
		.id = reported->id, .missing = reported->counts >> 16, .dropped = reported->counts & 0xffff};

	/* Between neighbours the hop limit decreases by one, except on the last link. */
	if (reported->hop_limit != path->hop_limit) {
		path->next.missing = HALF_MISSING;
		path->has_silent_queue = true;
	}
	path->hop_limit = reported->hop_limit + 1;
	add_losses_at(losses, i, &node, &path->next);
	path->next = node;
	if (reported->queue_pkts == NODE_MISSING || reported->free_pkts == NODE_MISSING)
		path->has_silent_queue = true;
	if (reported->queue_pkts == NODE_MISSING)
		return;
	if (!reported->rate_bytes_per_s || reported->rate_bytes_per_s == NODE_MISSING)
		path->has_silent_rate = true;
	else
		note_wait(&path->by_rate,
			  (((__u64)reported->queue_pkts + 1) << 31) / reported->rate_bytes_per_s, at, i);
	note_wait(&path->by_depth, reported->queue_pkts, at, i);
}

/*
 * If all nodes that report their queue also report their link's rate, the bottleneck is where the next packet waits longest;
 * otherwise where the queue is longest.
 */
static __always_inline struct bottleneck longest_wait(const struct path_reading *path)
{
	return path->has_silent_rate ? path->by_depth : path->by_rate;
}

/* Whether no later packet has arrived: the data of an overtaken packet is outdated. */
static __always_inline bool is_newest(struct path_known *known, const struct numbers *numbers)
{
	if (numbers->first < known->next && known->old_pkts < OLD_PKTS) {
		known->old_pkts += numbers->pkts;
		return false;
	}
	known->old_pkts = 0;
	known->next = numbers->first + numbers->pkts;
	return true;
}

/* Records how many packets of the flow the sink misses, in wire format. */
static __always_inline void note_sink(struct path_losses *losses, __u16 missing)
{
	struct counted sink = {.id = NODE_MISSING, .missing = missing, .dropped = HALF_MISSING};
	__s32 more;

	if (losses->sink.id == sink.id && find_more(sink.missing, losses->sink.missing, &more))
		losses->all += more;
	losses->sink = sink;
}

/* Late arrivals of packets counted as lost are subtracted from later losses: reported totals never decrease. */
static __always_inline void report_more(struct path_known *known, __u32 cause, __s32 pkts)
{
	if ((__s32)(pkts - known->reported[cause]) > 0)
		known->reported[cause] = pkts;
}

static __always_inline void report_losses(struct path_known *known)
{
	const struct path_losses *losses = &known->losses;

	report_more(known, LOST_BY_CONGESTION, losses->congestion);
	report_more(known, LOST_BY_LINK, losses->link);
	report_more(known, LOST_UNKNOWN, losses->all - losses->congestion - losses->link);
}

#endif
