/* SPDX-License-Identifier: GPL-2.0 */
/* Finds flow, headers and options in a packet. */
#ifndef CCP_NODE_PACKET_H
#define CCP_NODE_PACKET_H

#include "kernel.h"
#include "maps.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define PAD1 0
#define PADN 1
#define IOAM 0x11
#define IOAM_MUTABLE 0x31
#define EXPERIMENT 0x1e
#define EXPERIMENT_ID 0x6363
#define IOAM_TRACE 0
#define IOAM_EDGE_TO_EDGE 3
#define E2E_NUMBER_64 0x80 /* in the upper byte of the type */
#define EDGE_BYTES 22 /* after type and length, with a 64-bit number and the time */
#define EDGE_TIMESTAMP_AT 16
#define TCP_STATE 1
#define TCP_STATE_TRACED 1
#define TCP_STATE_WANTS_ECHO 2
#define TCP_STATE_SUPER 4
#define TCP_STATE_SUPER_BYTES 12
#define ECHO_KIND 2
#define ECHO_BYTES 50 /* after type and length */
#define MAX_OPTIONS 8

#define IPV6_LENGTH_AT 4
#define IPV6_NEXT_HEADER_AT 6

struct ipv4_header {
	u8 words;
	u8 tos;
	__be16 bytes;
	u8 before[4];
	u8 ttl;
	u8 protocol;
	__be16 checksum;
	__be32 saddr;
	__be32 daddr;
};

struct packet {
	struct node_flow flow; /* protocol 0: none */
	u32 pkts; /* packets on the wire */
	u32 segment_bytes; /* payload of each packet but the last; 0: a single packet */
	u32 tcp_sequence;
	u32 tcp_bytes; /* length of the TCP header; 0: not TCP */
	u32 payload_bytes; /* of IPv6, including extension headers; 0: not IPv6 */
	u32 hop_limit;
	u32 hop_by_hop_bytes;
	u32 destination_bytes;
	u64 number; /* the packet's number, if this source numbers it */
	bool is_chosen; /* it gets headers at this node */
	u8 first; /* next header of IPv6 */
	bool is_multicast;
	bool has_echo; /* this node has inserted an echo */
};

static __always_inline u32 headers_at(void)
{
	return config.link_bytes + sizeof(struct ipv6_header);
}

/*
 * Reads a struct from the packet; true if it is incomplete. Contiguous data, the usual case for headers, is read without a
 * helper.
 */
#define READ(skb, at, to)                                                          \
	({                                                                         \
		const typeof(*(to)) *there_ = (void *)(long)(skb)->data + (at);    \
		bool missing_ = false;                                             \
		if ((void *)(there_ + 1) <= (void *)(long)(skb)->data_end)         \
			*(to) = *there_;                                           \
		else                                                               \
			missing_ = bpf_skb_load_bytes(skb, at, to, sizeof(*(to))); \
		missing_;                                                          \
	})

/* More than two headers need; a bound for the verifier. */
#define MAX_HEADERS_AT 4608

struct ports {
	__be16 source;
	__be16 destination;
};

struct tcp_start {
	struct ports ports;
	__be32 sequence;
	__be32 acknowledged;
	u8 words; /* in its upper half */
	u8 flags;
	__be16 window;
};

static __always_inline void read_ports(struct __sk_buff *skb, struct packet *packet, u32 at, u8 protocol)
{
	struct tcp_start start;

	if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || at > MAX_HEADERS_AT)
		return;
	if (protocol == IPPROTO_TCP ? READ(skb, at, &start) : READ(skb, at, &start.ports))
		return;
	packet->flow.sport = bpf_ntohs(start.ports.source);
	packet->flow.dport = bpf_ntohs(start.ports.destination);
	packet->flow.protocol = protocol;
	if (protocol == IPPROTO_TCP) {
		packet->tcp_sequence = bpf_ntohl(start.sequence);
		packet->tcp_bytes = (start.words >> 4) * 4;
	}
}

static __always_inline void read_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	__be32 *saddr = (__be32 *)packet->flow.saddr, *daddr = (__be32 *)packet->flow.daddr;
	struct ipv4_header ip;

	if (bpf_skb_load_bytes(skb, config.link_bytes, &ip, sizeof(ip)))
		return;
	saddr[2] = daddr[2] = bpf_htonl(0xffff);
	saddr[3] = ip.saddr;
	daddr[3] = ip.daddr;
	read_ports(skb, packet, config.link_bytes + (ip.words & 15) * 4, ip.protocol);
}

/* Skips an extension header of this kind, if it is one; returns its length. */
static __always_inline u32 step_over(struct __sk_buff *skb, u32 at, u8 kind, u8 *next)
{
	struct {
		u8 next_header;
		u8 length;
	} start;

	if (*next != kind || at > MAX_HEADERS_AT || READ(skb, at, &start))
		return 0;
	*next = start.next_header;
	return (start.length + 1) * 8;
}

