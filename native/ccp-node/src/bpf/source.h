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

/* Whether it is a packet of a flow, without other headers, that may have ours. */
static __always_inline bool is_served(const struct packet *packet)
{
	return packet->payload_bytes && packet->flow.protocol == packet->first && !packet->is_multicast &&
	       has_prefix(packet->flow.daddr, config.prefix, config.prefix_mask);
}

/* Counts packets of the flow; the number of the first of them. */
static __always_inline u64 count(const struct node_flow *flow, u32 pkts)
{
	u64 none = 0, *next = bpf_map_lookup_elem(&sequences, flow);

	if (!next) {
		bpf_map_update_elem(&sequences, flow, &none, BPF_NOEXIST);
		next = bpf_map_lookup_elem(&sequences, flow);
	}
	return next ? __sync_fetch_and_add(next, pkts) : 0;
}

static __always_inline void put_tcp_state(struct __sk_buff *skb, u8 *state)
{
	struct bpf_sock *sk = (struct bpf_sock *)skb->sk;
	struct bpf_tcp_sock *tcp;
	u32 cwnd_bytes, mss_bytes;

	/* As the template has it: not traced. */
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
	state[1] = 1;
	*(__be16 *)(state + 2) = bpf_htons(mss_bytes);
	*(__be16 *)(state + 4) = bpf_htons(cwnd_bytes >> 16);
	*(__be16 *)(state + 6) = bpf_htons(cwnd_bytes & 0xffff);
}

static __noinline int insert(struct __sk_buff *skb, struct packet *packet, u64 wall_ns)
{
	u32 bytes = config.template_bytes, timestamp_at = config.timestamp_at, state_at = config.tcp_state_at;
	struct node_scratch *mine = ONLY(scratch);
	struct lengths lengths;
	u64 sequence;

	if (!mine || !packet || !is_served(packet))
		return 0;
	sequence = count(&packet->flow, packet->pkts);
	if (packet->pkts > 1) {
		COUNT(merged, packet->pkts);
		return 0;
	}
	if (sequence % config.every_pkts)
		return 0;
	if (sizeof(struct ipv6_header) + packet->payload_bytes + bytes > config.mtu_bytes) {
		COUNT(too_long, 1);
		return 0;
	}
	if (bytes < 16 || bytes > NODE_TEMPLATE_BYTES || timestamp_at > NODE_TEMPLATE_BYTES - 8 ||
	    config.sequence_at > NODE_TEMPLATE_BYTES - 8 || config.next_header_at >= NODE_TEMPLATE_BYTES ||
	    state_at > NODE_TEMPLATE_BYTES - 8)
		return 0;
	for (u32 i = 0; i < NODE_TEMPLATE_BYTES / 8; i++)
		((u64 *)mine->headers)[i] = ((const volatile u64 *)config.template_)[i];
	mine->headers[config.next_header_at] = packet->first;
	*(__be32 *)(mine->headers + config.sequence_at) = bpf_htonl(sequence >> 32);
	*(__be32 *)(mine->headers + config.sequence_at + 4) = bpf_htonl(sequence);
	*(__be32 *)(mine->headers + timestamp_at) = bpf_htonl(wall_ns / NSEC_PER_SEC);
	*(__be32 *)(mine->headers + timestamp_at + 4) = bpf_htonl(wall_ns % NSEC_PER_SEC / 1000);
	if (config.tcp_state)
		put_tcp_state(skb, mine->headers + state_at);

	if (bpf_skb_adjust_room(skb, bytes, BPF_ADJ_ROOM_NET, 0))
		return 0;
	lengths.payload_bytes = bpf_htons(packet->payload_bytes + bytes);
	lengths.next_header = IPPROTO_HOPOPTS;
	bpf_skb_store_bytes(skb, headers_at(), mine->headers, bytes, BPF_F_RECOMPUTE_CSUM);
	bpf_skb_store_bytes(skb, config.link_bytes + IPV6_LENGTH_AT, &lengths, 3, BPF_F_RECOMPUTE_CSUM);
	packet->first = IPPROTO_HOPOPTS;
	packet->payload_bytes += bytes;
	packet->hop_by_hop_bytes = (mine->headers[1] + 1) * 8;
	COUNT(inserted, 1);
	return 0;
}

#endif
