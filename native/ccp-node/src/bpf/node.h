/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* What the programs of a node and their loader tell each other. Rust sees this file through bindgen. */
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
#define NODE_READER 16 /* takes them out, and keeps them for sockets */

/* Missing, as the wire has it. */
#define NODE_MISSING 0xffffffffU
#define NODE_UNLIMITED 0xfffffffeU /* for room: there is no limit */

/* Which packets a queue drops, and whether the kernel tells. */
#define NODE_DROPS_UNKNOWN 0
#define NODE_DROPS_EARLY 1 /* those that come, when they come */
#define NODE_DROPS_LATE 2 /* also those that wait */

/* Headers of a source: 256 octets of Hop-by-Hop Options, and some of Destination Options. */
#define NODE_TEMPLATE_BYTES 320
/* The longest headers that a sink reads: twice what ours are at most. */
#define NODE_HEADERS_BYTES 640

/* The snapshot: its head and the fields of docs/ioam.md. */
#define NODE_SCHEMA 0x636302
#define NODE_WIRED_WORDS 7
#define NODE_WIRELESS_WORDS 10

/* Written by the loader; the programs' only constant, so it is all of .rodata. */
struct node_config {
	__u32 roles;
	__u32 ifindex;
	__u32 link_bytes; /* header in front of IP: 14 for Ethernet, 0 for none */
	__u32 mtu_bytes; /* longest IP packet */
	__u32 namespace_id;
	__u32 node_id;
	__u32 every_pkts; /* a super-packet is one */
	__u32 is_veth; /* bool: what comes was sent on this machine */
	__u32 is_wireless; /* bool */
	__u32 per_packet; /* bool: super-packets take no headers */
	__be32 prefix[4]; /* of destinations that the source serves */
	__be32 prefix_mask[4];
	__be32 trusted[4]; /* prefix of senders whose telemetry the sink reads */
	__be32 trusted_mask[4];
	__u64 rate_time_ns; /* of the mean of arrivals, see ccp_int::Meter */
	/* What the source puts into packets, and where what differs between them lies; 0: not there. */
	__u32 template_bytes;
	__u32 trace_at; /* Namespace-ID */
	__u32 next_header_at;
	__u32 sequence_at;
	__u32 timestamp_at;
	__u32 tcp_state_at; /* kind, flags, mss, cwnd, first sequence number of a super-packet */
	__u32 tcp_state; /* bool: the window is told */
	__u32 pad;
	__u8 template_[NODE_TEMPLATE_BYTES];
};

/* Written by the loader while the programs run. */
struct node_now {
	__u64 wall_minus_mono_ns;
	__u64 flows_gone; /* so many were taken out of `active` */
	__u32 queue_known; /* bool: the length of the device's queue says how many packets wait */
	__u32 limit_pkts; /* NODE_MISSING: not known; NODE_UNLIMITED: none */
	__u32 limit_bytes; /* NODE_MISSING: not known */
	__u32 packet_bytes; /* of a full-size packet, as the queue counts */
	__u32 link_rate_bytes_per_s; /* of the queue while it is busy; 0: not known */
	__u32 drops; /* what is known of those that the queue drops: NODE_DROPS_* */
	__u32 air_limit_pkts; /* of all that wait in mac80211's queues; NODE_MISSING: not known */
	__u32 reader_looks; /* bool: the reader looks by itself so often that nobody need wake it */
	__u32 pad;
	__u64 air_fresh_ns; /* for how long a reading of mac80211's queues counts; 0: nobody reads them */
};

/* What waits in mac80211's queues, when they were read last. */
struct node_air {
	__u64 read_ns; /* when reading began */
	__u32 pkts; /* of full size, for one other end */
	__u32 all_pkts; /* for all other ends */
};

/* The other end of a wireless link, as on the wire but in host order. */
struct node_radio {
	__u32 lost_pkts;
	__u32 rssi_snr;
	__u32 data_rate_bytes_per_s;
	__u32 mcs; /* in the first octet; the others are ones */
};

/* What the programs keep of the direction behind the device. */
struct node_link {
	struct bpf_spin_lock lock;
	__u32 pad;
	__u64 weight; /* mean of arrivals, in 2^-16 of a packet in rate_time_ns */
	__u64 last_ns;
	__u64 flows_seen; /* so many were put into `active` */
};

/* Addresses are IPv6; IPv4 ones are mapped (::ffff:a.b.c.d). Ports in host order. */
struct node_flow {
	__u8 saddr[16];
	__u8 daddr[16];
	__u16 sport;
	__u16 dport;
	__u32 protocol;
};

/* What came of a flow to the sink without headers, since the first with headers. */
struct node_sunk {
	__u64 plain_pkts;
	__u64 plain_ns; /* when the last of them came */
};

/* A packet with headers that came to the sink; the headers follow. */
struct node_record {
	__u64 mono_ns;
	__u64 plain_pkts; /* of the flow so far */
	struct node_flow flow;
	__u32 len_bytes; /* of the IPv6 packet, without headers */
	__u32 pkts; /* that it is on the wire */
	__u32 tcp_sequence;
	__u32 headers_bytes;
	__u32 first; /* next header of IPv6: which of them is the first */
	__u32 hop_limit;
};

/* What happened so far [packets]. */
struct node_counters {
	__u64 inserted;
	__u64 too_long; /* would not have fitted into the MTU with headers */
	__u64 merged; /* of super-packets without headers: UDP, or each packet is to have its own */
	__u64 filled;
	__u64 overflowed; /* no room for another node */
	__u64 not_filled; /* malformed, or asks for what this node does not know */
	__u64 removed;
	__u64 not_removed; /* other headers or options are among them */
	__u64 foreign; /* telemetry of senders that are not trusted */
	__u64 reflected; /* ACKs that got an echo of the path */
	__u64 heard; /* ACKs whose echo was kept for their socket */
	__u64 plain; /* came without headers, of flows with some */
	__u64 ring_full; /* came while the reader had no room: missing in summaries */
};

#endif
