/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Echoes of the path (docs/ioam.md): a sink keeps the path's telemetry and puts it into pure ACKs of the flow; a source
 * removes it and stores it for the socket.
 */
#ifndef CCP_NODE_ECHO_H
#define CCP_NODE_ECHO_H

#include "path.h"
#include "path_echo.h"
#include "source.h"

#define ECHO_WORDS 11
#define ECHO_ALL_KNOWN 1
#define MICROSECONDS 1000000ULL
/* The packet of an echo left before now: allowance for the adjustment of the monotonic clock to the wall clock [us]. */
#define AHEAD_US 1000
/* No algorithm uses older echoes [us]. */
#define OLDEST_US (60 * MICROSECONDS)

#define TCP_BYTES 20 /* without options */
#define TCP_LENGTH_AT 12
#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16

struct echo_header {
	u8 next_header;
	u8 length;
	u8 padding[2];
	u8 type;
	u8 bytes;
	u8 experiment[2];
	u8 kind;
	u8 flags;
	u8 hops;
	u8 hop;
	__be32 words[ECHO_WORDS];
};

#define ECHO_OPTION_AT 4

_Static_assert(sizeof(struct echo_header) == 56, "docs/ioam.md");

/* A sink's record of a flow's path and its losses. */
struct node_path {
	u32 busy;
	u32 is_news; /* bool: no ACK has carried it yet */
	struct path_known known;
	struct echo_header header;
};

/* Sink: flows whose source wants echoes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct node_flow);
	__type(value, struct node_path);
} paths SEC(".maps");

static __always_inline void put_echo(struct echo_header *header, const struct path *path, const u32 *reported,
				     const __be32 *left)
{
	header->next_header = IPPROTO_TCP;
	header->length = sizeof(*header) / 8 - 1;
	header->padding[0] = PADN;
	header->type = EXPERIMENT;
	header->bytes = ECHO_BYTES;
	header->experiment[0] = EXPERIMENT_ID >> 8;
	header->experiment[1] = EXPERIMENT_ID & 0xff;
	header->kind = ECHO_KIND;
	header->flags = path->all_known ? ECHO_ALL_KNOWN : 0;
	header->hops = path->nodes;
	header->hop = path->hop;
	header->words[0] = bpf_htonl(path->node_id);
	header->words[1] = bpf_htonl(path->queue_pkts);
	header->words[2] = bpf_htonl(path->free_pkts);
	header->words[3] = bpf_htonl(path->arrival_pkts_per_s);
	header->words[4] = bpf_htonl(path->link_rate_bytes_per_s);
	header->words[5] = bpf_htonl(path->flow_count);
	for (u32 cause = 0; cause < PATH_LOSSES; cause++)
		header->words[6 + cause] = bpf_htonl(reported[cause]);
	header->words[9] = left[0];
	header->words[10] = left[1];
}

static __always_inline struct node_path *path_of(const struct node_flow *flow)
{
	struct node_path *known = bpf_map_lookup_elem(&paths, flow);
	struct node_scratch *mine = ONLY(scratch);

	if (known || !mine)
		return known;
	__builtin_memset(mine->headers, 0, sizeof(mine->headers));
	bpf_map_update_elem(&paths, flow, mine->headers, BPF_NOEXIST);
	return bpf_map_lookup_elem(&paths, flow);
}

_Static_assert(sizeof(struct node_path) <= NODE_TEMPLATE_BYTES, "a new one is made in the scratch");

/* Sink: handles a packet of a flow whose source wants echoes. */
static __noinline int note_path(struct __sk_buff *skb, struct packet *packet, struct options *options)
{
	struct path path = {.hop_limit = packet ? packet->hop_limit : 0};
	struct numbers numbers = {};
	struct node_path *known;
	__be32 left[2];
	u32 missing;

	if (!packet || !options || !options->trace_at || !options->edge_at ||
	    bpf_skb_load_bytes(skb, options->edge_at + EDGE_TIMESTAMP_AT, left, sizeof(left)))
		return 0;
	read_numbers(skb, packet, &numbers);
	missing = count_numbered(bpf_map_lookup_elem(&counts, &packet->flow), packet, &numbers, false) >> 16;
	known = path_of(&packet->flow);
	if (!known || !numbers.pkts || !take_turn(&known->busy))
		return 0;
	if (is_newest(&known->known, &numbers)) {
		note_sink(&known->known.losses, missing);
		read_path(skb, options, &path, &known->known.losses);
		report_losses(&known->known);
		put_echo(&known->header, &path, known->known.reported, left);
		known->is_news = 1;
	}
	end_turn(&known->busy);
	return 0;
}

