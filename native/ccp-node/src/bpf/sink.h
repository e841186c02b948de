/* SPDX-License-Identifier: GPL-2.0 */
/* Sends packets' headers to the reader, and removes headers. */
#ifndef CCP_NODE_SINK_H
#define CCP_NODE_SINK_H

#include "echo.h"

/* Minimum time between wake-ups of a reader that does not poll [ns]. */
#define WAKE_NS 2000000ULL

/* Waking is the most expensive step here: it interrupts the sender's processor, and often another one. */
static __always_inline u64 wake_flag(const struct node_now *reported, u64 now_ns)
{
	static u64 woken_ns;

	if (reported->reader_looks || now_ns - woken_ns < WAKE_NS)
		return BPF_RB_NO_WAKEUP;
	woken_ns = now_ns;
	return BPF_RB_FORCE_WAKEUP;
}

static __noinline int emit(struct __sk_buff *skb, struct packet *packet, u32 headers_bytes, u64 plain_pkts)
{
	struct node_scratch *mine = ONLY(scratch);
	struct node_now *reported = ONLY(now);
	u64 now_ns = bpf_ktime_get_ns();

	if (!mine || !reported || !packet || headers_bytes > NODE_HEADERS_BYTES)
		return 0;
	mine->record.mono_ns = now_ns;
	mine->record.plain_pkts = plain_pkts;
	mine->record.flow = packet->flow;
	mine->record.len_bytes = sizeof(struct ipv6_header) + packet->payload_bytes - headers_bytes;
	mine->record.pkts = packet->pkts;
	mine->record.tcp_sequence = packet->tcp_sequence;
	mine->record.hop_limit = packet->hop_limit;
	mine->record.headers_bytes = headers_bytes;
	mine->record.first = packet->first;
	/* Verifiers of Linux 6.1 do not conclude that a value other than 0 is positive. */
	if (headers_bytes >= 8 && bpf_skb_load_bytes(skb, headers_at(), mine->read, headers_bytes))
		return 0;
	if (bpf_ringbuf_output(&records, mine, sizeof(mine->record) + headers_bytes,
			       wake_flag(reported, now_ns)))
		COUNT(ring_full, packet->pkts);
	return 0;
}

#define CACHE_LINE_BYTES 64
#define UDP_BYTES 8

/*
 * A veth pair delivers the buffer that was sent. If a source had to enlarge it, the kernel does not know its true size, and
 * warns when TCP merges it with the next one (WARN_ON_ONCE in skb_try_coalesce). It does not merge buffers with payload
 * after the headers in kmalloc'ed memory: pulling a cache line there suffices, and the rest stays in place.
 */
static __always_inline void keep_apart(struct __sk_buff *skb, const struct packet *packet)
{
	u32 bytes = headers_at() + (packet->tcp_bytes ? packet->tcp_bytes : UDP_BYTES) + CACHE_LINE_BYTES;

	bpf_skb_pull_data(skb, bytes < skb->len ? bytes : skb->len);
}

static __always_inline void take_out(struct __sk_buff *skb, struct packet *packet, u32 bytes)
{
	struct lengths lengths = {
		.payload_bytes = bpf_htons(packet->payload_bytes - bytes),
		.next_header = packet->flow.protocol,
	};

	if (bpf_skb_adjust_room(skb, -(s32)bytes, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO)) {
		COUNT(not_removed, packet->pkts);
		return;
	}
	bpf_skb_store_bytes(skb, config.link_bytes + IPV6_LENGTH_AT, &lengths, 3, BPF_F_RECOMPUTE_CSUM);
	if (config.is_veth)
		keep_apart(skb, packet);
	packet->payload_bytes -= bytes;
	COUNT(removed, packet->pkts);
}

static __always_inline void sink(struct __sk_buff *skb, struct packet *packet)
{
	u32 bytes = packet->hop_by_hop_bytes + packet->destination_bytes, at = headers_at();
	static struct node_sunk none; /* never written */
	struct options options = {};
	struct node_sunk *known;
	bool trusted;

	if (!packet->payload_bytes || !packet->flow.protocol)
		return;
	known = config.roles & NODE_SINK ? bpf_map_lookup_elem(&sunk, &packet->flow) : NULL;
	if (!read_usual(skb, packet, &options)) {
		if (packet->hop_by_hop_bytes)
			read_options(skb, at, packet->hop_by_hop_bytes, &options);
		if (packet->destination_bytes)
			read_options(skb, at + packet->hop_by_hop_bytes, packet->destination_bytes, &options);
	}
	trusted = config.trusts && has_prefix(packet->flow.saddr, config.trusted, config.trusted_mask);
	if (options.own && !trusted)
		COUNT(foreign, packet->pkts);
	if (options.echo_at && trusted && config.roles & NODE_READER)
		receive(skb, packet, options.echo_at);
	if (options.telemetry && !(config.roles & NODE_SINK))
		return; /* another node removes it */
	if (options.telemetry && trusted) {
		if (options.wants_echo && config.roles & NODE_REFLECTS)
			note_path(skb, packet, &options);
		if (!known)
			bpf_map_update_elem(&sunk, &packet->flow, &none, BPF_NOEXIST);
		emit(skb, packet, bytes, known ? known->plain_pkts : 0);
	}
	if (options.own && options.others)
		COUNT(not_removed, packet->pkts);
	else if (options.own)
		take_out(skb, packet, bytes);
	if (!options.telemetry && config.roles & NODE_REFLECTS)
		count_flow(skb, packet, bpf_map_lookup_elem(&counts, &packet->flow),
			   false); /* a packet without a number, of a counted flow */
	if (!options.telemetry && known) {
		__sync_fetch_and_add(&known->plain_pkts, packet->pkts);
		known->plain_ns = bpf_ktime_get_ns();
		COUNT(plain, packet->pkts); /* last, so that readers of it also see the others */
	}
}

#endif
