/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The few kernel types that the tracing programs read. CO-RE moves the offsets to the running kernel's; layouts here
 * are not the kernel's.
 */
#ifndef CCP_TRACE_KERNEL_H
#define CCP_TRACE_KERNEL_H

#define __VMLINUX_H__

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __s64 s64;
typedef __u64 u64;
typedef _Bool bool;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#define NULL ((void *)0)
#define true 1
#define false 0
#define AF_INET 2
#define AF_INET6 10
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
	TCP_ESTABLISHED = 1,
	TCP_FIN_WAIT1 = 4,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
	TCP_NEW_SYN_RECV = 12,
	TCP_INFINITE_SSTHRESH = 0x7fffffff,
	TCP_ECN_OK = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[];
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

typedef struct {
	int owned;
} socket_lock_t;

struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	struct sock_cgroup_data sk_cgrp_data;
	u16 sk_protocol;
};

struct sk_buff {
	struct sock *sk;
	unsigned int len;
	__be16 protocol;
	__u16 network_header; /* from head */
	unsigned int end; /* from head */
	unsigned char *head;
	unsigned char *data;
};

struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
};

struct tcp_congestion_ops {
	u32 flags;
	char name[16];
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_rack {
	u32 rtt_us;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 packets_out;
	u32 lost_out;
	u32 sacked_out;
	u32 retrans_out;
	u32 lost;
	u32 srtt_us;
	u32 delivered;
	u32 delivered_ce;
	u32 total_retrans;
	u64 bytes_acked;
	u64 bytes_received;
	u64 bytes_sent;
	u64 bytes_retrans;
	struct minmax rtt_min;
	struct tcp_rack rack;
	u8 rate_app_limited : 1;
	u8 ecn_flags;
};

struct bpf_iter__tcp {
	struct sock_common *sk_common;
};

#pragma clang attribute pop

#endif
