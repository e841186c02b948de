/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Shared by the tracing program and its loader. Rust reads this file through bindgen. */
#ifndef CCP_ROW_H
#define CCP_ROW_H

#ifndef __VMLINUX_H__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
#endif

/* Written by the loader; the only constant of the program, so it is all of .rodata. */
struct trace_config {
	__u64 interval_us; /* 0: a row for every segment */
	__u64 only_some_netns; /* bool: only those in netns_wanted */
};

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/*
 * The state of a socket at one moment. Addresses are IPv6, IPv4-mapped for IPv4 (::ffff:a.b.c.d). Ports are in host order.
 * Unknown round-trip times are 0, unknown ssthresh and pacing rate all ones.
 */
struct tcp_row {
	__u64 t_us; /* CLOCK_MONOTONIC */
	__u64 cookie;
	__u64 cwnd_bytes;
	__u64 ssthresh_bytes;
	__u64 pacing_rate_bytes_per_s;
	__u64 delivered_pkts;
	__u64 lost_pkts; /* marked lost */
	__u64 retrans_pkts;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 bytes_sent; /* including retransmissions */
	__u64 bytes_retrans;
	__u64 bytes_in_flight; /* segments in flight times mss_bytes */
	__u32 netns; /* inode */
	__u32 srtt_us;
	__u32 min_rtt_us;
	__u32 rtt_us; /* of the newest acknowledged segment */
	__u32 mss_bytes;
	__u32 delivered_ce; /* [packets] */
	__u16 sport;
	__u16 dport;
	__u8 family; /* AF_INET or AF_INET6 */
	__u8 ca_state; /* 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss */
	__u8 state; /* TCP_*; 7, TCP_CLOSE: the socket's last row */
	__u8 app_limited; /* bool: the application limited the newest rate sample */
	__u8 saddr[16];
	__u8 daddr[16];
	char congestion[16];
};

#pragma clang diagnostic pop

#endif
