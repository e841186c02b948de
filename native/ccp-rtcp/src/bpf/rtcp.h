/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* What the programs that bound sockets and their loader tell each other. Rust sees this file, too. */
#ifndef RTCP_H
#define RTCP_H

#include "../core/limiter.h"
#include "../core/member.h"
#include "../core/remote.h"

/* Written by the loader; the programs' only constant, so it is all of .rodata. */
struct rtcp_config {
	struct rtcp_options options;
	__u64 records; /* bool: each ACK makes a row */
	__u64 n_rules;
	__u64 others; /* bool: sockets that no rule is for are bounded, too */
	__u64 load; /* number of these programs among those that share a table */
};

/* A client: the namespace that the connections are in, and their other ends. */
struct rtcp_key {
	__u64 netns_cookie; /* unlike an inode, never used again */
	struct rtcp_remote remote;
};

/* What is known of a client, and of all connections to it together. */
struct rtcp_client {
	__u64 born_us; /* when it was seen first, at least 1; 0: not yet filled in */
	__u64 over_us; /* it is forgotten then, unless somebody comes back; 0: no connection has ended yet */
	__u64 delivered_pkts; /* in full segments, as the detector counts */
	__u32 lost_pkts;
	__u16 delivered_rest_bytes; /* that make no full segment yet */
	__u16 lost_rest_bytes;
	__u32 in_flight_bytes;
	__u32 lock; /* 1 while somebody changes it; who finds it so leaves it alone */
	__u32 open_flows;
	__u32 active_flows; /* of these, those with something to send */
	__u32 sharing_flows; /* of these, those that would use up an equal share of the rate (equation 22) */
	__u8 told; /* enum rtcp_verdict of the latest row */
	__u8 apart; /* bool: its connections cannot share a bucket, and are clients of their own */
	__u8 pad[2];
	__u32 netns; /* inode of the namespace, for people */
	struct rtcp_detector detector;
	struct rtcp_limiter limiter;
};

/*
 * An element of the hash table takes a power of two. The kernel's own part: 48 bytes in front, and 8 of the allocator.
 */
_Static_assert(48 + sizeof(struct rtcp_key) + sizeof(struct rtcp_client) + 8 <= 512,
	       "clients take elements of 1024 bytes");

/* Whether it was limited, and no connection has come back until its time was up. */
static inline int is_over(const struct rtcp_client *client, __u64 now_us)
{
	return !client->open_flows && client->over_us && now_us > client->over_us;
}

enum rtcp_verdict {
	RTCP_OPEN = 0, /* no limit is known */
	RTCP_LIMITED = 1, /* there is one, and tokens enough not to mind it */
	RTCP_CAPPED = 2,
	RTCP_PROBING = 3,
	RTCP_RAISED = 4, /* the limit seems to have become higher */
	RTCP_GONE = 5,
	RTCP_NO_ROOM = 6, /* the table of clients is full: nothing is looked for */
	RTCP_APART = 7, /* its connections are clients of their own from now on */
};

/* What is bounded by the limit; 0: none is looked for. */
enum rtcp_caps {
	RTCP_CAP_CWND = 1,
	RTCP_CAP_RATE = 2,
};

/* The agent's letter to the extension of the datapath (limit.bpf.c). */
struct rtcp_letter {
	__u32 caps; /* enum rtcp_caps */
	__u32 pad;
	struct rtcp_options options;
};

/* A client's verdict has become another. */
struct rtcp_row {
	__u64 t_us; /* CLOCK_MONOTONIC */
	__u64 bucket_bytes;
	__u64 rate_bytes_per_s;
	__u64 tokens_bytes;
	__u32 netns; /* inode */
	__u32 verdict; /* enum rtcp_verdict */
	__u32 active_flows;
	struct rtcp_remote remote;
	__u32 pad;
};

/* What the detector was told by one connection. Ports in host order. */
struct rtcp_ack {
	__u64 t_us;
	__u64 acked_bytes;
	__u32 delivered_pkts;
	__u32 lost_pkts;
	__u32 in_flight_pkts;
	__u32 min_rtt_us;
	__u32 srtt_us;
	__u32 prior_delivered_pkts;
	__u16 sport;
	__u16 dport;
	__u8 saddr[16];
	__u8 daddr[16];
	__u8 starts; /* bool: a transfer begins, no ACK */
	__u8 app_limited; /* bool */
	__u8 pad[2];
};

enum rtcp_recorded_event {
	RTCP_RECORDED_NOTHING = 0, /* a new detector */
	RTCP_RECORDED_START = 1,
	RTCP_RECORDED_ACK = 2,
};

/* What a detector is told once more. */
struct rtcp_recorded {
	struct rtcp_options options;
	struct rtcp_progress now;
	__u32 event; /* enum rtcp_recorded_event */
	__u32 mss_bytes;
};

#endif
