// SPDX-License-Identifier: GPL-2.0
/*
 * A node of in-band telemetry on a Linux device. Outgoing packets pass on_egress before the device's queue, incoming ones
 * on_ingress before any other program.
 */
#include "kernel.h"
#include "node.h"
#include "maps.h"
#include "packet.h"
#include "meter.h"
#include "queue.h"
#include "air.h"
#include "counts.h"
#include "slot.h"
#include "source.h"
#include "sink.h"

SEC("tc")
int on_egress(struct __sk_buff *skb)
{
	u64 mono_ns = bpf_ktime_get_ns(), wall_ns;
	struct node_link *behind = ONLY(link);
	struct node_now *reported = ONLY(now);
	struct node_data data = {};
	struct node_count *count = NULL;
	struct packet packet;
	struct queue queue;
	struct air air;
	u64 came_ns;

	if (!behind || !reported)
		return TC_ACT_UNSPEC;
	wall_ns = mono_ns + reported->wall_minus_mono_ns;
	read_packet(skb, &packet);
	if (config.roles & NODE_REFLECTS)
		reflect(skb, &packet);
	if (!(config.roles & (NODE_SOURCE | NODE_TRANSIT)))
		return TC_ACT_UNSPEC;
	came_ns = behind->last_ns;
	data.arrival_pkts_per_s = arrived(behind, &packet.flow, packet.pkts, mono_ns);
	if (config.roles & NODE_SOURCE && is_served(&packet)) {
		count = count_of(&packet.flow);
		packet.is_chosen = count && number(&packet, count, config.template_bytes);
	} else if (config.roles & NODE_TRANSIT && packet.flow.protocol) {
		count = bpf_map_lookup_elem(&counts, &packet.flow);
	}
	if (!(config.roles & NODE_TRANSIT)) {
		if (packet.is_chosen)
			insert(skb, &packet, &data, wall_ns);
		return TC_ACT_UNSPEC;
	}
	if (!packet.is_chosen && !packet.hop_by_hop_bytes) {
		count_flow(skb, &packet, count, false);
		return TC_ACT_UNSPEC;
	}
	queue = read_queue(reported);
	air = read_air(skb, reported, came_ns, mono_ns);
	data.flow_counts =
		count_flow(skb, &packet, count,
			   drops_are_known(reported, &queue) && (!reported->air_fresh_ns || air.settled));
	data.hop_limit = packet.hop_limit;
	data.ingress_if = skb->ingress_ifindex;
	data.timestamp_s = wall_ns / NSEC_PER_SEC;
	data.timestamp_us = wall_ns % NSEC_PER_SEC / 1000;
	data.queue_pkts = depth_with_air(reported, depth_pkts(reported, &queue), &air);
	data.free_pkts = free_with_air(reported, free_pkts(reported, &queue), &air);
	data.flow_count = behind->flows_seen - reported->flows_gone;
	data.link_rate_bytes_per_s = reported->link_rate_bytes_per_s;
	read_radio(skb, &data.radio);
	if (packet.is_chosen)
		insert(skb, &packet, &data, wall_ns);
	else
		fill(skb, &packet, &data);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int on_ingress(struct __sk_buff *skb)
{
	struct packet packet;

	read_packet(skb, &packet);
	sink(skb, &packet);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
