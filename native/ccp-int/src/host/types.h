/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The rules of nodes, for bindgen. */
#include "rules.h"

/* The outcome for a path. */
struct path_found {
	unsigned int from_end; /* position of the bottleneck; valid if `is_known` */
	unsigned char is_known;
	unsigned char all_known; /* all nodes reported length and free room of their queues */
};
