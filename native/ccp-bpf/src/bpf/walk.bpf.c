// SPDX-License-Identifier: GPL-2.0
/*
 * Visits the TCP sockets of a namespace, once per read of the iterator. Sockets with a name of a table get the congestion
 * control listed there; the same name again means the programs now registered under it.
 */
#include "tcp.h"
#include "walk.h"

#define TCP_CONGESTION 13

/* Connections are skipped: they move by themselves (leave.h). */
const volatile bool only_listeners = false;

struct name {
	char bytes[WALK_NAME_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WALK_NAMES);
	__type(key, struct name);
	__type(value, struct name);
} goes_to SEC(".maps");

SEC("iter/tcp")
int walk(struct bpf_iter__tcp *context)
{
	struct sock_common *common = context->sk_common; /* NULL after the last socket */
	struct seq_file *seq = context->meta->seq;
	struct walk_row row = {.what = WALK_MOVED};
	struct name name = {}, *to;
	bool listens, chose;
	struct tcp_sock *tp;
	struct sock *sk;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common); /* NULL: not a full socket yet, or not any more */
	if (!tp)
		return 0;
	sk = (struct sock *)tp;
	listens = sk->__sk_common.skc_state == TCP_LISTEN;
	if (only_listeners && !listens)
		return 0;
	bpf_probe_read_kernel(&name, sizeof(name), tp->inet_conn.icsk_ca_ops->name);
	to = bpf_map_lookup_elem(&goes_to, &name);
	if (!to)
		return 0;
	/* If this set the listener's choice, its connections would keep it when the default changes. */
	chose = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt);
	if (listens && !chose)
		row.what = WALK_LEFT;
	else if ((row.error = bpf_setsockopt(tp, IPPROTO_TCP, TCP_CONGESTION, to, sizeof(*to))))
		row.what = WALK_FAILED;
	put_saddr(row.saddr, sk);
	put_daddr(row.daddr, sk);
	row.sport = sk->__sk_common.skc_num;
	row.dport = bpf_ntohs(sk->__sk_common.skc_dport);
	__builtin_memcpy(row.name, &name, sizeof(name));
	bpf_seq_write(seq, &row, sizeof(row));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
