// SPDX-License-Identifier: GPL-2.0
/*
 * An extension of the datapath for the tests, and an example for who writes one: counts the ACKs that come from each
 * prefix of addresses, from all flows together that an algorithm gave it, and tells the algorithm now and then.
 */
#include "extend.h"

struct prefix {
	u8 address[16];
};

/* By prefix. */
struct count {
	u64 acks; /* before the fold */
	u64 folded; /* behind it */
};

/* The algorithm's letter. */
struct counter_message {
	u32 prefix_bits; /* of an IPv6 address; IPv4 ones are mapped */
	u32 report_every; /* ACKs of a flow */
};

/* A flow that it was given. */
struct counted {
	u64 flow_id;
	u32 acks;
	u32 report_every; /* 0: it is not counted any more */
	struct prefix prefix;
};

/* What the algorithm is told. */
struct counter_event {
	struct ccp_record record;
	struct prefix prefix;
	struct count count;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct prefix);
	__type(value, struct count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CCP_MAX_FLOWS);
	__type(key, u32);
	__type(value, struct counted);
} counted SEC(".maps");

EXTENSION_MAIL(struct counter_message);

static __always_inline void take_message(const struct ccp_flow *flow, struct counted *it)
{
	u32 slot = (u32)flow->flow_id;
	struct extension_mail *messages = bpf_map_lookup_elem(&mail, &slot);

	if (!messages || !mail_begin(&messages->head))
		return;
	if (mail_is_for(&messages->head, flow)) {
		it->flow_id = flow->flow_id;
		it->acks = 0;
		it->report_every = messages->head.n_bytes ? messages->message.report_every : 0;
		for (u32 i = 0; i < sizeof(it->prefix.address); i++) {
			u32 before = i * 8, bits = messages->message.prefix_bits;
			u32 kept = bits <= before ? 0 : bits - before >= 8 ? 8 : bits - before;

			it->prefix.address[i] = flow->info.daddr[i] & (u8)(0xff00 >> kept);
		}
	}
	mail_end(&messages->head);
}

/* The flow, if it is counted. */
static __always_inline struct counted *counted_of(struct sock *sk)
{
	struct ccp_flow *flow = ccp_flow_of(ccp_sk(sk));
	struct counted *it;
	u32 slot;

	if (!flow)
		return NULL;
	slot = (u32)flow->flow_id;
	it = bpf_map_lookup_elem(&counted, &slot);
	if (!it)
		return NULL;
	take_message(flow, it);
	return it->report_every && it->flow_id == flow->flow_id ? it : NULL;
}

SEC("struct_ops")
void BPF_PROG(count_ack, struct sock *sk)
{
	struct counted *it = counted_of(sk);
	struct count none = {}, *count;

	if (!it)
		return;
	it->acks++;
	bpf_map_update_elem(&counts, &it->prefix, &none, BPF_NOEXIST);
	count = bpf_map_lookup_elem(&counts, &it->prefix);
	if (count)
		__sync_fetch_and_add(&count->acks, 1);
}

SEC("struct_ops")
void BPF_PROG(count_folded, struct sock *sk)
{
	struct counted *it = counted_of(sk);
	struct counter_event *reported;
	struct count *count;

	if (!it)
		return;
	count = bpf_map_lookup_elem(&counts, &it->prefix);
	if (!count)
		return;
	__sync_fetch_and_add(&count->folded, 1);
	if (it->acks % it->report_every)
		return;
	reported = bpf_ringbuf_reserve(&records, sizeof(*reported), 0);
	if (!reported)
		return;
	extension_sends(&reported->record, sizeof(*reported), it->flow_id, bpf_ktime_get_ns() / 1000);
	reported->prefix = it->prefix;
	reported->count = *count;
	bpf_ringbuf_submit(reported, 0);
}

EXTENSION("ack_counter", .cong_control = (void *)count_ack);
EXTENSION_AFTER_FOLD(count_folded);

char LICENSE[] SEC("license") = "GPL";
