/* SPDX-License-Identifier: GPL-2.0 */
/* The device's queue. */
#ifndef CCP_NODE_QUEUE_H
#define CCP_NODE_QUEUE_H

#include "maps.h"
#include <bpf/bpf_core_read.h>

#define MAX_QUEUES 64

struct queue {
	u32 pkts; /* NODE_MISSING: unknown */
	u32 bytes;
};

/* Adds a queue discipline's backlog; lockless ones count per processor, which programs cannot read. */
static __always_inline bool add_qdisc(struct queue *queue, struct Qdisc *qdisc)
{
	if (!qdisc || BPF_CORE_READ(qdisc, flags) & TCQ_F_CPUSTATS)
		return false;
	queue->pkts += BPF_CORE_READ(qdisc, q.qlen);
	queue->bytes += BPF_CORE_READ(qdisc, qstats.backlog);
	return true;
}

/* The packet's queue among several is not chosen yet: the link's queue is all of them together. */
static __noinline bool read_device(struct net_device *dev, struct queue *queue)
{
	struct netdev_queue *tx;
	struct Qdisc *qdisc;
	u32 queues;

	if (!queue)
		return false;
	qdisc = BPF_CORE_READ(dev, qdisc);
	if (!(BPF_CORE_READ(qdisc, flags) & TCQ_F_MQROOT))
		return add_qdisc(queue, qdisc);
	tx = BPF_CORE_READ(dev, _tx);
	queues = BPF_CORE_READ(dev, num_tx_queues);
	for (u32 i = 0; i < MAX_QUEUES && i < queues; i++) {
		if (!add_qdisc(queue, BPF_CORE_READ(tx, qdisc)))
			return false;
		tx = (void *)tx + bpf_core_type_size(struct netdev_queue);
	}
	return queues <= MAX_QUEUES;
}

static __always_inline struct queue read_queue(const struct node_now *now)
{
	struct queue queue = {}, unknown = {NODE_MISSING, NODE_MISSING};
	u64 *dev = ONLY(device);

	if (!now->queue_known || !dev || !*dev)
		return unknown;
	if (now->limit_pkts == NODE_UNLIMITED)
		return queue; /* no queue, so nothing waits */
	return read_device((struct net_device *)*dev, &queue) ? queue : unknown;
}

/* Waiting packets, as full-size packets: a super-packet counts as its packets on the wire. */
static __always_inline u32 depth_pkts(const struct node_now *now, const struct queue *queue)
{
	if (queue->pkts == NODE_MISSING || !now->packet_bytes)
		return queue->pkts;
	return (queue->bytes + now->packet_bytes - 1) / now->packet_bytes;
}

static __always_inline u32 free_pkts(const struct node_now *now, const struct queue *queue)
{
	if (queue->pkts == NODE_MISSING)
		return NODE_MISSING;
	if (now->limit_pkts == NODE_UNLIMITED)
		return NODE_UNLIMITED;
	if (now->limit_pkts != NODE_MISSING)
		return now->limit_pkts > queue->pkts ? now->limit_pkts - queue->pkts : 0;
	if (now->limit_bytes != NODE_MISSING && now->packet_bytes)
		return now->limit_bytes > queue->bytes ? (now->limit_bytes - queue->bytes) / now->packet_bytes
						       : 0;
	return NODE_MISSING;
}

/*
 * Finds the device by a route through it, once. The address of struct net_device is valid while the device exists, and when
 * the device is removed, the programs on it are removed first.
 */
SEC("iter/ipv6_route")
int find_device(struct bpf_iter__ipv6_route *ctx)
{
	struct fib6_info *route = ctx->rt;
	struct net_device *dev;
	u64 *found = ONLY(device);

	if (!route || !found || BPF_CORE_READ(route, nh))
		return 0;
	dev = BPF_CORE_READ(route, fib6_nh[0].nh_common.nhc_dev);
	if (dev && BPF_CORE_READ(dev, ifindex) == (int)config.ifindex)
		*found = (u64)dev;
	return 0;
}

#endif
