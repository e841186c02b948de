/* SPDX-License-Identifier: GPL-2.0 */
/* Putting headers into packets. */
#ifndef CCP_NODE_SOURCE_H
#define CCP_NODE_SOURCE_H

#include "packet.h"

struct lengths {
	__be16 payload_bytes;
	u8 next_header;
};

static __always_inline bool has_prefix(const u8 *address, const volatile __be32 *prefix,
				       const volatile __be32 *mask)
{
	const __be32 *words = (const __be32 *)address;

	for (u32 i = 0; i < 4; i++) {
		if ((words[i] ^ prefix[i]) & mask[i])
			return false;
	}
	return true;
}

/* Whether it is a packet of a flow, without other headers but an echo of ours, that may have ours. */
static __always_inline bool is_served(const struct packet *packet)
{
	return packet->payload_bytes && (packet->flow.protocol == packet->first || packet->has_echo) &&
	       !packet->is_multicast && has_prefix(packet->flow.daddr, config.prefix, config.prefix_mask);
}

/* Counts a packet of the flow; the number of the first that it is on the wire, and whether it is to have headers. */
static __always_inline bool count(const struct node_flow *flow, u32 pkts, u64 *number)
{
	struct node_sent none = {}, *sent = bpf_map_lookup_elem(&sent_flows, flow);

	if (!sent) {
		bpf_map_update_elem(&sent_flows, flow, &none, BPF_NOEXIST);
		sent = bpf_map_lookup_elem(&sent_flows, flow);
		if (!sent)
			return false;
	}
	*number = __sync_fetch_and_add(&sent->pkts, pkts);
	return config.every_pkts == 1 || !(__sync_fetch_and_add(&sent->packets, 1) % config.every_pkts);
}

struct tcp_state {
	u8 kind;
	u8 flags;
	__be16 mss_bytes;
	__be16 cwnd_bytes[2];
	__be16 first_sequence;
};

/* The window of the sender's TCP; on a router there is none. */
static __always_inline void put_window(struct __sk_buff *skb, struct tcp_state *state)
{
	struct bpf_sock *sk = (struct bpf_sock *)skb->sk;
	struct bpf_tcp_sock *tcp;
	u32 cwnd_bytes, mss_bytes;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->state == TCP_LISTEN)
		return;
	tcp = bpf_tcp_sock(sk);
	if (!tcp)
		return;
	mss_bytes = tcp->mss_cache;
	cwnd_bytes = tcp->snd_cwnd * mss_bytes;
	state->flags |= TCP_STATE_TRACED;
	state->mss_bytes = bpf_htons(mss_bytes);
	state->cwnd_bytes[0] = bpf_htons(cwnd_bytes >> 16);
	state->cwnd_bytes[1] = bpf_htons(cwnd_bytes & 0xffff);
}

/* What has to be on the wire for the longest packet that this one is there. */
static __always_inline u32 longest_bytes(const struct packet *packet)
{
	u32 payload_bytes = packet->payload_bytes;

	if (packet->pkts > 1)
		payload_bytes = packet->tcp_bytes + packet->segment_bytes;
	return sizeof(struct ipv6_header) + payload_bytes;
}

static __always_inline void put_tcp_state(struct __sk_buff *skb, const struct packet *packet,
					  struct tcp_state *state)
{
	state->flags &= TCP_STATE_WANTS_ECHO; /* as the template has it */
	if (config.tcp_state)
		put_window(skb, state);
	if (packet->pkts == 1)
		return;
	state->flags |= TCP_STATE_SUPER;
	state->mss_bytes = bpf_htons(packet->segment_bytes);
	state->first_sequence = bpf_htons(packet->tcp_sequence & 0xffff);
}

static __noinline int insert(struct __sk_buff *skb, struct packet *packet, u64 wall_ns)
{
	u32 bytes = config.template_bytes, timestamp_at = config.timestamp_at, state_at = config.tcp_state_at;
	struct node_scratch *mine = ONLY(scratch);
	struct lengths lengths;
	bool is_chosen;
	u64 sequence;

	if (!mine || !packet || !is_served(packet))
		return 0;
	is_chosen = count(&packet->flow, packet->pkts, &sequence);
	if (packet->pkts > 1 && (config.per_packet || !packet->tcp_bytes)) {
		COUNT(merged, packet->pkts);
		return 0;
	}
	if (!is_chosen || packet->has_echo)
		return 0;
	if (longest_bytes(packet) + bytes > config.mtu_bytes || packet->payload_bytes + bytes > 0xffff) {
		COUNT(too_long, packet->pkts);
		return 0;
	}
	if (bytes < 16 || bytes > NODE_TEMPLATE_BYTES || timestamp_at > NODE_TEMPLATE_BYTES - 8 ||
	    config.sequence_at > NODE_TEMPLATE_BYTES - 8 || config.next_header_at >= NODE_TEMPLATE_BYTES ||
	    state_at > NODE_TEMPLATE_BYTES - sizeof(struct tcp_state))
		return 0;
	for (u32 i = 0; i < NODE_TEMPLATE_BYTES / 8; i++)
		((u64 *)mine->headers)[i] = ((const volatile u64 *)config.template_)[i];
	mine->headers[config.next_header_at] = packet->first;
	*(__be32 *)(mine->headers + config.sequence_at) = bpf_htonl(sequence >> 32);
	*(__be32 *)(mine->headers + config.sequence_at + 4) = bpf_htonl(sequence);
	*(__be32 *)(mine->headers + timestamp_at) = bpf_htonl(wall_ns / NSEC_PER_SEC);
	*(__be32 *)(mine->headers + timestamp_at + 4) = bpf_htonl(wall_ns % NSEC_PER_SEC / 1000);
	if (state_at)
		put_tcp_state(skb, packet, (struct tcp_state *)(mine->headers + state_at));

	/* The size of segments stays: TCP made them so small that headers fit. */
	if (bpf_skb_adjust_room(skb, bytes, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO))
		return 0;
	lengths.payload_bytes = bpf_htons(packet->payload_bytes + bytes);
	lengths.next_header = IPPROTO_HOPOPTS;
	bpf_skb_store_bytes(skb, headers_at(), mine->headers, bytes, BPF_F_RECOMPUTE_CSUM);
	bpf_skb_store_bytes(skb, config.link_bytes + IPV6_LENGTH_AT, &lengths, 3, BPF_F_RECOMPUTE_CSUM);
	packet->first = IPPROTO_HOPOPTS;
	packet->payload_bytes += bytes;
	packet->hop_by_hop_bytes = (mine->headers[1] + 1) * 8;
	packet->destination_bytes = bytes - packet->hop_by_hop_bytes;
	packet->trace_at = headers_at() + config.trace_at;
	packet->number = sequence;
	COUNT(inserted, packet->pkts);
	return 0;
}

#endif
