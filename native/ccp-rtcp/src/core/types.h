/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * R-TCP's detector and limiter: what they remember of a client, and their parameters. Integers only. Compiled into
 * BPF programs, and for the host; Rust sees this file, too.
 *
 * Units are in the names; _ubytes are millionths of a byte, so that a rate [bytes/s] times a time [us] needs no
 * division, and _ppm are millionths.
 *
 * A client is to fit into 512 bytes, with all that the kernel's hash table puts around it: so numbers have 32 bits. Of clocks
 * and counters that are the lower ones, and what two of them differ by is meant. A transfer of more bytes or microseconds
 * than RTCP_MOST is cut in two.
 */
#ifndef RTCP_TYPES_H
#define RTCP_TYPES_H

#ifndef __VMLINUX_H__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef long long __s64;
#endif

enum rtcp_limits {
	RTCP_MAX_CANDIDATES = 17,
	RTCP_LEAST_US = 1000, /* ACKs that come sooner after the start of a transfer make no rate */
	RTCP_STEADY_PKTS = 8, /* fewer delivered in a convergence window make no verdict */
	RTCP_CARRIED_PKTS = 96, /* nor so many, if the estimate is that of several transfers */
	RTCP_NEAR_PKTS = 2, /* ACKs are so many early or late */
	RTCP_UNDECIDED_US = 10000000, /* for so long who waits for a verdict is kept without a connection */
	RTCP_SERIES_US =
		1000000, /* transfers that follow so soon have had the tokens of one bucket together */
};

#define RTCP_PPM 1000000ULL
#define RTCP_MOST ((1U << 31) - 1)
#define RTCP_MOST_BYTES_PER_S (~0U)

/* Parameters, as in ccp_algs/rtcp/options.py, which has the defaults and the ranges. */
struct rtcp_options {
	__u32 loss_window_min_rtts_ppm; /* alpha */
	__u32 loss_ratio_ppm; /* beta */
	__u32 n_candidates; /* omega */
	__u32 reduction_ratio_ppm; /* theta */
	__u32 convergence_min_rtts_ppm; /* epsilon */
	__u32 tolerance_ratio_ppm;
	__u32 excess_buckets_ppm;
	__u32 excess_buckets_anew_ppm;
	__u32 excess_rates_ppm;
	__u32 probe_every_rounds; /* eta */
	__u32 probe_rounds;
	__u32 probe_gain_ratio_ppm; /* gamma */
	__u32 margin_ratio_ppm; /* share of the rate limit that a pacing rate is bounded by */
	__u32 floor_pkts; /* no window is capped below */
	__u32 pace_cubic; /* 0, 1 */
	__u32 observe; /* 0, 1: never cap */
	__u32 ipv4_prefix_bits; /* addresses with a prefix so long in common are one client's */
	__u32 ipv6_prefix_bits;
	__u32 ports_per_client; /* of each address, in blocks from port 1024 on; 0: all */
	__u32 falls_apart; /* 0, 1: connections that cannot share a bucket are clients of their own */
	__u64 kept_us; /* how long a limited client is remembered without a connection */
};

/* What the flows of a client have got to: sums, which do not fall, and the RTTs of the flow whose ACK it is. */
struct rtcp_progress {
	__u64 time_us;
	__u64 delivered_pkts;
	__u64 lost_pkts;
	__u64 in_flight_bytes;
	__u32 min_rtt_us;
	__u32 srtt_us;
};

/* The lower halves of clock and counters at some time. */
struct rtcp_mark {
	__u32 time_us;
	__u32 delivered_pkts;
	__u32 lost_pkts;
};

struct rtcp_limit {
	__u32 bucket_bytes;
	__u32 rate_bytes_per_s;
};

/*
 * The ACK that asks for the lowest rate of a bucket that no ACK contradicts. The rate follows from it: it is looked at
 * less often than there would be room for it.
 */
struct rtcp_candidate {
	__u32 touch_us;
	__u32 touch_bytes;
};

