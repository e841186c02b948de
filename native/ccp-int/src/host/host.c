// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/* The rules of nodes as linkable functions. */
#include "types.h"

void node_host_numbers(struct node_count *count, const struct numbers *numbers)
{
	count_numbers(count, numbers);
}

void node_host_plain(struct node_count *count, __u32 pkts)
{
	count_plain(count, pkts);
}

void node_host_note(struct node_noted *noted, __u64 packet)
{
	note(noted, packet);
}

bool node_host_take_note(struct node_noted *noted, __u64 packet)
{
	return take_note(noted, packet);
}

void node_host_forget(struct node_noted *noted)
{
	forget(noted);
}

/* Handles a packet that passed these nodes, the last of the path first; false if a later packet came before it. */
bool node_host_path(struct path_known *known, const struct numbers *numbers, __u16 missing, __u32 hop_limit,
		    const struct node_report *nodes, __u32 count, struct path_found *found)
{
	struct path_reading reading = {.hop_limit = hop_limit};
	struct bottleneck longest;

	if (!is_newest(known, numbers))
		return false;
	note_sink(&known->losses, missing);
	reading.next = known->losses.sink;
	for (__u32 i = 0; i < PATH_NODES && i < count; i++)
		read_node(&reading, &known->losses, i, i + 1, &nodes[i]);
	report_losses(known);
	longest = longest_wait(&reading);
	found->from_end = longest.from_end;
	found->is_known = longest.at != 0;
	found->all_known = count <= PATH_NODES && !reading.has_silent_queue;
	return true;
}
