/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Shared by the programs that bound sockets and their loader. Rust reads this file through bindgen. */
#ifndef RTCP_H
#define RTCP_H

#include "../core/limiter.h"
#include "../core/member.h"
#include "../core/remote.h"

/* Written by the loader; the only constant of the programs, so it is all of .rodata. */
struct rtcp_config {
	struct rtcp_options options;
	__u64 records; /* bool: each ACK is recorded */
	__u64 n_rules;
	__u64 others; /* bool: sockets that no rule matches are also bounded */
	__u64 load; /* number of this load of the programs */
};

/* A client: network namespace and remote ends of its connections. */
struct rtcp_key {
	__u64 netns_cookie; /* unlike an inode, never used again */
	struct rtcp_remote remote;
};

/* The state of a client and of all its connections together. */
struct rtcp_client {
	__u64 born_us; /* time first seen, at least 1; 0: not initialised */
	__u64 over_us; /* time at which it is forgotten without a new connection; 0: none has ended yet */
	__u64 delivered_pkts; /* in full segments, the detector's unit */
	__u32 lost_pkts;
	__u16 delivered_rest_bytes; /* rest that makes no full segment yet */
	__u16 lost_rest_bytes;
	__u32 in_flight_bytes;
	__u32 lock; /* 1 while it is being changed; others skip it */
	__u32 open_flows;
	__u32 active_flows; /* of these, those with data to send */
	__u32 sharing_flows; /* of these, those that would use an equal share of the rate (equation 22) */
	__u8 reported; /* enum rtcp_verdict of the last row */
	__u8 apart; /* bool: its connections cannot share a bucket, and are separate clients */
	__u8 pad[2];
	__u32 netns; /* inode of the namespace, for display */
	struct rtcp_detector detector;
	struct rtcp_limiter limiter;
};

/*
 * Elements of the hash table take a power of two, with the kernel's own part: 48 bytes before, and 8 of the allocator.
 */
_Static_assert(48 + sizeof(struct rtcp_key) + sizeof(struct rtcp_client) + 8 <= 512,
	       "clients take elements of 1024 bytes");

/* Whether it was limited, and its time passed without a new connection. */
static inline int is_over(const struct rtcp_client *client, __u64 now_us)
{
	return !client->open_flows && client->over_us && now_us > client->over_us;
}

enum rtcp_verdict {
	RTCP_OPEN = 0, /* no known limit */
	RTCP_LIMITED = 1, /* limited, with enough tokens */
	RTCP_CAPPED = 2,
	RTCP_PROBING = 3,
	RTCP_RAISED = 4, /* the limit seems to have risen */
	RTCP_GONE = 5,
	RTCP_NO_ROOM = 6, /* the table of clients is full: limits are not looked for */
	RTCP_APART = 7, /* its connections are separate clients from now on */
};

/* What the limit bounds; 0: limits are not looked for. */
enum rtcp_caps {
	RTCP_CAP_CWND = 1,
	RTCP_CAP_RATE = 2,
};

/* The agent's message to the datapath extension (limit.bpf.c). */
struct rtcp_message {
	__u32 caps; /* enum rtcp_caps */
	__u32 pad;
	struct rtcp_options options;
};

/* A change of a client's verdict. */
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

/* The detector's input from one connection. Ports are in host order. */
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
	__u8 starts; /* bool: the start of a transfer, not an ACK */
	__u8 app_limited; /* bool */
	__u8 pad[2];
};

enum rtcp_recorded_event {
	RTCP_RECORDED_NOTHING = 0, /* a new detector */
	RTCP_RECORDED_START = 1,
	RTCP_RECORDED_ACK = 2,
};

/* Recorded input for a detector. */
struct rtcp_recorded {
	struct rtcp_options options;
	struct rtcp_progress now;
	__u32 event; /* enum rtcp_recorded_event */
	__u32 mss_bytes;
};

#endif
