/* SPDX-License-Identifier: GPL-2.0 */
/* The node's counts per flow: packets, gaps in their numbers, and drops by its own queue. */
#ifndef CCP_NODE_COUNTS_H
#define CCP_NODE_COUNTS_H

#include "packet.h"
#include "queue.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* Reasons that identify queue drops of a flow; the numbers are taken from the running kernel. */
enum skb_drop_reason {
	SKB_DROP_REASON_QDISC_DROP = 1,
	SKB_DROP_REASON_QDISC_OVERLIMIT, /* since 6.14, as are the next ones */
	SKB_DROP_REASON_QDISC_CONGESTED,
	SKB_DROP_REASON_FQ_BAND_LIMIT,
	SKB_DROP_REASON_FQ_HORIZON_LIMIT,
	SKB_DROP_REASON_FQ_FLOW_LIMIT,
};

/* Later kernels have a separate range for queue disciplines. */
enum skb_drop_reason_subsys {
	SKB_DROP_REASON_SUBSYS_QDISC = 1,
};

#define SUBSYSTEM_SHIFT 16
#define IS_REASON(reason, name)                                    \
	(bpf_core_enum_value_exists(enum skb_drop_reason, name) && \
	 (reason) == bpf_core_enum_value(enum skb_drop_reason, name))

static __always_inline bool is_queue_drop(u32 reason)
{
	if (bpf_core_enum_value_exists(enum skb_drop_reason_subsys, SKB_DROP_REASON_SUBSYS_QDISC) &&
	    reason >> SUBSYSTEM_SHIFT ==
		    bpf_core_enum_value(enum skb_drop_reason_subsys, SKB_DROP_REASON_SUBSYS_QDISC))
		return true;
	return IS_REASON(reason, SKB_DROP_REASON_QDISC_DROP) ||
	       IS_REASON(reason, SKB_DROP_REASON_QDISC_OVERLIMIT) ||
	       IS_REASON(reason, SKB_DROP_REASON_QDISC_CONGESTED) ||
	       IS_REASON(reason, SKB_DROP_REASON_FQ_BAND_LIMIT) ||
	       IS_REASON(reason, SKB_DROP_REASON_FQ_HORIZON_LIMIT) ||
	       IS_REASON(reason, SKB_DROP_REASON_FQ_FLOW_LIMIT);
}

/* Whether this kernel reports queue drops of packets that had waited: since 6.14. */
static __always_inline bool reports_late_drops(void)
{
	return bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_QDISC_CONGESTED) ||
	       bpf_core_enum_value_exists(enum skb_drop_reason_subsys, SKB_DROP_REASON_SUBSYS_QDISC);
}

/* Whether all drops of earlier packets are known by now; otherwise none are reported. */
static __always_inline bool drops_are_known(const struct node_now *reported, const struct queue *queue)
{
	if (reported->drops == NODE_DROPS_LATE)
		return reports_late_drops() && !queue->pkts;
	return reported->drops == NODE_DROPS_EARLY;
}

static __always_inline struct node_count *count_of(const struct node_flow *flow)
{
	/* Never written. Static because the caller's stack has no room for it on Linux 6.1. */
	static struct node_count none;
	struct node_count *count = bpf_map_lookup_elem(&counts, flow);

	if (count)
		return count;
	bpf_map_update_elem(&counts, flow, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&counts, flow);
}

/*
 * Counts a packet, with its numbers, that comes to the queue. Returns how many packets of its flow were missing by then, and
 * how many of those the queue has dropped, in wire format.
 */
static __always_inline u32 count_numbered(struct node_count *count, struct packet *packet,
					  const struct numbers *numbers, bool drops_known)
{
	if (!numbers->pkts) {
		if (count)
			count_plain(count, packet->pkts);
		return NODE_MISSING;
	}
	if (!count)
		count = count_of(&packet->flow);
	if (!count)
		return NODE_MISSING;
	count_numbers(count, numbers);
	return on_wire(count->missing) << 16 | (drops_known ? on_wire(count->dropped) : HALF_MISSING);
}

