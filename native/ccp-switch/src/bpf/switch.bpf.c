// SPDX-License-Identifier: GPL-2.0
/*
 * Sets the congestion control and the pacing limit of TCP sockets by a table of rules. `on_socket` visits existing sockets,
 * once per read of the iterator; `on_event` handles new ones, active and passive. The application's own choice is stored
 * with the socket, so that it can be restored.
 *
 * `on_rtt` outlives the loader: it is pinned, with the maps that it needs. Sockets belong to the process that switched them
 * while it renews its lease. When the lease has expired, they get back their first choice at their next round trip.
 *
 * A socket's ECN is decided when it connects. So congestion controls are set once the connection is established: before,
 * those that need ECN would find none, and fall back permanently.
 */
#include "kernel.h"
#include "ecn.h"
#include "addresses.h"
#include "matching.h"
#include "dropped.h"
#include "sock_ops.h"
#include "switch.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define NSEC_PER_USEC 1000ULL

const volatile struct switch_config config = {};

#include "touched.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct switch_table);
} table SEC(".maps");

enum asking {
	ASKING = 1, /* the outgoing SYN asks for ECN */
	ASKING_AMONG_OTHERS = 2, /* and another program also wants to see headers */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} rows SEC(".maps");

/* A connection, and the search for its rule. */
struct search {
	struct connection its;
	__u32 found; /* SWITCH_MAX_RULES: none */
	__u32 next; /* next rule to check */
};

static __always_inline struct switch_table *the_table(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&table, &zero);
}

/* Rules after a match are not checked: the first match decides. */
static long look_at(u32 turn, void *context)
{
	struct switch_table *rules = the_table();
	struct search *search = context;
	u32 index = search->next;

	if (!rules || index >= rules->count || index >= search->found)
		return 1;
	index &= SWITCH_MAX_RULES - 1; /* repeats the check above for the verifier */
	if (matches(&search->its, &rules->rules[index].conditions)) {
		search->found = index;
		return 1;
	}
	search->next = rules->next[index];
	return 0;
}

static __always_inline u32 chain_of(const __u64 *address)
{
	return (address[0] ^ address[1]) * SWITCH_HASH >> (64 - SWITCH_HASH_BITS);
}

static __always_inline struct switch_rule *find(struct search *search)
{
	struct switch_table *rules = the_table();
	struct switch_rule *rule;

	search->found = SWITCH_MAX_RULES;
	if (!rules)
		return NULL;
	search->next = rules->first[chain_of(search->its.daddr)];
	bpf_loop(SWITCH_MAX_RULES, look_at, search, 0);
	search->next = rules->first_of_all[0];
	bpf_loop(SWITCH_MAX_RULES, look_at, search, 0);
	if (search->found >= SWITCH_MAX_RULES)
		return NULL;
	rule = &rules->rules[search->found];
	/* Computed here: clang may spill the number before its check, and Linux 6.1 does not know the copy's bounds. */
	barrier_var(rule);
	return rule;
}

static __always_inline void describe(struct search *search, struct tcp_sock *tp)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	put_addresses((__u8 *)search->its.saddr, (__u8 *)search->its.daddr, sk);
	search->its.sport = sk->__sk_common.skc_num;
	search->its.dport = bpf_ntohs(sk->__sk_common.skc_dport);
	search->its.cgroup = (u64)sk->sk_cgrp_data.cgroup;
}

static __always_inline void put_name(char *name, struct tcp_sock *tp)
{
	bpf_probe_read_kernel(name, SWITCH_NAME_BYTES, tp->inet_conn.icsk_ca_ops->name);
}

static __always_inline bool same(const char *a, const char *b)
{
	return ((const __u64 *)a)[0] == ((const __u64 *)b)[0] &&
	       ((const __u64 *)a)[1] == ((const __u64 *)b)[1];
}

static __always_inline void copy(char *to, const char *from)
{
	((__u64 *)to)[0] = ((const __u64 *)from)[0];
	((__u64 *)to)[1] = ((const __u64 *)from)[1];
}