struct rtcp_candidates {
	struct rtcp_limit line; /* between the best and its neighbour */
	__u32 largest_bytes; /* bucket of the last candidate; those before it are smaller by a step each */
	__u32 step_bytes;
	struct rtcp_candidate all[RTCP_MAX_CANDIDATES]; /* in rising order of size; n_candidates are in use */
	__u8 chosen; /* place of the best */
	__u8 from_zero; /* bool: but the bucket of the first is 0 */
};

struct rtcp_transfer {
	__u64 origin_us;
	__u32 origin_pkts; /* delivered then */
	__u32 counting_since_us;
	/* Until the trigger: losses count from here on. After it: the rate is the same since then. */
	struct rtcp_mark window;
	__u32 before_us; /* the last ACK before the losses became heavy */
	__u32 before_pkts; /* delivered then */
	__u32 before_bytes_per_s; /* R_h */
	__u32 steady_bytes_per_s; /* that rate, but for the tolerance and for a packet at either end */
	__u8 counting;
	__u8 triggered; /* more than beta were lost: there are candidates */
	__u8 steady_known;
	__u8 tested; /* packets were lost while the rate stayed the same */
	__u8 detected;
	__u8 carried; /* it is several, one after the other */
};

/* How a limit was found to be gone, or never to have been. */
enum rtcp_end {
	RTCP_END_BYTES = 1, /* more was delivered than it lets through */
	RTCP_END_RATE, /* R is no abrupt reduction any more */
};

struct rtcp_detector {
	__u16 mss_bytes;
	__u8 limited;
	__u8 detected; /* limited at some time */
	__u8 undetected; /* enum rtcp_end: found to be gone, which is final, and how; 0: it was not */
	__u8 started;
	__u8 loses; /* packets were lost since the ACK before */
	struct rtcp_mark last; /* ACK or start of a transfer; the levels of buckets are of then */
	__u32 changes; /* how often R has become another, by more than the tolerance, or a limit has ended */
	struct rtcp_transfer transfer; /* the latest */
	__u32 bucket_bytes; /* B; 0 before a limit is found, the last one after it is gone */
	__u32 rate_bytes_per_s; /* R */
	__u32 told_bytes_per_s; /* R at the last change */
	__u32 earlier_bucket_bytes;
	__u32 highest_bytes_per_s; /* theta R_h, the most of all limited transfers */
	__u32 series_us; /* when the first of a series of transfers began */
	__u32 series_pkts; /* delivered then */
	struct rtcp_candidates candidates; /* of the transfer */
	__u64 tokens_ubytes;
	__u64 offered_ubytes; /* of a small bucket that what is sent is taken from, lost or not */
	__u64 witness_ubytes; /* of another bucket, whose overdraft shows that the limit is gone */
};

/* How much a limited client may send (limiter.h). */
enum rtcp_stage {
	RTCP_STAGE_OPEN = 0, /* it is not limited */
	RTCP_STAGE_CREDIT, /* there are tokens enough not to cap it */
	RTCP_STAGE_CAPPED,
	RTCP_STAGE_PROBING,
	RTCP_STAGE_RAISED, /* the probe got more through: another, of a higher rate */
	RTCP_STAGE_LIFTED, /* all probes did: no cap, until the estimate stays the same */
};

struct rtcp_limiter {
	__u8 stage; /* enum rtcp_stage */
	__u8 raises; /* steps after the probe */
	__u8 triggered; /* bool: the transfer was, at the last ACK */
	__u8 pad;
	__u32 rounds; /* of the stage, that are over */
	__u32 changes; /* of the detector, when the stage began */
	__u32 gain_ppm; /* of the round before */
	__u32 round_start_us;
	struct rtcp_mark begin; /* of the stage */
	struct rtcp_mark judged; /* since then: the last round of a probe was over, or its losses were past */
	struct rtcp_mark probe; /* when probing began */
	__u32 tokens_bytes; /* then */
	__u32 due_bytes; /* since then: sent above R, as far as its ACKs can be here */
	__u32 spared_pkts; /* losses of the probe that are not the limit's: as many were there without one */
	__u32 loss_ppm; /* of packets, without a probe */
};

#endif
