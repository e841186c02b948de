/* SPDX-License-Identifier: GPL-2.0 */
/* Writes this node's data into a trace (RFC 9197, section 4.4). */
#ifndef CCP_NODE_SLOT_H
#define CCP_NODE_SLOT_H

#include "packet.h"
#include "queue.h"
#include "meter.h"

#define OVERFLOW 0x400
#define REMAINING 0x7f
#define NODE_LEN_SHIFT 11
#define FIELD(bit) (1U << (31 - (bit)))
#define SNAPSHOT FIELD(22)
#define WIDE (FIELD(8) | FIELD(9) | FIELD(10))
#define UNKNOWN_FIELDS 0x000ffd00U /* bits 12 to 21 and 23: undefined */
#define SLOT_WORDS 24
#define TRACE_BYTES 8 /* its header */

struct trace_header {
	__be16 namespace_id;
	__be16 flags; /* NodeLen, flags, RemainingLen */
	__be32 type; /* and a reserved byte */
};

/* This node's data for the packet, in host order. */
struct node_data {
	u32 hop_limit;
	u32 ingress_if;
	u32 timestamp_s;
	u32 timestamp_us;
	u32 queue_pkts;
	u32 free_pkts;
	u32 arrival_pkts_per_s;
	u32 flow_count;
	u32 link_rate_bytes_per_s;
	u32 flow_counts; /* packets missing and dropped, in wire format */
	struct node_radio radio;
};

static __always_inline u32 u16_or_missing(u32 number)
{
	return number && number < 0xffff ? number : 0xffff;
}

static __always_inline bool is_wireless(const struct node_radio *radio)
{
	return (radio->rssi_snr & radio->data_rate_bytes_per_s & radio->mcs) != NODE_MISSING;
}

static __always_inline u32 words_of(u32 type)
{
	u32 fields = type & ~(SNAPSHOT | 0xff), words = 0;

	for (int bit = 0; bit < 12; bit++)
		words += (fields & FIELD(bit) ? 1 : 0) + (fields & WIDE & FIELD(bit) ? 1 : 0);
	return words;
}

#define PUT(word) slot[words++ & 63] = bpf_htonl(word)

/* Writes the slot; returns its length in words. */
static __noinline u32 write_slot(__be32 *slot, u32 type, const struct node_data *data)
{
	u32 words = 0;

	if (!slot || !data)
		return 0;
	if (type & FIELD(0))
		PUT(data->hop_limit << 24 | (config.node_id & 0xffffff));
	if (type & FIELD(1))
		PUT(u16_or_missing(data->ingress_if) << 16 | u16_or_missing(config.ifindex));
	if (type & FIELD(2))
		PUT(data->timestamp_s);
	if (type & FIELD(3))
		PUT(data->timestamp_us);
	if (type & FIELD(4))
		PUT(NODE_MISSING); /* the packet has not left the node yet */
	if (type & FIELD(5))
		PUT(NODE_MISSING);
	if (type & FIELD(6))
		PUT(data->queue_pkts);
	if (type & FIELD(7))
		PUT(NODE_MISSING);
	if (type & FIELD(8)) {
		PUT(data->hop_limit << 24);
		PUT(config.node_id);
	}
	if (type & FIELD(9)) {
		PUT(data->ingress_if ? data->ingress_if : NODE_MISSING);
		PUT(config.ifindex);
	}
	if (type & FIELD(10)) {
		PUT(NODE_MISSING);
		PUT(NODE_MISSING);
	}
	if (type & FIELD(11))
		PUT(data->queue_pkts);
	if (!(type & SNAPSHOT))
		return words;
	if (is_wireless(&data->radio))
		PUT((NODE_WIRELESS_WORDS - 1) << 24 | NODE_SCHEMA);
	else
		PUT((NODE_WIRED_WORDS - 1) << 24 | NODE_SCHEMA);
	PUT(data->free_pkts);
	PUT(data->arrival_pkts_per_s);
	PUT(data->flow_count);
	PUT(data->radio.lost_pkts);
	PUT(data->link_rate_bytes_per_s ? data->link_rate_bytes_per_s : data->radio.data_rate_bytes_per_s);
	PUT(data->flow_counts);
	if (is_wireless(&data->radio)) {
		PUT(data->radio.rssi_snr);
		PUT(data->radio.data_rate_bytes_per_s);
		PUT(data->radio.mcs);
	}
	return words;
}

static __always_inline u32 slot_words(u32 type, const struct node_radio *radio)
{
	if (!(type & SNAPSHOT))
		return words_of(type);
	return words_of(type) + (is_wireless(radio) ? NODE_WIRELESS_WORDS : NODE_WIRED_WORDS);
}

/* Writes the node's data into the trace of a template in the scratch map; returns whether there was room. */
static __always_inline bool put_first_slot(u8 *at, const struct node_data *data)
{
	struct trace_header *trace = (struct trace_header *)at;
	u32 type = bpf_ntohl(trace->type), flags = bpf_ntohs(trace->flags), left = flags & REMAINING;
	u32 words = slot_words(type, &data->radio);
	bool has_room = words <= left;

	/* An option has room for 61 words; the verifier cannot know. */
	if (has_room)
		write_slot((__be32 *)(at + TRACE_BYTES + ((left - words) & 63) * 4), type, data);
	trace->flags = bpf_htons(has_room ? flags - words : flags | OVERFLOW);
	return has_room;
}

/* Writes the node's data into the first trace of our namespace, if it requests only known fields. */
static __noinline int fill(struct __sk_buff *skb, struct packet *packet, struct node_data *data)
{
	struct node_scratch *mine = ONLY(scratch);
	struct options options = {};
	struct trace_header trace;
	u32 type, flags, words, room_at;

	if (!mine || !packet || !data || !packet->hop_by_hop_bytes)
		return 0;
	read_options(skb, headers_at(), packet->hop_by_hop_bytes, &options);
	if (!options.trace_at || bpf_skb_load_bytes(skb, options.trace_at, &trace, sizeof(trace)))
		return 0;
	type = bpf_ntohl(trace.type);
	flags = bpf_ntohs(trace.flags);
	room_at = options.trace_at + sizeof(trace) + (flags & REMAINING) * 4;
	if (type & UNKNOWN_FIELDS || flags >> NODE_LEN_SHIFT != words_of(type) ||
	    room_at > options.trace_end) {
		COUNT(not_filled, packet->pkts);
		return 0;
	}
	words = write_slot(mine->slot, type, data);
	if (flags & OVERFLOW || words > (flags & REMAINING)) {
		COUNT(overflowed, packet->pkts);
		flags |= OVERFLOW;
	} else if (words && words <= SLOT_WORDS) {
		room_at -= words * 4;
		if (bpf_skb_store_bytes(skb, room_at, mine->slot, words * 4, BPF_F_RECOMPUTE_CSUM))
			return 0;
		COUNT(filled, packet->pkts);
		flags -= words;
	}
	trace.flags = bpf_htons(flags);
	bpf_skb_store_bytes(skb, options.trace_at, &trace, sizeof(trace), BPF_F_RECOMPUTE_CSUM);
	return 0;
}

#endif