static __always_inline bool is_pure_ack(struct __sk_buff *skb, const struct packet *packet)
{
	u8 length_flags[2];

	if (packet->first != IPPROTO_TCP || packet->flow.protocol != IPPROTO_TCP || packet->pkts != 1 ||
	    bpf_skb_load_bytes(skb, headers_at() + TCP_LENGTH_AT, length_flags, sizeof(length_flags)))
		return false;
	return (length_flags[0] >> 4) * 4 == packet->payload_bytes &&
	       (length_flags[1] & (TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK)) == TCP_ACK;
}

/* Window probes and keepalives are old segments, which the other end answers, but does not accept. */
static __always_inline bool is_probe(struct __sk_buff *skb, const struct packet *packet)
{
	struct bpf_sock *sk = (struct bpf_sock *)skb->sk;
	struct bpf_tcp_sock *tcp;

	if (!sk)
		return false;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return false;
	tcp = bpf_tcp_sock(sk);
	return tcp && (s32)(packet->tcp_sequence - tcp->snd_una) < 0;
}

/* Sink: puts new path telemetry into a pure ACK of the flow. */
static __noinline int reflect(struct __sk_buff *skb, struct packet *packet)
{
	struct lengths lengths = {.next_header = IPPROTO_DSTOPTS};
	struct echo_header header;
	struct node_path *known;
	struct node_flow flow;

	if (!packet || !is_pure_ack(skb, packet) || is_probe(skb, packet))
		return 0;
	__builtin_memcpy(flow.saddr, packet->flow.daddr, sizeof(flow.saddr));
	__builtin_memcpy(flow.daddr, packet->flow.saddr, sizeof(flow.daddr));
	flow.sport = packet->flow.dport;
	flow.dport = packet->flow.sport;
	flow.protocol = IPPROTO_TCP;
	known = bpf_map_lookup_elem(&paths, &flow);
	if (!known || !known->is_news || !take_turn(&known->busy))
		return 0;
	header = known->header;
	known->is_news = 0;
	end_turn(&known->busy);
	if (bpf_skb_adjust_room(skb, sizeof(header), BPF_ADJ_ROOM_NET, 0))
		return 0;
	packet->payload_bytes += sizeof(header);
	packet->destination_bytes = sizeof(header);
	packet->first = IPPROTO_DSTOPTS;
	packet->has_echo = true;
	lengths.payload_bytes = bpf_htons(packet->payload_bytes);
	bpf_skb_store_bytes(skb, headers_at(), &header, sizeof(header), BPF_F_RECOMPUTE_CSUM);
	bpf_skb_store_bytes(skb, config.link_bytes + IPV6_LENGTH_AT, &lengths, 3, BPF_F_RECOMPUTE_CSUM);
	COUNT(reflected, 1);
	return 0;
}

/*
 * A sink's counters have 32 bits and restart when it forgets the flow; these totals continue. A flow cannot have lost more
 * packets than it sent.
 */
static __always_inline void add_losses(struct path_echo *path, u32 cause, __be32 reported, u32 sent_pkts)
{
	u64 known =
		path->losses[LOST_BY_CONGESTION] + path->losses[LOST_BY_LINK] + path->losses[LOST_UNKNOWN];
	u64 room = sent_pkts > known ? sent_pkts - known : 0;
	s32 more = bpf_ntohl(reported) - path->reported[cause];

	path->reported[cause] += more;
	if (more > 0)
		path->losses[cause] += (u32)more < room ? (u32)more : room;
}

/* The echo in an ACK that TCP would accept. */
struct echo {
	u64 left_us;
	u32 acknowledged;
	u32 sent_pkts; /* by the socket so far */
};

/* An echo that a newer one overtook is ignored. */
static __always_inline void keep_echo(struct path_echo *path, const struct echo_header *header,
				      const struct echo *echo)
{
	const __be32 *words = header->words;

	if (echo->left_us < path->left_us)
		return;
	path->hops = header->hops;
	path->hop = header->hop;
	path->all_known = header->flags & ECHO_ALL_KNOWN;
	path->node_id = bpf_ntohl(words[0]);
	path->queue_pkts = bpf_ntohl(words[1]);
	path->free_pkts = bpf_ntohl(words[2]);
	path->arrival_pkts_per_s = bpf_ntohl(words[3]);
	path->link_rate_bytes_per_s = bpf_ntohl(words[4]);
	path->flow_count = bpf_ntohl(words[5]);
	add_losses(path, LOST_BY_CONGESTION, words[6], echo->sent_pkts);
	add_losses(path, LOST_BY_LINK, words[7], echo->sent_pkts);
	add_losses(path, LOST_UNKNOWN, words[8], echo->sent_pkts);
	path->left_us = echo->left_us;
	path->acknowledged = echo->acknowledged;
	path->echoes++;
}

static __always_inline bool is_before(u32 sequence, u32 other)
{
	return (s32)(sequence - other) < 0;
}

