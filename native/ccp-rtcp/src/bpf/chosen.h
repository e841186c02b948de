/* SPDX-License-Identifier: GPL-2.0 */
/* Selection of the sockets to bound, and of the programs: by the first matching rule, or all sockets. */
#ifndef RTCP_CHOSEN_H
#define RTCP_CHOSEN_H

#include "tcp.h"
#include "matching.h"
#include "rules.h"

/* Written by the loader before any socket reads it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RTCP_MAX_RULES);
	__type(key, u32);
	__type(value, struct rtcp_rule);
} rules SEC(".maps");

#define TCP_CONGESTION 13
#define NAME_BYTES 16

/* Number of the programs that are registered now; pinned with the table of clients. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} rtcp_current SEC(".maps");

static __always_inline bool is_current(u64 load)
{
	u32 zero = 0;
	u64 *current = bpf_map_lookup_elem(&rtcp_current, &zero);

	return !current || *current == load;
}

/* Sets the socket's congestion control. Returns whether it changed; this program must not touch the socket then. */
static __always_inline bool go(struct sock *sk, char *name)
{
	u64 before = (u64)tcp_sk(sk)->inet_conn.icsk_ca_ops;

	if (bpf_setsockopt(sk, IPPROTO_TCP, TCP_CONGESTION, name, NAME_BYTES))
		return false;
	barrier();
	return (u64)tcp_sk(sk)->inet_conn.icsk_ca_ops != before;
}

struct choice {
	struct connection its;
	u64 bounded;
};

static long look_at_rule(u32 index, void *context)
{
	struct choice *choice = context;
	struct rtcp_rule *rule = bpf_map_lookup_elem(&rules, &index);

	if (!rule || !matches(&choice->its, &rule->conditions))
		return 0;
	choice->bounded = rule->bounded;
	return 1;
}

static __noinline int is_chosen(struct sock *sk, u64 n_rules, u64 others)
{
	struct choice choice = {.bounded = others};

	put_saddr((__u8 *)choice.its.saddr, sk);
	put_daddr((__u8 *)choice.its.daddr, sk);
	choice.its.sport = sk->__sk_common.skc_num;
	choice.its.dport = bpf_ntohs(sk->__sk_common.skc_dport);
	choice.its.cgroup = (u64)sk->sk_cgrp_data.cgroup;
	bpf_loop(n_rules, look_at_rule, &choice, 0);
	return choice.bounded;
}

#endif