static __always_inline void emit(struct search *search, struct tcp_sock *tp, u32 what, const char *before,
				 int error)
{
	struct switch_table *rules = the_table();
	struct switch_row *row = bpf_ringbuf_reserve(&rows, sizeof(*row), 0);

	if (!row) {
		count_dropped();
		return;
	}
	row->t_us = bpf_ktime_get_ns() / NSEC_PER_USEC;
	__builtin_memcpy(row->saddr, search->its.saddr, sizeof(row->saddr));
	__builtin_memcpy(row->daddr, search->its.daddr, sizeof(row->daddr));
	row->sport = search->its.sport;
	row->dport = search->its.dport;
	row->version = rules ? rules->version : 0;
	row->rule = search->found;
	row->error = error;
	row->what = what;
	row->pad = 0;
	copy(row->before, before);
	put_name(row->after, tp);
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP); /* the reader polls */
}

/* Limits the socket's pacing by the rule. `handle` is setsockopt's argument: the socket, or an event of it. */
static __always_inline void pace(void *handle, struct tcp_sock *tp, struct touched *touched, u32 rate)
{
	u64 limit = tp->inet_conn.icsk_inet.sk.sk_max_pacing_rate;
	u32 now = rate;

	if (rate == touched->our_rate)
		return;
	if (rate == SWITCH_NO_RATE) {
		if (!touched->our_rate)
			return;
		rate = 0;
		if (limit != touched->our_rate) { /* the application has changed it since */
			touched->our_rate = 0;
			return;
		}
		now = touched->first_rate < SWITCH_NO_RATE ? touched->first_rate : SWITCH_NO_RATE;
	} else if (limit != touched->our_rate) {
		touched->first_rate = limit;
	}
	if (!bpf_setsockopt(handle, SOL_SOCKET, SO_MAX_PACING_RATE, &now, sizeof(now)))
		touched->our_rate = rate;
}

static __always_inline void complain(struct search *search, struct tcp_sock *tp, struct touched *touched,
				     u32 what, const char *before, int error)
{
	if (!touched->complained)
		emit(search, tp, what, before, error);
	touched->complained = 1;
}

/* Applies the rule, if possible. */
static __always_inline void follow(void *handle, struct tcp_sock *tp, struct touched *touched,
				   struct search *search, struct switch_rule *rule)
{
	char before[SWITCH_NAME_BYTES] __attribute__((aligned(8)));
	int error;

	put_name(before, tp);
	if (!same(before, touched->owned)) /* the application's own choice, perhaps a later one */
		copy(touched->first, before);
	if (rule->emit)
		emit(search, tp, SWITCH_SEEN, before, 0);
	if (rule->needs_ecn && !has_ecn(tp)) {
		complain(search, tp, touched, SWITCH_NO_ECN, before, 0);
		return;
	}
	if (!same(before, rule->congestion)) {
		error = bpf_setsockopt(handle, IPPROTO_TCP, TCP_CONGESTION, rule->congestion,
				       SWITCH_NAME_BYTES);
		if (error) {
			complain(search, tp, touched, SWITCH_FAILED, before, error);
			return;
		}
		copy(touched->owned, rule->congestion);
		emit(search, tp, SWITCH_DONE, before, 0);
	}
	touched->complained = 0;
	pace(handle, tp, touched, rule->rate_bytes_per_s);
}

/* Restores the application's choice, unless it has made another choice since. */
static __always_inline void restore(struct tcp_sock *tp, struct touched *touched)
{
	char before[SWITCH_NAME_BYTES] __attribute__((aligned(8)));
	struct search search = {.found = SWITCH_MAX_RULES};
	int error;

	pace(tp, tp, touched, SWITCH_NO_RATE);
	put_name(before, tp);
	if (!touched->owned[0] || !same(before, touched->owned))
		return;
	describe(&search, tp);
	error = bpf_setsockopt(tp, IPPROTO_TCP, TCP_CONGESTION, touched->first, SWITCH_NAME_BYTES);
	if (error)
		complain(&search, tp, touched, SWITCH_FAILED, before, error);
	else if (!same(touched->first, before))
		emit(&search, tp, SWITCH_RESTORED, before, 0);
	touched->owned[0] = 0;
}

