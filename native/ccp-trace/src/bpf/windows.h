/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Shared by the program that stores congestion windows and its loader. Rust reads this file through bindgen. */
#ifndef CCP_WINDOWS_H
#define CCP_WINDOWS_H

#ifndef __VMLINUX_H__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
#endif

/* Written by the loader; the only constant of the program, so it is all of .rodata. */
struct windows_config {
	__u64 only_some_netns; /* bool: only those in netns_wanted */
};

/* A direction of a connection, as in its packets. Addresses are IPv6, IPv4-mapped for IPv4; ports are in host order. */
struct windows_key {
	__u8 saddr[16];
	__u8 daddr[16];
	__u16 sport;
	__u16 dport;
};

/* The sender's window at its newest packet. */
struct tcp_window {
	__u32 cwnd_pkts;
	__u32 mss_bytes;
};

#endif
