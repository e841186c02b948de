// SPDX-License-Identifier: GPL-2.0
/* Counts slots on behalf of the agent: only a program can change these counters atomically. */
#include "holders.h"

SEC("syscall")
int change_holder(struct ccp_holder *change)
{
	if (change->takes)
		return holder_takes(change->id, change->kind, HOLDER_GOES);
	return holder_gives_back(change->id, change->kind);
}

char LICENSE[] SEC("license") = "GPL";
