/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Rules, written by the loader. Rust reads this file through bindgen. */
#ifndef RTCP_RULES_H
#define RTCP_RULES_H

#include "../../../ccp-trace/src/bpf/conditions.h"

#define RTCP_MAX_RULES 256

struct rtcp_rule {
	struct socket_conditions conditions;
	__u64 bounded; /* bool: otherwise sockets get the kernel's congestion control */
};

#endif
