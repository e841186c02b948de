/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * State of R-TCP's detector and limiter for a client, and their parameters. Integers only. Compiled into BPF programs and for
 * the host; Rust reads this file through bindgen.
 *
 * Units are in the names; _ubytes are millionths of a byte, so that a rate [bytes/s] times a time [us] needs no division, and
 * _ppm are millionths.
 *
 * A client must fit into 512 bytes, including the overhead of the kernel's hash table, so numbers have 32 bits. For clocks and
 * counters these are the lower halves, of which only differences are used. A transfer of more bytes or microseconds than
 * RTCP_MAX is split.
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
	RTCP_MIN_US = 1000, /* earlier ACKs of a transfer give no rate */
	RTCP_STEADY_PKTS = 8, /* minimum deliveries in a convergence window for a verdict */
	RTCP_CARRIED_PKTS = 96, /* the same if the estimate is that of several transfers */
	RTCP_NEAR_PKTS = 2, /* ACKs may be this many packets early or late */
	RTCP_UNDECIDED_US = 10000000, /* a client awaiting a verdict is kept this long without a connection */
	RTCP_SERIES_US = 1000000, /* transfers within this time share the tokens of one bucket */
};

#define RTCP_PPM 1000000ULL
#define RTCP_MAX ((1U << 31) - 1)
#define RTCP_MAX_BYTES_PER_S (~0U)

/* Parameters, as in ccp_algs/rtcp/options.py, which has the defaults and the ranges. */
struct rtcp_options {
	__u32 loss_window_min_rtts_ppm; /* alpha */
	__u32 loss_ratio_ppm; /* beta */
	__u32 n_candidates; /* omega */
	__u32 reduction_ratio_ppm; /* theta */
	__u32 convergence_min_rtts_ppm; /* epsilon */
	__u32 tolerance_ratio_ppm;
	__u32 excess_buckets_ppm;
	__u32 excess_buckets_again_ppm;
	__u32 excess_rates_ppm;
	__u32 probe_every_rounds; /* eta */
	__u32 probe_rounds;
	__u32 probe_gain_ratio_ppm; /* gamma */
	__u32 margin_ratio_ppm; /* bound of a pacing rate, as a share of the rate limit */
	__u32 floor_pkts; /* minimum of a capped window */
	__u32 pace_cubic; /* 0, 1 */
	__u32 observe; /* 0, 1: never cap */
	__u32 ipv4_prefix_bits; /* addresses with a common prefix of this length are one client */
	__u32 ipv6_prefix_bits;
	__u32 ports_per_client; /* per address, in blocks from port 1024 on; 0: all */
	__u32 falls_apart; /* 0, 1: connections that cannot share a bucket are separate clients */
	__u64 kept_us; /* a limited client is remembered this long without a connection */
	__u64 probe_every_pkts; /* delivered between two probes, at least */
};

/* Sums over the flows of a client, which never decrease, and the RTTs of the flow whose ACK arrives. */
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
 * The ACK that requires the lowest rate of a bucket that no ACK contradicts. The rate is computed from it: storing it would
 * take more room, and it is rarely needed.
 */
struct rtcp_candidate {
	__u32 touch_us;
	__u32 touch_bytes;
};

struct rtcp_candidates {
	struct rtcp_limit line; /* between the best and its neighbour */
	__u32 largest_bytes; /* bucket of the last candidate; earlier ones decrease by one step each */
	__u32 step_bytes;
	struct rtcp_candidate
		all[RTCP_MAX_CANDIDATES]; /* in ascending order of size; n_candidates are in use */
	__u8 chosen; /* index of the best */
	__u8 from_zero; /* bool: the bucket of the first is 0 instead */
};

struct rtcp_transfer {
	__u64 origin_us;
	__u32 origin_pkts; /* deliveries at that time */
	__u32 counting_since_us;
	/* Until the trigger: start of counting losses. After it: start of the stable rate. */
	struct rtcp_mark window;
	__u32 before_us; /* the last ACK before the losses became heavy */
	__u32 before_pkts; /* deliveries at that time */
	__u32 before_bytes_per_s; /* R_h */
	__u32 steady_bytes_per_s; /* the stable rate, within the tolerance and a packet at either end */
	__u8 counting;
	__u8 triggered; /* more than beta were lost, so there are candidates */
	__u8 steady_known;
	__u8 tested; /* packets were lost while the rate was stable */
	__u8 detected;
	__u8 carried; /* a series of transfers */
};

/* How a limit was found to be lifted, or never to have existed. */
enum rtcp_end {
	RTCP_END_BYTES = 1, /* more was delivered than it allows */
	RTCP_END_RATE, /* R is not an abrupt reduction any more */
};

struct rtcp_detector {
	__u16 mss_bytes;
	__u8 limited;
	__u8 detected; /* found limited at some time */
	__u8 undetected; /* enum rtcp_end: how the limit was found lifted, which is final; 0: it was not */
	__u8 started;
	__u8 loses; /* packets were lost since the previous ACK */
	struct rtcp_mark last; /* last ACK or start of a transfer, the time of the buckets' levels */
	__u32 changes; /* number of changes of R beyond the tolerance, and of ended limits */
	struct rtcp_transfer transfer; /* the latest */
	__u32 bucket_bytes; /* B; 0 before a limit is found; the last value after it was lifted */
	__u32 rate_bytes_per_s; /* R */
	__u32 reported_bytes_per_s; /* R at the last change */
	__u32 earlier_bucket_bytes;
	__u32 highest_bytes_per_s; /* theta R_h, maximum over all limited transfers */
	__u32 series_us; /* start of the first transfer of a series */
	__u32 series_pkts; /* deliveries at that time */
	struct rtcp_candidates candidates; /* of the current transfer */
	__u64 tokens_ubytes;
	__u64 offered_ubytes; /* level of a small bucket from which all sent data is taken, lost or not */
	__u64 witness_ubytes; /* level of another bucket, whose overdraft shows that the limit was lifted */
};

/* How much a limited client may send (limiter.h). */
enum rtcp_stage {
	RTCP_STAGE_OPEN = 0, /* not limited */
	RTCP_STAGE_CREDIT, /* enough tokens, not capped */
	RTCP_STAGE_CAPPED,
	RTCP_STAGE_PROBING,
	RTCP_STAGE_RAISED, /* the probe delivered more: another one, at a higher rate */
	RTCP_STAGE_LIFTED, /* all probes did: no cap until the estimate is stable */
};

struct rtcp_limiter {
	__u8 stage; /* enum rtcp_stage */
	__u8 raises; /* number of steps after the probe */
	__u8 triggered; /* bool: the transfer was triggered at the last ACK */
	__u8 pad;
	__u32 rounds; /* completed rounds of the stage */
	__u32 changes; /* the detector's changes when the stage began */
	__u32 gain_ppm; /* of the previous round */
	__u32 round_start_us;
	struct rtcp_mark begin; /* start of the stage */
	struct rtcp_mark judged; /* end of the last round of a probe, or of its losses */
	struct rtcp_mark probe; /* start of probing */
	__u32 tokens_bytes; /* at that time */
	__u32 due_bytes; /* sent above R since then, if its ACKs can have arrived */
	__u32 spared_pkts; /* a probe's losses not caused by the limit, as frequent without a probe */
	__u32 loss_ppm; /* loss rate of packets without a probe */
};

#endif