/* `count` is the record of the packet's flow, or NULL. */
static __noinline u32 count_flow(struct __sk_buff *skb, struct packet *packet, struct node_count *count,
				 bool drops_known)
{
	struct numbers numbers = {};

	if (!packet || !packet->flow.protocol)
		return NODE_MISSING;
	read_numbers(skb, packet, &numbers);
	return count_numbered(count, packet, &numbers, drops_known);
}

/* Finds the flow and TCP payload of a packet that carries headers; false if it has no flow. */
static __always_inline bool flow_of(struct sk_buff *skb, struct node_flow *flow, u32 *payload_bytes)
{
	unsigned char *at = skb->head + skb->network_header;
	struct ipv6_header ip;
	__be16 ports[2];
	u8 start[2], next, tcp_words = 0;

	if (bpf_probe_read_kernel(&ip, sizeof(ip), at) || ip.next_header != IPPROTO_HOPOPTS)
		return false;
	at += sizeof(ip);
	next = ip.next_header;
	*payload_bytes = bpf_ntohs(ip.payload_bytes);
	for (int i = 0; i < 2 && (next == IPPROTO_HOPOPTS || next == IPPROTO_DSTOPTS); i++) {
		if (bpf_probe_read_kernel(start, sizeof(start), at))
			return false;
		next = start[0];
		at += (start[1] + 1) * 8;
		*payload_bytes -= (start[1] + 1) * 8;
	}
	if ((next != IPPROTO_TCP && next != IPPROTO_UDP) || bpf_probe_read_kernel(ports, sizeof(ports), at))
		return false;
	bpf_probe_read_kernel(&tcp_words, sizeof(tcp_words), at + 12);
	*payload_bytes -= (tcp_words >> 4) * 4;
	__builtin_memcpy(flow->saddr, ip.saddr, sizeof(ip.saddr));
	__builtin_memcpy(flow->daddr, ip.daddr, sizeof(ip.daddr));
	flow->sport = bpf_ntohs(ports[0]);
	flow->dport = bpf_ntohs(ports[1]);
	flow->protocol = next;
	return true;
}

/* Counts a packet that the device's queue drops, as packets on the wire. */
static __always_inline int count_drop(struct sk_buff *skb)
{
	struct node_flow flow = {};
	struct node_count *count;
	struct skb_shared_info *shared;
	u64 *dev = ONLY(device);
	u16 segments = 0, size = 0;
	u32 payload_bytes;

	if (!dev || !*dev || (u64)skb->dev != *dev || !flow_of(skb, &flow, &payload_bytes))
		return 0;
	count = bpf_map_lookup_elem(&counts, &flow);
	if (!count || !count->counts)
		return 0;
	shared = (struct skb_shared_info *)(skb->head + skb->end);
	BPF_CORE_READ_INTO(&segments, shared, gso_segs);
	BPF_CORE_READ_INTO(&size, shared, gso_size);
	/* The kernel has not counted the segments yet if a source has lengthened the packet. */
	if (!segments && size)
		segments = (payload_bytes + size - 1) / size;
	__sync_fetch_and_add(&count->dropped, segments > 1 ? segments : 1);
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct node_noted);
} noted SEC(".maps");

/* The three programs run in this order; see struct node_noted. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(on_drop, struct sk_buff *skb, void *location, u32 reason)
{
	struct node_noted *mine;

	if (!is_queue_drop(reason))
		return 0;
	mine = ONLY(noted);
	if (mine)
		note(mine, (u64)skb);
	return count_drop(skb);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(on_drop_again, struct sk_buff *skb, void *location, u32 reason)
{
	struct node_noted *mine;

	if (!is_queue_drop(reason))
		return 0;
	mine = ONLY(noted);
	return mine && take_note(mine, (u64)skb) ? 0 : count_drop(skb);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(after_drop)
{
	struct node_noted *mine = ONLY(noted);

	if (mine)
		forget(mine);
	return 0;
}

struct ieee80211_hw;

/* mac80211 or its driver drops an untransmitted packet: CoDel, limits, full rings. */
SEC("fentry/ieee80211_free_txskb")
int BPF_PROG(on_radio_drop, struct ieee80211_hw *hw, struct sk_buff *skb)
{
	return count_drop(skb);
}

#endif
