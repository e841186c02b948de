/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Rules, as the loader writes them. Rust sees this file, too. */
#ifndef RTCP_RULES_H
#define RTCP_RULES_H

#include "../../../ccp-trace/src/bpf/conditions.h"

#define RTCP_MAX_RULES 256

struct rtcp_rule {
	struct socket_conditions conditions;
	__u64 bounded; /* bool: else sockets are the kernel's own */
};

#endif