#define IN_STATE(state) (1U << (state))
#define CONNECTED                                                                        \
	(IN_STATE(TCP_ESTABLISHED) | IN_STATE(TCP_FIN_WAIT1) | IN_STATE(TCP_FIN_WAIT2) | \
	 IN_STATE(TCP_CLOSE_WAIT) | IN_STATE(TCP_LAST_ACK) | IN_STATE(TCP_CLOSING))

/*
 * Whether TCP accepts a segment of a connection: by its flags, and by both of its numbers, as tcp_sequence() and tcp_ack()
 * do (RFC 9293 section 3.10.7.4, RFC 5961 section 5). An ACK may arrive while its packet is still being sent, before
 * snd_nxt counts it: write_seq bounds what it acknowledges here, and snd_una in folds.
 */
static __noinline int tcp_accepts(const struct tcp_sock *tp, const struct tcp_start *start, u32 bytes)
{
	u32 sequence, acknowledged, window_end, old_bytes;

	if (!tp || !start || (start->flags & (TCP_SYN | TCP_RST | TCP_ACK)) != TCP_ACK)
		return 0;
	sequence = bpf_ntohl(start->sequence);
	acknowledged = bpf_ntohl(start->acknowledged);
	window_end = tp->rcv_wup + tp->rcv_wnd;
	if (is_before(window_end, tp->rcv_nxt))
		window_end = tp->rcv_nxt;
	old_bytes = tp->bytes_acked < tp->max_window ? tp->bytes_acked : tp->max_window;
	return !is_before(sequence + bytes, tp->rcv_wup) && !is_before(window_end, sequence) &&
	       !is_before(acknowledged, tp->snd_una - old_bytes) && !is_before(tp->write_seq, acknowledged);
}

/* Keeps an echo for a socket, if TCP accepts the segment that brought it. */
static __noinline int accept(struct __sk_buff *skb, struct packet *packet, const struct echo_header *header,
			     struct bpf_sock *sk)
{
	struct node_now *reported = ONLY(now);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct tcp_start start;
	struct path_echo *path;
	struct echo echo;
	u64 now_us;
	u32 at;

	if (!packet || !header || !reported)
		return 0;
	if (!tp || !(IN_STATE(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state) & CONNECTED)) {
		COUNT(refused_no_socket, 1);
		return 0;
	}
	now_us = bpf_ktime_get_ns() / 1000;
	echo.left_us = bpf_ntohl(header->words[9]) * MICROSECONDS + bpf_ntohl(header->words[10]) -
		       reported->wall_minus_mono_ns / 1000;
	if (now_us + AHEAD_US - echo.left_us > OLDEST_US) {
		COUNT(refused_time, 1);
		return 0;
	}
	if (echo.left_us > now_us)
		echo.left_us = now_us;
	at = packet->hop_by_hop_bytes + packet->destination_bytes;
	if (packet->tcp_bytes < TCP_BYTES || at + packet->tcp_bytes > packet->payload_bytes ||
	    bpf_skb_load_bytes(skb, headers_at() + at, &start, sizeof(start)) ||
	    !tcp_accepts(tp, &start,
			 packet->payload_bytes - at - packet->tcp_bytes + !!(start.flags & TCP_FIN))) {
		COUNT(refused_segment, 1);
		return 0;
	}
	echo.acknowledged = bpf_ntohl(start.acknowledged);
	echo.sent_pkts = tp->segs_out;
	path = bpf_sk_storage_get(&path_echoes, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (path && take_turn(&path->busy)) {
		keep_echo(path, header, &echo);
		end_turn(&path->busy);
		COUNT(received, 1);
	}
	return 0;
}

/* Source: handles a segment with an echo, whose option begins at `at`. */
static __noinline int receive(struct __sk_buff *skb, struct packet *packet, u32 at)
{
	struct bpf_sock_tuple tuple;
	struct echo_header header;
	struct bpf_sock *sk = NULL;

	if (!packet || bpf_skb_load_bytes(skb, at, &header.type, sizeof(header) - ECHO_OPTION_AT) ||
	    header.hop > header.hops) {
		COUNT(refused_malformed, 1);
		return 0;
	}
	__builtin_memcpy(tuple.ipv6.saddr, packet->flow.saddr, sizeof(tuple.ipv6.saddr));
	__builtin_memcpy(tuple.ipv6.daddr, packet->flow.daddr, sizeof(tuple.ipv6.daddr));
	tuple.ipv6.sport = bpf_htons(packet->flow.sport);
	tuple.ipv6.dport = bpf_htons(packet->flow.dport);
	if (packet->flow.protocol == IPPROTO_TCP)
		sk = bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	if (!sk) {
		COUNT(refused_no_socket, 1);
		return 0;
	}
	accept(skb, packet, &header, sk);
	bpf_sk_release(sk);
	return 0;
}

#endif
