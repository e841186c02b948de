/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* What Rust sees of the rules of nodes. */
#include "rules.h"

/* What a path came to. */
struct path_found {
	unsigned int from_end; /* where the bottleneck is; valid if `is_known` */
	unsigned char is_known;
	unsigned char all_known; /* all nodes on the way told depth and room of their queues */
};
