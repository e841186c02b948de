/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of clients, and further reads from a socket for clients.h. A timer deletes clients whose time is up; it runs as
 * long as a program has the table open or pinned.
 */
#ifndef RTCP_TABLE_H
#define RTCP_TABLE_H

#include "tcp.h"
#include "rtcp.h"

#define SWEEP_EVERY_NS (10 * 1000 * USEC_PER_SEC)
#define SWEEP_AT_ONCE 500 /* clients per run, which occupies the processor */
#define SWEEP_ON_NS (10 * USEC_PER_SEC) /* then a break of 10 ms */
#define CLOCK_MONOTONIC 1
#define EEXIST 17

struct bpf_map;

/* The kernel's type, known by its name. */
struct bpf_timer {
	u64 opaque[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries,
	       65536); /* CCP_MAX_FLOWS; resized by the loader, for extensions to the number of flows */
	__type(key, struct rtcp_key);
	__type(value, struct rtcp_client);
} rtcp_clients SEC(".maps");

/* An uninitialised client; too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rtcp_client);
} rtcp_blank SEC(".maps");

/* Number of connections that are not bounded because there was no room for their client. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} rtcp_no_room SEC(".maps");

struct rtcp_sweeper {
	struct bpf_timer timer;
	u32 runs; /* 1 once started */
	u32 swept; /* clients swept in this run */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rtcp_sweeper);
} rtcp_sweep SEC(".maps");

static __always_inline bool client_lock(struct rtcp_client *client)
{
	return !__sync_val_compare_and_swap(&client->lock, 0, 1);
}

static __always_inline void client_unlock(struct rtcp_client *client)
{
	__sync_lock_test_and_set(&client->lock, 0);
}

static __always_inline struct rtcp_client *client_find(const struct rtcp_key *key)
{
	return bpf_map_lookup_elem(&rtcp_clients, key);
}

/* Adds an uninitialised client, if there is none. Returns whether there was room. */
static __always_inline bool client_insert(const struct rtcp_key *key)
{
	u32 zero = 0;
	struct rtcp_client *blank = bpf_map_lookup_elem(&rtcp_blank, &zero);
	long failed = blank ? bpf_map_update_elem(&rtcp_clients, key, blank, BPF_NOEXIST) : -EEXIST;

	return !failed || failed == -EEXIST;
}

static __always_inline void client_delete(const struct rtcp_key *key)
{
	bpf_map_delete_elem(&rtcp_clients, key);
}

static __always_inline void count_no_room(void)
{
	u32 zero = 0;
	u64 *count = bpf_map_lookup_elem(&rtcp_no_room, &zero);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline struct rtcp_sweeper *the_sweeper(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&rtcp_sweep, &zero);
}

static long sweep_client(struct bpf_map *map, const struct rtcp_key *key, struct rtcp_client *client,
			 const u64 *now_us)
{
	struct rtcp_sweeper *sweeper;

	if (!is_over(client, *now_us) || !client_lock(client))
		return 0;
	/* It stays locked, so that no connection that has just found it joins a deleted client. */
	if (!is_over(client, *now_us) || bpf_map_delete_elem(&rtcp_clients, key)) {
		client_unlock(client);
		return 0;
	}
	sweeper = the_sweeper();
	return sweeper && ++sweeper->swept >= SWEEP_AT_ONCE;
}

static int sweep(struct bpf_map *map, const u32 *key, struct rtcp_sweeper *sweeper)
{
	u64 now_us = bpf_ktime_get_ns() / 1000;

	sweeper->swept = 0; /* not on the stack: the verifier would follow each value */
	bpf_for_each_map_elem(&rtcp_clients, sweep_client, &now_us, 0);
	bpf_timer_start(&sweeper->timer, sweeper->swept < SWEEP_AT_ONCE ? SWEEP_EVERY_NS : SWEEP_ON_NS, 0);
	return 0;
}

static __noinline int sweep_from_now_on(void)
{
	struct rtcp_sweeper *sweeper = the_sweeper();

	if (!sweeper || sweeper->runs || __sync_val_compare_and_swap(&sweeper->runs, 0, 1))
		return 0;
	if (bpf_timer_init(&sweeper->timer, &rtcp_sweep, CLOCK_MONOTONIC) ||
	    bpf_timer_set_callback(&sweeper->timer, sweep) ||
	    bpf_timer_start(&sweeper->timer, SWEEP_EVERY_NS, 0))
		sweeper->runs = 0;
	return 0;
}

/* --- the socket ------------------------------------------------------------------------------------------------- */

/* As in later kernels. */
struct ns_common___id {
	u64 ns_id;
} __attribute__((preserve_access_index));

struct net___cookie {
	struct ns_common___id ns;
	u64 net_cookie;
} __attribute__((preserve_access_index));

/* The kernel's consecutive number of the network namespace. */
static __always_inline u64 netns_cookie_of(struct sock *sk)
{
	struct net___cookie *net = (void *)sk->__sk_common.skc_net.net;

	if (!net)
		return 0;
	if (bpf_core_field_exists(net->net_cookie))
		return net->net_cookie;
	return bpf_core_field_exists(net->ns.ns_id) ? net->ns.ns_id : netns_of(sk);
}

/* Remote port. */
static __always_inline u32 dport_of(struct sock *sk)
{
	return bpf_ntohs(sk->__sk_common.skc_dport);
}

#endif
