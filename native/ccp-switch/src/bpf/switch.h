/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Shared by the programs that switch sockets and their loader. Rust reads this file through bindgen. */
#ifndef CCP_SWITCH_H
#define CCP_SWITCH_H

#include "../../../ccp-trace/src/bpf/conditions.h"

#define SWITCH_MAX_RULES 4096 /* a power of two */

/* Rules that name a single remote address are found by it: in chains by the top bits of this product. */
#define SWITCH_HASH 0x9e3779b97f4a7c15ULL
#define SWITCH_HASH_BITS 11
#define SWITCH_CHAINS (1 << SWITCH_HASH_BITS)
#define SWITCH_NO_RULE 0xffff
#define SWITCH_NAME_BYTES 16
#define SWITCH_MAX_OWNERS 1024

/* Version of the pinned objects: change it with `struct touched`, `leases`, or their meaning. */
#define SWITCH_PINNED_VERSION 1

/* Owner of sockets that stay switched on purpose: they have no deadline. */
#define SWITCH_UNOWNED 0

/* Maximum rate that the kernel accepts from a program [bytes/s]; it stands for none. */
#define SWITCH_NO_RATE 0xffffffffU

/* Written by the loader; the only constant of the programs, so it is all of .rodata. */
struct switch_config {
	__u64 netns_cookie; /* the only namespace whose new sockets are handled */
	__u64 owner; /* this process, in `leases` */
};

/* Which sockets match, and what they get. The first matching rule decides. */
struct switch_rule {
	struct socket_conditions conditions;
	__u32 rate_bytes_per_s; /* maximum pacing rate; SWITCH_NO_RATE: none */
	__u8 needs_ecn; /* only sockets that negotiated ECN get it */
	__u8 asks_ecn; /* new connections ask for ECN, in any case */
	__u8 emit; /* emit a row for each socket, switched or not */
	__u8 pad;
	char congestion[SWITCH_NAME_BYTES];
};

struct switch_table {
	__u32 count;
	__u32 version; /* stored in rows */
	__u32 ending; /* enum switch_ending */
	__u32 pad;
	/* Index of each chain's first rule, the others follow in order; SWITCH_NO_RULE ends it. */
	__u16 first[SWITCH_CHAINS];
	__u16 first_of_all[4]; /* chain of rules with a prefix or no address; the rest is padding */
	__u16 next[SWITCH_MAX_RULES];
	struct switch_rule rules[SWITCH_MAX_RULES];
};

/* What happens to switched sockets, regardless of the rules. */
enum switch_ending {
	SWITCH_GOING_ON = 0,
	SWITCH_RESTORING = 1, /* their first choice is restored */
	SWITCH_LEAVING = 2, /* they stay switched, without a deadline */
};

enum switch_what {
	SWITCH_DONE = 1, /* switched */
	SWITCH_NO_ECN = 2, /* needs ECN, which it did not negotiate */
	SWITCH_FAILED = 3, /* rejected by the kernel: see error */
	SWITCH_SEEN = 4, /* emitted because of `tell` */
	SWITCH_RESTORED = 5, /* its first congestion control was restored */
};

/* An event of a socket. */
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
