// SPDX-License-Identifier: GPL-2.0
/*
 * Stores the congestion window with which each connection sent its newest packet. Packets are seen at the device's queue:
 * programs that handle a packet later look the window up by its addresses and ports.
 */
#include "kernel.h"
#include "addresses.h"
#include "netns.h"
#include "windows.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

const volatile struct windows_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct windows_key);
	__type(value, struct tcp_window);
} windows SEC(".maps");

/*
 * Packets of every protocol arrive here, also of incomplete sockets: in state TIME_WAIT and NEW_SYN_RECV they are smaller
 * than a struct sock, and a listener answers for connections that have no window yet.
 */
static __always_inline bool has_window(struct sock *sk)
{
	u8 state = sk->__sk_common.skc_state;
	u16 family = sk->__sk_common.skc_family;

	if (family != AF_INET6 && family != AF_INET)
		return false;
	if (state == TCP_TIME_WAIT || state == TCP_LISTEN || state == TCP_NEW_SYN_RECV)
		return false;
	return sk->sk_protocol == IPPROTO_TCP;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(on_departure, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct tcp_window window;
	struct windows_key key = {};
	struct tcp_sock *tp;

	if (!sk || !has_window(sk))
		return 0;
	if (config.only_some_netns && !is_in_wanted_netns(sk))
		return 0;
	tp = (struct tcp_sock *)
		sk; /* the verifier does not know the type: read its fields as foreign memory */
	put_addresses(key.saddr, key.daddr, sk);
	key.sport = sk->__sk_common.skc_num;
	key.dport = bpf_ntohs(sk->__sk_common.skc_dport);
	window.cwnd_pkts = BPF_CORE_READ(tp, snd_cwnd);
	window.mss_bytes = BPF_CORE_READ(tp, mss_cache);
	bpf_map_update_elem(&windows, &key, &window, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