static __always_inline void read_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	u32 at = headers_at();
	struct ipv6_header ip;
	u8 next;

	if (READ(skb, config.link_bytes, &ip))
		return;
	__builtin_memcpy(packet->flow.saddr, ip.saddr, sizeof(ip.saddr));
	__builtin_memcpy(packet->flow.daddr, ip.daddr, sizeof(ip.daddr));
	packet->payload_bytes = bpf_ntohs(ip.payload_bytes);
	packet->hop_limit = ip.hop_limit;
	packet->is_multicast = ip.daddr[0] == 0xff;
	packet->first = next = ip.next_header;
	packet->hop_by_hop_bytes = step_over(skb, at, IPPROTO_HOPOPTS, &next);
	at += packet->hop_by_hop_bytes;
	packet->destination_bytes = step_over(skb, at, IPPROTO_DSTOPTS, &next);
	read_ports(skb, packet, at + packet->destination_bytes, next);
}

static __always_inline void read_packet(struct __sk_buff *skb, struct packet *packet)
{
	__builtin_memset(packet, 0, sizeof(*packet));
	packet->pkts = skb->gso_segs > 1 ? skb->gso_segs : 1;
	packet->segment_bytes = skb->gso_size;
	/* The kernel recounts segments of a packet that a program resized, but only when it sends the packet. */
	if (!skb->gso_segs && skb->gso_size)
		packet->pkts = (skb->len + skb->gso_size - 1) / skb->gso_size;
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		read_ipv6(skb, packet);
	else if (skb->protocol == bpf_htons(ETH_P_IP))
		read_ipv4(skb, packet);
}

/* The fields before the hop limit of IPv6. */
struct lengths {
	__be16 payload_bytes;
	u8 next_header;
};

/* The options of a header. */
struct options {
	u32 trace_at; /* Namespace-ID of the first trace of our namespace; 0: none */
	u32 trace_end;
	u32 number_at; /* the end-to-end number, 64 bits; 0: none */
	u32 super_at; /* segment size of a super-packet, six bytes before its first sequence number; 0: none */
	u32 edge_at; /* edge-to-edge option with number and time, as ccplane's sources write it; 0: none */
	u32 echo_at; /* echo of the path; 0: none */
	bool wants_echo;
	bool telemetry; /* contains telemetry other than an echo */
	bool own; /* contains ccplane's options */
	bool others; /* contains third-party options, or is malformed */
};

static __always_inline void read_experiment(const u8 *option, u32 at, struct options *options)
{
	if (option[4] == ECHO_KIND) {
		if (option[1] == ECHO_BYTES)
			options->echo_at = at;
		return;
	}
	options->telemetry = true;
	if (option[4] == TCP_STATE && option[5] & TCP_STATE_WANTS_ECHO)
		options->wants_echo = true;
}

/* Not static, so that the verifier checks it once and not on every path to it. */
__noinline int read_options(struct __sk_buff *skb, u32 at, u32 bytes, struct options *options)
{
	u32 end = at + bytes;

	if (!options)
		return 0;
	at += 2;
	for (int i = 0; i < MAX_OPTIONS && at < end; i++) {
		/* Type, length, reserved, IOAM option type, namespace, E2E type; or experiment, kind, flags. */
		u8 option[8] = {};
		bool is_trace, is_edge;
		u32 next;

		if (bpf_skb_load_bytes(skb, at, option, 1))
			break;
		if (option[0] == PAD1) {
			at++;
			continue;
		}
		if (bpf_skb_load_bytes(skb, at, option, 2))
			break;
		next = at + 2 + option[1];
		if (next > end)
			break;
		if (option[0] != PADN) {
			if (option[1] < 6 || bpf_skb_load_bytes(skb, at, option, sizeof(option)))
				break;
			is_trace = option[0] == IOAM_MUTABLE && option[3] == IOAM_TRACE;
			is_edge = option[0] == IOAM && option[3] == IOAM_EDGE_TO_EDGE;
			if ((is_trace || is_edge) && (option[4] << 8 | option[5]) == config.namespace_id) {
				options->own = options->telemetry = true;
				if (is_edge && option[1] == EDGE_BYTES)
					options->edge_at = at;
			} else if (option[0] == EXPERIMENT && (option[2] << 8 | option[3]) == EXPERIMENT_ID) {
				options->own = true;
				read_experiment(option, at, options);
			} else {
				options->others = true;
			}
			if (is_edge && options->own && option[6] & E2E_NUMBER_64 && option[1] >= 14)
				options->number_at = at + 8;
			if (option[0] == EXPERIMENT && options->own && option[4] == TCP_STATE &&
			    option[5] & TCP_STATE_SUPER && option[1] >= 12)
				options->super_at = at + 6;
			if (is_trace && options->own && !options->trace_at) {
				options->trace_at = at + 4;
				options->trace_end = next;
			}
		}
		at = next;
	}
	if (at != end)
		options->others = true;
	return 0;
}

