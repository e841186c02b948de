/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* What the program that looks at arriving segments and its loader tell each other. Rust sees this file, too. */
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
 * Delays are counted in bins: one a microsecond up to ARRIVALS_STEPS, and then so many in each doubling. The last one
 * takes what is longer than ARRIVALS_BITS can say (16.8 s).
 */
#define ARRIVALS_STEP_BITS 3
#define ARRIVALS_STEPS (1 << ARRIVALS_STEP_BITS)
#define ARRIVALS_BITS 24
#define ARRIVALS_BINS ((ARRIVALS_BITS - ARRIVALS_STEP_BITS + 1) << ARRIVALS_STEP_BITS)

/* So many of a flow's newest gaps are remembered. A power of 2. */
#define ARRIVALS_GAPS 16

/* A flow that nothing came of for so long is forgotten: its sender's clock may have gone round. */
#define ARRIVALS_IDLE_NS (30ULL * 60 * 1000 * 1000 * 1000)

/* Written by the loader; the program's only constant, so it is all of .rodata. */
struct arrivals_config {
	__u64 minimum_ns; /* the least delay is that of the last one or two of these */
	__u64 netns; /* inode of the only namespace that is looked at */
};

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/*
 * What came in on one socket. Everything that grows only grows. Addresses are IPv6; IPv4 ones are mapped
 * (::ffff:a.b.c.d). Ports in host order; s is this host, d the other one.
 */
struct tcp_arrivals {
	__u64 cookie;
	__u64 segs; /* with and without payload; those that were merged each */
	__u64 ce_segs; /* of these, with the ECN codepoint CE */
	__u64 resent_segs; /* of these, sent again, as payload and timestamp tell */
	__u64 elapsed_us; /* between the first and the newest segment with a timestamp, by our clock */
	__u64 ticks; /* the same by the sender's */
	__u64 first_ns; /* CLOCK_MONOTONIC, when the two were set together; 0: not yet */
	__u64 newest_ns; /* of the newest segment of all */
	__u64 window_ns; /* when the newer window of the minimum began */
	__s64 least_us
		[2]; /* least delay in that window and the one before, relative to the first segment's */
	__u32 tsval; /* newest timestamp of the sender */
	__u32 tick_us; /* what one is worth; 0: not known yet */
	__u32 end_seq; /* behind the highest payload */
	__u32 end_tsval; /* timestamp of the segment that brought it */
	__u32 gaps; /* so many were there; the newest are in gap_* */
	__u16 sport;
	__u16 dport;
	__u8 closed; /* bool: nothing will come any more */
	__u8 strange; /* so many segments in a row had an unlikely timestamp */
	__u8 stamped; /* bool: there was a timestamp */
	__u8 has_end; /* bool: there was payload with a timestamp */
	__u8 pad[4];
	__u8 saddr[16];
	__u8 daddr[16];
	__u32 gap_seq[ARRIVALS_GAPS]; /* of the segment that came instead of the one expected */
	__u32 gap_tsval[ARRIVALS_GAPS]; /* its timestamp */
	__u32 bins[ARRIVALS_BINS]; /* segments by their delay above the minimum */
};

#pragma clang diagnostic pop

#endif
