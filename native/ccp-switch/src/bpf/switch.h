/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* What the programs that switch sockets and their loader tell each other. Rust sees this file, too. */
#ifndef CCP_SWITCH_H
#define CCP_SWITCH_H

#include "../../../ccp-trace/src/bpf/conditions.h"

#define SWITCH_MAX_RULES 4096 /* a power of two */

/* Rules that name one address of the other end are found by it: in chains by the top bits of this product. */
#define SWITCH_HASH 0x9e3779b97f4a7c15ULL
#define SWITCH_HASH_BITS 11
#define SWITCH_CHAINS (1 << SWITCH_HASH_BITS)
#define SWITCH_NO_RULE 0xffff
#define SWITCH_NAME_BYTES 16
#define SWITCH_MAX_OWNERS 1024

/* Of what is pinned: changes with `struct touched`, `leases`, or what these mean. */
#define SWITCH_PINNED_VERSION 1

/* Owner of sockets that were left switched on purpose: they have no deadline. */
#define SWITCH_NOBODY 0

/* Largest rate that the kernel takes from a program [bytes/s]; it stands for none. */
#define SWITCH_NO_RATE 0xffffffffU

/* Written by the loader; the programs' only constant, so it is all of .rodata. */
struct switch_config {
	__u64 netns_cookie; /* the only namespace whose new sockets are looked at */
	__u64 owner; /* ourselves, in `leases` */
};

/* Which sockets, and what they get. The first rule that matches decides. */
struct switch_rule {
	struct socket_conditions conditions;
	__u32 rate_bytes_per_s; /* to pace at, at most; SWITCH_NO_RATE: none */
	__u8 needs_ecn; /* only sockets that negotiated ECN get it */
	__u8 asks_ecn; /* new connections ask for ECN, whatever they get now */
	__u8 tell; /* a row of each socket, switched or not */
	__u8 pad;
	char congestion[SWITCH_NAME_BYTES];
};

struct switch_table {
	__u32 count;
	__u32 version; /* rows say by which table they were made */
	__u32 ending; /* enum switch_ending */
	__u32 pad;
	/* Index of each chain's first rule, the others follow in order; SWITCH_NO_RULE ends it. */
	__u16 first[SWITCH_CHAINS];
	__u16 first_of_all
		[4]; /* the chain of rules that name a prefix, or nothing; the rest fills the line */
	__u16 next[SWITCH_MAX_RULES];
	struct switch_rule rules[SWITCH_MAX_RULES];
};

/* What becomes of our sockets, whatever the rules say. */
enum switch_ending {
	SWITCH_GOING_ON = 0,
	SWITCH_RESTORING = 1, /* they get back what they had first */
	SWITCH_LEAVING = 2, /* they stay as they are, and have no deadline any more */
};

enum switch_what {
	SWITCH_DONE = 1, /* has another congestion control now */
	SWITCH_NO_ECN = 2, /* would need ECN, which it did not negotiate */
	SWITCH_FAILED = 3, /* the kernel refused: see error */
	SWITCH_SEEN = 4, /* asked for by `tell` */
	SWITCH_RESTORED = 5, /* has its first congestion control again */
};

/* What happened to a socket. */
struct switch_row {
	__u64 t_us; /* CLOCK_MONOTONIC */
	__u8 saddr[16];
	__u8 daddr[16];
	__u16 sport;
	__u16 dport;
	__u32 version; /* of the table */
	__u32 rule; /* index in the table */
	__s32 error; /* negative errno */
	__u32 what; /* enum switch_what */
	__u32 pad;
	char before[SWITCH_NAME_BYTES];
	char after[SWITCH_NAME_BYTES];
};

#endif
