/* SPDX-License-Identifier: GPL-2.0 */
/* The wireless link: queueing in mac80211 towards the receiver of a packet. */
#ifndef CCP_NODE_AIR_H
#define CCP_NODE_AIR_H

#include "maps.h"

/* A packet that passed here has reached mac80211's queue after this time. */
#define IN_QUEUE_NS 1000000ULL

/* The state of mac80211's queues. */
struct air {
	u32 pkts; /* full-size packets for the receiver; NODE_MISSING: unknown */
	u32 free_pkts; /* NODE_MISSING: unknown */
	bool settled; /* all earlier packets are sent or dropped */
};

/* Looks up the packet's receiver in a map, or the only peer there is. */
static __always_inline void *of_other_end(struct __sk_buff *skb, void *map)
{
	u8 address[6] = {};
	void *found = NULL;

	if (!config.is_wireless)
		return NULL;
	if (config.link_bytes && !bpf_skb_load_bytes(skb, 0, address, sizeof(address)))
		found = bpf_map_lookup_elem(map, address);
	if (found)
		return found;
	__builtin_memset(address, 0, sizeof(address));
	return bpf_map_lookup_elem(map, address);
}

static __always_inline void read_radio(struct __sk_buff *skb, struct node_radio *radio)
{
	struct node_radio *found = of_other_end(skb, &radios);

	__builtin_memset(radio, 0xff, sizeof(*radio));
	if (found)
		*radio = *found;
}

/*
 * A reading counts if it is no older than the loader allows, or if the queue was empty and nothing has come since. Behind a
 * queue discipline packets reach mac80211 later than they pass here, so that only a new reading counts.
 */
static __always_inline struct air read_air(struct __sk_buff *skb, const struct node_now *reported,
					   u64 came_ns, u64 now_ns)
{
	struct air air = {NODE_MISSING, NODE_MISSING, false};
	struct node_air *read;
	bool still_empty;

	read = reported->air_fresh_ns ? of_other_end(skb, &airs) : NULL;
	if (!read)
		return air;
	still_empty = !reported->queue_known && !read->all_pkts && came_ns + IN_QUEUE_NS < read->read_ns;
	if (!still_empty && now_ns > read->read_ns + reported->air_fresh_ns)
		return air;
	air.pkts = read->pkts;
	air.settled = still_empty || (reported->queue_known && !read->pkts);
	if (reported->air_limit_pkts != NODE_MISSING)
		air.free_pkts = reported->air_limit_pkts > read->all_pkts
					? reported->air_limit_pkts - read->all_pkts
					: 0;
	return air;
}

/* Packets in both queues, if the device also has a queue discipline. */
static __always_inline u32 depth_with_air(const struct node_now *reported, u32 pkts, const struct air *air)
{
	if (!reported->queue_known)
		return air->pkts;
	return pkts == NODE_MISSING || air->pkts == NODE_MISSING ? pkts : pkts + air->pkts;
}

/* The free room of the queue with less room; NODE_MISSING is the largest number. */
static __always_inline u32 free_with_air(const struct node_now *reported, u32 pkts, const struct air *air)
{
	if (!reported->queue_known)
		return air->free_pkts;
	return pkts == NODE_MISSING || pkts < air->free_pkts ? pkts : air->free_pkts;
}

#endif
