/* SPDX-License-Identifier: GPL-2.0 */
/* Inserts headers into packets. */
#ifndef CCP_NODE_SOURCE_H
#define CCP_NODE_SOURCE_H

#include "counts.h"
#include "slot.h"

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

/* Whether the packet belongs to a flow and has no headers other than ccplane's echo, so that it may get some. */
static __always_inline bool is_served(const struct packet *packet)
{
	return packet->payload_bytes && (packet->flow.protocol == packet->first || packet->has_echo) &&
	       !packet->is_multicast && has_prefix(packet->flow.daddr, config.prefix, config.prefix_mask);
}

/* Length on the wire of the longest packet in this one. */
static __always_inline u32 longest_bytes(const struct packet *packet)
{
	u32 payload_bytes = packet->payload_bytes;

	if (packet->pkts > 1)
		payload_bytes = packet->tcp_bytes + packet->segment_bytes;
	return sizeof(struct ipv6_header) + payload_bytes;
}

/* Numbers a packet of the flow with record `count`; returns whether to insert headers of this length. */
static __always_inline bool number(struct packet *packet, struct node_count *count, u32 bytes)
{
	bool is_chosen = config.every_pkts == 1 ||
			 !(__sync_fetch_and_add(&count->sent_packets, 1) % config.every_pkts);

	packet->number = __sync_fetch_and_add(&count->sent_pkts, packet->pkts);
	if (packet->pkts > 1 && (config.per_packet || !packet->tcp_bytes)) {
		COUNT(merged, packet->pkts);
		return false;
	}
	if (!is_chosen || packet->has_echo)
		return false;
	if (longest_bytes(packet) + bytes > config.mtu_bytes || packet->payload_bytes + bytes > 0xffff) {
		COUNT(too_long, packet->pkts);
		return false;
	}
	return true;
}

struct tcp_state {
	u8 kind;
	u8 flags;
	__be16 mss_bytes;
	__be16 cwnd_bytes[2];
	__be16 first_sequence;
};

/* The sending TCP's window; a router has none. */
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

static __always_inline void put_tcp_state(struct __sk_buff *skb, const struct packet *packet,
					  struct tcp_state *state)
{
	state->flags &= TCP_STATE_WANTS_ECHO; /* as in the template */
	if (config.tcp_state)
		put_window(skb, state);
	if (packet->pkts == 1)
		return;
	state->flags |= TCP_STATE_SUPER;
	state->mss_bytes = bpf_htons(packet->segment_bytes);
	state->first_sequence = bpf_htons(packet->tcp_sequence & 0xffff);
}

/* Inserts headers, with this node's data if it is also a transit node. */
static __noinline int insert(struct __sk_buff *skb, struct packet *packet, const struct node_data *data,
			     u64 wall_ns)
{
	u32 bytes = config.template_bytes, timestamp_at = config.timestamp_at, state_at = config.tcp_state_at;
	struct node_scratch *mine = ONLY(scratch);
	bool is_filled = false;

	if (!mine || !packet || !data || bytes < 16 || bytes > NODE_TEMPLATE_BYTES ||
	    timestamp_at > NODE_TEMPLATE_BYTES - 8 || config.sequence_at > NODE_TEMPLATE_BYTES - 8 ||
	    config.next_header_at >= NODE_TEMPLATE_BYTES ||
	    config.trace_at > NODE_TEMPLATE_BYTES - TRACE_BYTES ||
	    state_at > NODE_TEMPLATE_BYTES - sizeof(struct tcp_state))
		return 0;
	for (u32 i = 0; i < NODE_TEMPLATE_BYTES / 8 && i * 8 < bytes; i++)
		((u64 *)mine->headers)[i] = ((const volatile u64 *)config.template_)[i];
	mine->headers[config.next_header_at] = packet->first;
	*(__be32 *)(mine->headers + config.sequence_at) = bpf_htonl(packet->number >> 32);
	*(__be32 *)(mine->headers + config.sequence_at + 4) = bpf_htonl(packet->number);
	*(__be32 *)(mine->headers + timestamp_at) = bpf_htonl(wall_ns / NSEC_PER_SEC);
	*(__be32 *)(mine->headers + timestamp_at + 4) = bpf_htonl(wall_ns % NSEC_PER_SEC / 1000);
	if (state_at)
		put_tcp_state(skb, packet, (struct tcp_state *)(mine->headers + state_at));
	if (config.roles & NODE_TRANSIT)
		is_filled = put_first_slot(mine->headers + config.trace_at, data);

	/* The segment size stays: TCP has left room for the headers. */
	if (bpf_skb_adjust_room(skb, bytes, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO))
		return 0;
	/* One write, from the length before the addresses to the end of the headers. */
	mine->ip.payload_bytes = bpf_htons(packet->payload_bytes + bytes);
	mine->ip.next_header = IPPROTO_HOPOPTS;
	mine->ip.hop_limit = packet->hop_limit;
	__builtin_memcpy(mine->ip.saddr, packet->flow.saddr, sizeof(mine->ip.saddr));
	__builtin_memcpy(mine->ip.daddr, packet->flow.daddr, sizeof(mine->ip.daddr));
	bpf_skb_store_bytes(skb, config.link_bytes + IPV6_LENGTH_AT, &mine->ip.payload_bytes,
			    sizeof(mine->ip) - IPV6_LENGTH_AT + bytes, BPF_F_RECOMPUTE_CSUM);
	COUNT(inserted, packet->pkts);
	if (is_filled)
		COUNT(filled, packet->pkts);
	else if (config.roles & NODE_TRANSIT)
		COUNT(overflowed, packet->pkts);
	return 0;
}

#endif