/* The start of headers of ccplane's sources: a lone trace, then TCP's state and the edge-to-edge option. */
struct usual_trace {
	u8 next_header;
	u8 length;
	u8 padding[2];
	u8 type;
	u8 bytes;
	u8 reserved;
	u8 ioam_type;
	__be16 namespace_id;
};

struct usual_ends {
	u8 next_header;
	u8 length;
	u8 type;
	u8 bytes;
	__be16 experiment;
	u8 kind;
	u8 flags;
	u8 state[8];
	u8 edge_type;
	u8 edge_bytes;
	u8 reserved;
	u8 ioam_type;
	__be16 namespace_id;
	u8 e2e_type;
};

#define USUAL_ENDS_BYTES 40
#define USUAL_EDGE_AT 16

/*
 * Reads headers of ccplane's sources without parsing each option; 0 for other headers. Not static and not inline, because
 * its callers have little stack.
 */
__noinline int read_usual(struct __sk_buff *skb, const struct packet *packet, struct options *options)
{
	struct {
		u8 type;
		u8 bytes;
	} padding;
	u32 at = headers_at(), ends_at, end;
	struct usual_trace trace;
	struct usual_ends ends;

	if (!packet || !options)
		return 0;
	if (!packet->hop_by_hop_bytes || packet->destination_bytes != USUAL_ENDS_BYTES)
		return 0;
	ends_at = at + packet->hop_by_hop_bytes;
	if (ends_at > MAX_HEADERS_AT || READ(skb, at, &trace) || READ(skb, ends_at, &ends))
		return 0;
	end = at + 6 + trace.bytes;
	if (trace.padding[0] != PADN || trace.padding[1] || trace.type != IOAM_MUTABLE ||
	    trace.ioam_type != IOAM_TRACE || bpf_ntohs(trace.namespace_id) != config.namespace_id)
		return 0;
	if (end != ends_at &&
	    (READ(skb, end, &padding) || padding.type != PADN || end + 2 + padding.bytes != ends_at))
		return 0;
	if (ends.type != EXPERIMENT || ends.bytes != TCP_STATE_SUPER_BYTES ||
	    bpf_ntohs(ends.experiment) != EXPERIMENT_ID || ends.kind != TCP_STATE || ends.edge_type != IOAM ||
	    ends.edge_bytes != EDGE_BYTES || ends.ioam_type != IOAM_EDGE_TO_EDGE ||
	    bpf_ntohs(ends.namespace_id) != config.namespace_id || !(ends.e2e_type & E2E_NUMBER_64))
		return 0;
	options->own = options->telemetry = true;
	options->wants_echo = ends.flags & TCP_STATE_WANTS_ECHO;
	options->trace_at = at + 8;
	options->trace_end = end;
	options->edge_at = ends_at + USUAL_EDGE_AT;
	options->number_at = options->edge_at + 8;
	options->super_at = ends.flags & TCP_STATE_SUPER ? ends_at + 8 : 0;
	return 1;
}

/*
 * Reads numbers from Destination Options. A super-packet's header has the number of its first segment, and all segments have
 * the same header: a segment's own TCP sequence number tells its place.
 */
__noinline int read_numbers(struct __sk_buff *skb, const struct packet *packet, struct numbers *numbers)
{
	struct options options = {};
	__be16 of_super[4]; /* segment size, window, first sequence number */
	__be32 number[2];
	u16 offset, size;

	if (!packet || !numbers)
		return 0;
	numbers->pkts = 0;
	if (packet->is_chosen) {
		numbers->first = packet->number;
		numbers->pkts = packet->pkts;
		return 0;
	}
	if (!packet->destination_bytes)
		return 0;
	if (!read_usual(skb, packet, &options))
		read_options(skb, headers_at() + packet->hop_by_hop_bytes, packet->destination_bytes,
			     &options);
	if (!options.number_at || bpf_skb_load_bytes(skb, options.number_at, number, sizeof(number)))
		return 0;
	numbers->first = (u64)bpf_ntohl(number[0]) << 32 | bpf_ntohl(number[1]);
	if (options.super_at) {
		if (bpf_skb_load_bytes(skb, options.super_at, of_super, sizeof(of_super)))
			return 0;
		size = bpf_ntohs(of_super[0]);
		/* A super-packet is shorter than 64 KB, so the lower half of the sequence number suffices. */
		offset = packet->tcp_sequence - bpf_ntohs(of_super[3]);
		if (!size || !packet->tcp_bytes)
			return 0;
		numbers->first += offset / size;
	}
	numbers->pkts = packet->pkts;
	return 0;
}

#endif
