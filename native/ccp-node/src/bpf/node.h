/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Shared by a node's programs and their loader. Rust reads this file through bindgen. */
#ifndef CCP_NODE_H
#define CCP_NODE_H

#ifndef __VMLINUX_H__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef __u32 __be32;
struct bpf_spin_lock {
	__u32 val;
};
#endif

#define NODE_SOURCE 1
#define NODE_TRANSIT 2
#define NODE_SINK 4
#define NODE_REFLECTS 8 /* a sink that puts echoes into ACKs */
#define NODE_READER 16 /* removes them, and stores them for sockets */

/* Unknown value, as on the wire. */
#define NODE_MISSING 0xffffffffU
#define NODE_UNLIMITED 0xfffffffeU /* for free room: no limit */

/* The drops of a queue that the kernel reports. */
#define NODE_DROPS_UNKNOWN 0
#define NODE_DROPS_EARLY 1 /* of arriving packets */
#define NODE_DROPS_LATE 2 /* also of waiting packets */

/* Headers of a source: 256 bytes of Hop-by-Hop Options, and Destination Options. */
#define NODE_TEMPLATE_BYTES 320
/* The longest headers that a sink reads: twice ccplane's maximum. */
#define NODE_HEADERS_BYTES 640

/* The snapshot's schema (docs/ioam.md). */
#define NODE_SCHEMA 0x636302
#define NODE_WIRED_WORDS 7
#define NODE_WIRELESS_WORDS 10

/* Written by the loader; the only constant of the programs, so it is all of .rodata. */
struct node_config {
	__u32 roles;
	__u32 ifindex;
	__u32 link_bytes; /* header before IP: 14 for Ethernet, 0 for none */
	__u32 mtu_bytes; /* longest IP packet */
	__u32 namespace_id;
	__u32 node_id;
	__u32 every_pkts; /* a super-packet counts once */
	__u32 is_veth; /* bool: incoming packets were sent on this machine */
	__u32 is_wireless; /* bool */
	__u32 per_packet; /* bool: super-packets get no headers */
	__be32 prefix[4]; /* of destinations that the source serves */
	__be32 prefix_mask[4];
	__be32 trusted[4]; /* prefix of senders whose telemetry is read */
	__be32 trusted_mask[4];
	__u64 rate_time_ns; /* time constant of the arrival rate, see ccp_int::Meter */
	/* The source's headers, and the offsets of their variable parts; 0: absent. */
	__u32 template_bytes;
	__u32 trace_at; /* Namespace-ID */
	__u32 next_header_at;
	__u32 sequence_at;
	__u32 timestamp_at;
	__u32 tcp_state_at; /* kind, flags, mss, cwnd, first sequence number of a super-packet */
	__u32 tcp_state; /* bool: the window is reported */
	__u32 trusts; /* bool: senders with the prefix `trusted` are trusted; else none */
	__u8 template_[NODE_TEMPLATE_BYTES];
};

/* Updated by the loader while the programs run. */
struct node_now {
	__u64 wall_minus_mono_ns;
	__u64 flows_gone; /* number of flows removed from `active` */
	__u32 queue_known; /* bool: the device's queue length is the number of waiting packets */
	__u32 limit_pkts; /* NODE_MISSING: unknown; NODE_UNLIMITED: none */
	__u32 limit_bytes; /* NODE_MISSING: unknown */
	__u32 packet_bytes; /* size of a full-size packet in the queue's accounting */
	__u32 link_rate_bytes_per_s; /* of the queue while it is busy; 0: unknown */
	__u32 drops; /* drops that the kernel reports: NODE_DROPS_* */
	__u32 air_limit_pkts; /* of all of mac80211's queues; NODE_MISSING: unknown */
	__u32 reader_looks; /* bool: the reader polls often enough, do not wake it */
	__u32 pad;
	__u64 air_fresh_ns; /* maximum age of a reading of mac80211's queues; 0: no readings */
};

/* mac80211's queues at their last reading. */
struct node_air {
	__u64 read_ns; /* start of the reading */
	__u32 pkts; /* full-size packets for one peer */
	__u32 all_pkts; /* for all peers */
};

/* The peer of a wireless link, as on the wire but in host order. */
struct node_radio {
	__u32 lost_pkts;
	__u32 rssi_snr;
	__u32 data_rate_bytes_per_s;
	__u32 mcs; /* in the first byte; the others are ones */
};

/* The programs' state for the device's outgoing direction. */
struct node_link {
	struct bpf_spin_lock lock;
	__u32 pad;
	__u64 weight; /* mean arrivals, in 2^-16 packets per rate_time_ns */
	__u64 last_ns;
	__u64 flows_seen; /* number of flows added to `active` */
};

/* Addresses are IPv6, IPv4-mapped for IPv4 (::ffff:a.b.c.d). Ports are in host order. */
struct node_flow {
	__u8 saddr[16];
	__u8 daddr[16];
	__u16 sport;
	__u16 dport;
	__u32 protocol;
};

/* Packets of a flow that reached the sink without headers, since its first with headers. */
struct node_sunk {
	__u64 plain_pkts;
	__u64 plain_ns; /* time of the last one */
};

/* A packet with headers that reached the sink; the headers follow. */
struct node_record {
	__u64 mono_ns;
	__u64 plain_pkts; /* packets of the flow without headers so far */
	struct node_flow flow;
	__u32 len_bytes; /* length of the IPv6 packet without headers */
	__u32 pkts; /* packets on the wire */
	__u32 tcp_sequence;
	__u32 headers_bytes;
	__u32 first; /* IPv6's next header: the type of the first header */
	__u32 hop_limit;
};

/* Counters [packets]. */
struct node_counters {
	__u64 inserted;
	__u64 too_long; /* headers would have exceeded the MTU */
	__u64 merged; /* in super-packets without headers: UDP, or per_packet is set */
	__u64 filled;
	__u64 overflowed; /* no room for another node */
	__u64 not_filled; /* malformed, or requests fields that this node does not know */
	__u64 removed;
	__u64 not_removed; /* contains other headers or options */
	__u64 foreign; /* telemetry of untrusted senders */
	__u64 reflected; /* ACKs that got an echo of the path */
	__u64 received; /* ACKs whose echo was stored for their socket */
	/* Echoes that were not believed: */
	__u64 refused_malformed;
	__u64 refused_no_socket; /* no connection has these addresses and ports */
	__u64 refused_segment; /* TCP would not accept the segment */
	__u64 refused_time; /* their packet left in the future, or too long ago */
	__u64 plain; /* without headers, of flows with headers */
	__u64 ring_full; /* lost while the reader had no room: missing in summaries */
};

#endif
