/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Shared by the program that counts arriving segments and its loader. Rust reads this file through bindgen. */
#ifndef CCP_ARRIVALS_H
#define CCP_ARRIVALS_H

#ifndef __VMLINUX_H__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
#endif

/*
 * Delays are counted in bins: one per microsecond up to ARRIVALS_STEPS, then this many per doubling. The last bin takes
 * delays beyond ARRIVALS_BITS (16.8 s).
 */
#define ARRIVALS_STEP_BITS 3
#define ARRIVALS_STEPS (1 << ARRIVALS_STEP_BITS)
#define ARRIVALS_BITS 24
#define ARRIVALS_BINS ((ARRIVALS_BITS - ARRIVALS_STEP_BITS + 1) << ARRIVALS_STEP_BITS)

/* Number of a flow's newest gaps that are remembered. A power of 2. */
#define ARRIVALS_GAPS 16

/* A flow idle for this long is forgotten: its sender's clock may have wrapped. */
#define ARRIVALS_IDLE_NS (30ULL * 60 * 1000 * 1000 * 1000)

/* Written by the loader; the only constant of the program, so it is all of .rodata. */
struct arrivals_config {
	__u64 minimum_ns; /* window of the minimum delay; one to two of these */
	__u64 netns; /* inode of the only namespace that is observed */
};

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/*
 * Segments received on a socket. All counters only grow. Addresses are IPv6, IPv4-mapped for IPv4 (::ffff:a.b.c.d). Ports are
 * in host order; s is this host, d the remote one.
 */
struct tcp_arrivals {
	__u64 cookie;
	__u64 segs; /* with and without payload; merged segments count separately */
	__u64 ce_segs; /* of these, with the ECN codepoint CE */
	__u64 resent_segs; /* of these, retransmitted, by sequence number and timestamp */
	__u64 elapsed_us; /* between the first and the newest segment with a timestamp, on the local clock */
	__u64 ticks; /* the same on the sender's clock */
	__u64 first_ns; /* CLOCK_MONOTONIC, when the two were synchronised; 0: not yet */
	__u64 newest_ns; /* of the newest segment */
	__u64 window_ns; /* start of the newer window of the minimum */
	__s64 min_us
		[2]; /* minimum delay in that window and the previous one, relative to the first segment's */
	__u32 tsval; /* newest timestamp of the sender */
	__u32 tick_us; /* unit of a timestamp; 0: unknown yet */
	__u32 end_seq; /* end of the highest payload */
	__u32 end_tsval; /* timestamp of the segment that brought it */
	__u32 gaps; /* number of gaps; the newest are in gap_* */
	__u16 sport;
	__u16 dport;
	__u8 closed; /* bool: nothing more will arrive */
	__u8 strange; /* number of consecutive segments with an unlikely timestamp */
	__u8 stamped; /* bool: a timestamp was seen */
	__u8 has_end; /* bool: payload with a timestamp was seen */
	__u8 pad[4];
	__u8 saddr[16];
	__u8 daddr[16];
	__u32 gap_seq[ARRIVALS_GAPS]; /* of the segment that arrived instead of the expected one */
	__u32 gap_tsval[ARRIVALS_GAPS]; /* its timestamp */
	__u32 bins[ARRIVALS_BINS]; /* segments by their delay above the minimum */
};

#pragma clang diagnostic pop

#endif