/* Enables `on_rtt` for the socket: called once per measured round trip. */
static __always_inline void watch(struct tcp_sock *tp)
{
	int flags = tp->bpf_sock_ops_cb_flags;

	if (flags & BPF_SOCK_OPS_RTT_CB_FLAG)
		return;
	flags |= BPF_SOCK_OPS_RTT_CB_FLAG;
	bpf_setsockopt(tp, IPPROTO_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
}

static __always_inline void end(struct tcp_sock *tp, struct touched *touched, u32 ending)
{
	if (touched->owner != config.owner)
		return;
	if (ending == SWITCH_RESTORING)
		restore(tp, touched);
	touched->owner = SWITCH_UNOWNED;
}

static __always_inline bool may_send(u8 state)
{
	return state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT || state == TCP_FIN_WAIT1 ||
	       state == TCP_LAST_ACK || state == TCP_CLOSING;
}

SEC("iter/tcp")
int on_socket(struct bpf_iter__tcp *context)
{
	struct sock_common *common = context->sk_common; /* NULL after the last socket */
	struct switch_table *rules = the_table();
	struct search search = {};
	struct switch_rule *rule;
	struct touched *touched;
	struct tcp_sock *tp;

	if (!common || !rules)
		return 0;
	tp = bpf_skc_to_tcp_sock(common); /* NULL: not a full socket yet, or not any more */
	if (!tp || !may_send(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state))
		return 0;
	touched = bpf_sk_storage_get(&sockets, tp, 0, 0);
	if (rules->ending) {
		if (touched)
			end(tp, touched, rules->ending);
		return 0;
	}
	if (touched && is_anothers(touched))
		return 0;
	describe(&search, tp);
	rule = find(&search);
	if (!rule) { /* its path may have been forgotten, or its owner ended */
		if (touched && touched->owner != SWITCH_UNOWNED) {
			restore(tp, touched);
			touched->owner = SWITCH_UNOWNED;
		}
		return 0;
	}
	touched = bpf_sk_storage_get(&sockets, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!touched)
		return 0;
	own(touched);
	follow(tp, tp, touched, &search, rule);
	watch(tp);
	return 0;
}

/*
 * A SYN that a program makes ask for ECN leaves as ECT, like DCTCP's, and a Linux receiver then refuses ECN unless its own
 * congestion control needs it. RFC 3168 requires a SYN without ECT (section 6.1.1). No option does that, but setting a
 * congestion control that needs no ECN clears ECT. So the socket gets another congestion control, and its own one back,
 * between the creation and the transmission of the SYN: when the kernel asks for the length of its options.
 */
static __always_inline void ask(struct bpf_sock_ops *event, struct tcp_sock *tp)
{
	struct touched *touched;
	u32 flags = event->bpf_sock_ops_cb_flags;

	if (BPF_CORE_READ(tp, inet_conn.icsk_ca_ops, flags) & TCP_CONG_NEEDS_ECN)
		return; /* it asks by itself */
	touched = bpf_sk_storage_get(&sockets, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!touched)
		return;
	touched->asking = flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG ? ASKING_AMONG_OTHERS : ASKING;
	bpf_sock_ops_cb_flags_set(event, flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	event->reply = 1;
}

static __always_inline void stop_asking(struct bpf_sock_ops *event, struct touched *touched)
{
	if (touched->asking == ASKING)
		bpf_sock_ops_cb_flags_set(event,
					  event->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	touched->asking = 0;
}

static __always_inline void take_ect_away(struct bpf_sock_ops *event, struct tcp_sock *tp)
{
	struct touched *touched = bpf_sk_storage_get(&sockets, tp, 0, 0);
	char own[SWITCH_NAME_BYTES] __attribute__((aligned(8)));
	char other[SWITCH_NAME_BYTES] __attribute__((aligned(8))) = "reno";

	if (!touched || !touched->asking)
		return;
	stop_asking(event, touched);
	put_name(own, tp);
	if (same(own, other))
		__builtin_memcpy(other, "cubic", sizeof("cubic"));
	if (!bpf_setsockopt(event, IPPROTO_TCP, TCP_CONGESTION, other, sizeof(other)))
		bpf_setsockopt(event, IPPROTO_TCP, TCP_CONGESTION, own, sizeof(own));
}

/* A connection begins: a local one will send a SYN; for a remote one a SYN arrived, and there is no full socket yet. */
static __always_inline void on_begin(struct bpf_sock_ops *event, struct tcp_sock *tp)
{
	struct search search = {};
	struct switch_rule *rule;

	if (tp) {
		describe(&search, tp);
	} else {
		if (event->family == AF_INET6) {
			((__u32 *)search.its.saddr)[0] = event->local_ip6[0];
			((__u32 *)search.its.saddr)[1] = event->local_ip6[1];
			((__u32 *)search.its.saddr)[2] = event->local_ip6[2];
			((__u32 *)search.its.saddr)[3] = event->local_ip6[3];
			((__u32 *)search.its.daddr)[0] = event->remote_ip6[0];
			((__u32 *)search.its.daddr)[1] = event->remote_ip6[1];
			((__u32 *)search.its.daddr)[2] = event->remote_ip6[2];
			((__u32 *)search.its.daddr)[3] = event->remote_ip6[3];
		} else {
			put_mapped((__u8 *)search.its.saddr, event->local_ip4);
			put_mapped((__u8 *)search.its.daddr, event->remote_ip4);
		}
		search.its.sport = event->local_port;
		search.its.dport = bpf_ntohl(event->remote_port);
	}
	rule = find(&search);
	if (!rule || !rule->asks_ecn)
		return;
	if (tp)
		ask(event, tp);
	else
		event->reply = 1;
}

static __always_inline void on_established(struct bpf_sock_ops *event, struct tcp_sock *tp)
{
	struct search search = {};
	struct switch_rule *rule;
	struct touched *touched;

	describe(&search, tp);
	rule = find(&search);
	if (!rule)
		return;
	touched = bpf_sk_storage_get(&sockets, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!touched)
		return;
	stop_asking(event, touched); /* its SYN may have had no room for options, so the kernel did not ask */
	if (is_anothers(touched))
		return;
	own(touched);
	follow(event, tp, touched, &search, rule);
	bpf_sock_ops_cb_flags_set(event, event->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
}

SEC("sockops")
int on_event(struct bpf_sock_ops *event)
{
	struct bpf_sock *sk = event->sk; /* NULL: not a full socket yet */
	struct tcp_sock *tp = NULL;
	u32 op = event->op;

	if (op != BPF_SOCK_OPS_NEEDS_ECN && op != BPF_SOCK_OPS_HDR_OPT_LEN_CB &&
	    op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (bpf_get_netns_cookie(event) != config.netns_cookie)
		return 1;
	if (sk)
		tp = bpf_skc_to_tcp_sock(sk);
	if (op == BPF_SOCK_OPS_NEEDS_ECN)
		on_begin(event, tp);
	else if (tp && op == BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		take_ect_away(event, tp);
	else if (tp)
		on_established(event, tp);
	return 1;
}

/*
 * Restores the application's choice once a socket's owner has ended. There are no rows, as their reader ended with it. If the
 * chosen congestion control has been removed meanwhile, the socket gets Reno, which always exists.
 */
SEC("sockops")
int on_rtt(struct bpf_sock_ops *event)
{
	char now[SWITCH_NAME_BYTES] __attribute__((aligned(8)));
	char reno[SWITCH_NAME_BYTES] __attribute__((aligned(8))) = "reno";
	struct bpf_sock *sk = event->sk;
	struct touched *touched;
	struct tcp_sock *tp;

	if (event->op != BPF_SOCK_OPS_RTT_CB || !sk)
		return 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 1;
	touched = bpf_sk_storage_get(&sockets, tp, 0, 0);
	if (!touched || touched->owner == SWITCH_UNOWNED || has_lease(touched->owner))
		return 1;
	touched->owner = SWITCH_UNOWNED;
	pace(event, tp, touched, SWITCH_NO_RATE);
	put_name(now, tp);
	if (touched->owned[0] && same(now, touched->owned) &&
	    bpf_setsockopt(event, IPPROTO_TCP, TCP_CONGESTION, touched->first, SWITCH_NAME_BYTES))
		bpf_setsockopt(event, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno));
	touched->owned[0] = 0;
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
