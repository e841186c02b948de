// SPDX-License-Identifier: GPL-2.0
/* Runs the detector on recorded ACKs, one per run, to compare its results in the kernel with those elsewhere. */
#include "kernel.h"
#include "rtcp.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rtcp_recorded);
} recorded SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rtcp_detector);
} detector SEC(".maps");

SEC("syscall")
int replay(void *ctx)
{
	u32 first = 0;
	struct rtcp_recorded *row = bpf_map_lookup_elem(&recorded, &first);
	struct rtcp_detector *d = bpf_map_lookup_elem(&detector, &first);

	if (!row || !d)
		return 1;
	switch (row->event) {
	case RTCP_RECORDED_NOTHING:
		rtcp_detector_init(d, row->mss_bytes);
		break;
	case RTCP_RECORDED_START:
		rtcp_detector_start(d, &row->options, &row->now);
		break;
	case RTCP_RECORDED_ACK:
		rtcp_detector_ack(d, &row->options, &row->now);
		break;
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
