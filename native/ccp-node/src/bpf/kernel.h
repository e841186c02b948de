/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of a node need of the kernel's headers. CO-RE moves the offsets within kernel structures to those
 * of the running kernel; struct __sk_buff is what the kernel promises to programs of tc, and lies as it says.
 */
#ifndef CCP_NODE_KERNEL_H
#define CCP_NODE_KERNEL_H

#define __VMLINUX_H__

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef _Bool bool;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#define NULL ((void *)0)
#define true 1
#define false 0
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_HOPOPTS 0
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_DSTOPTS 60

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_RECOMPUTE_CSUM = 1,
	BPF_F_ADJ_ROOM_FIXED_GSO = 1,
	BPF_ADJ_ROOM_NET = 0,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	TC_ACT_UNSPEC = -1, /* whoever comes next decides */
	TCP_LISTEN = 10,
	TCQ_F_MQROOT = 8,
	TCQ_F_CPUSTATS = 32,
};

struct bpf_spin_lock {
	__u32 val;
};

struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port;
	__u16 dst_port;
	__u16 : 16;
	__u32 dst_ip4;
	__u32 dst_ip6[4];
	__u32 state;
};

struct bpf_tcp_sock {
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
};

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	__u64 sk; /* struct bpf_sock * */
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gnet_stats_queue {
	__u32 backlog;
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct Qdisc {
	unsigned int flags;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct netdev_queue {
	struct Qdisc *qdisc;
};

struct net_device {
	struct Qdisc *qdisc;
	struct netdev_queue *_tx;
	unsigned int num_tx_queues;
	int ifindex;
};

struct fib_nh_common {
	struct net_device *nhc_dev;
};

struct fib6_nh {
	struct fib_nh_common nh_common;
};

struct nexthop;

struct fib6_info {
	struct nexthop *nh;
	struct fib6_nh fib6_nh[0];
};

struct bpf_iter__ipv6_route {
	struct fib6_info *rt;
};

#pragma clang attribute pop

#endif
