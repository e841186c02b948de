/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The few kernel types that the programs of all crates use, field by field. CO-RE adapts the offsets to the running kernel,
 * so no vmlinux.h of a particular kernel is needed; layouts here are not the kernel's, except where CO-RE does not apply.
 */
#ifndef CCP_KERNEL_H
#define CCP_KERNEL_H

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
typedef __u64 u64;
typedef __s64 s64;
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
#define IPPROTO_HOPOPTS 0
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_DSTOPTS 60

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_RECOMPUTE_CSUM = 1,
	BPF_F_ADJ_ROOM_FIXED_GSO = 1,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
	BPF_ADJ_ROOM_NET = 0,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_F_CURRENT_NETNS = -1,
	TC_ACT_UNSPEC = -1, /* the next program decides */
	TCQ_F_MQROOT = 8,
	TCQ_F_CPUSTATS = 32,
};

enum {
	TCP_ESTABLISHED = 1,
	TCP_FIN_WAIT1 = 4,
	TCP_FIN_WAIT2 = 5,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
	TCP_NEW_SYN_RECV = 12,
};

enum tcp_ca_state {
	TCP_CA_Open = 0,
	TCP_CA_Disorder = 1,
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
	CA_EVENT_CWND_RESTART = 1,
	CA_EVENT_COMPLETE_CWR = 2,
	CA_EVENT_LOSS = 3,
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

enum {
	CA_ACK_ECE = 4, /* in_ack_event: the ACK carries ECE */
	FLAG_ECE = 0x40, /* cong_control since 6.10: the same, tcp_input.c's numbering */
	FLAG_SND_UNA_ADVANCED = 0x400,
	TCP_ECN_MODE_RFC3168 = 1, /* the only mode before Linux 6.18, called TCP_ECN_OK */
	TCP_ECN_DEMAND_CWR = 4,
	TCP_ECN_MODE_ACCECN = 16, /* with TCP_ECN_MODE_RFC3168: not negotiated yet */
	INET_ECN_CE = 3,
	TCP_CONG_NON_RESTRICTED = 1,
	TCP_CONG_NEEDS_ECN = 2,
	TCP_INFINITE_SSTHRESH = 0x7fffffff,
	ICSK_ACK_TIMER = 2,
	ICSK_ACK_NOW = 16,
	SK_PACING_NONE = 0,
	SK_PACING_NEEDED = 1,
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

struct bpf_sock_tuple {
	union {
		struct {
			__be32 saddr;
			__be32 daddr;
			__be16 sport;
			__be16 dport;
		} ipv4;
		struct {
			__be32 saddr[4];
			__be32 daddr[4];
			__be16 sport;
			__be16 dport;
		} ipv6;
	};
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
	__u32 gso_size;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct netns_ipv4 {
	u8 sysctl_tcp_slow_start_after_idle;
};

struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	s64 counter;
} atomic64_t;

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
	atomic64_t skc_cookie;
};

typedef struct {
	int owned;
} socket_lock_t;

typedef struct {
	unsigned int val;
} kuid_t;

struct dst_entry {
	unsigned long _metrics; /* address of the metrics, and two bits of flags */
};

struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	struct dst_entry *sk_dst_cache;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	struct sock_cgroup_data sk_cgrp_data;
	u16 sk_protocol;
	kuid_t sk_uid;
};

struct net_device;

struct sk_buff {
	struct net_device *dev;
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
	u32 icsk_rto; /* [jiffies] */
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	__u8 icsk_ca_setsockopt : 1;
	struct {
		__u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[13];
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
	u32 prr_out;
	u32 lost_out;
	u32 sacked_out;
	u8 is_cwnd_limited : 1;
	u32 retrans_out;
	u32 lost;
	u32 snd_ssthresh;
	struct minmax rtt_min;
	u32 write_seq;
	u8 ecn_flags;
	u64 tcp_mstamp;
	u64 delivered_mstamp;
	u32 rcv_nxt;
	u32 rcv_wup;
	u32 rcv_wnd;
	u32 max_window;
	u32 snd_nxt;
	u32 snd_una;
	u32 srtt_us;
	u32 packets_out;
	u32 delivered;
	u32 delivered_ce;
	u32 delivered_ecn_bytes[3]; /* since 6.18: by ECN field - 1, as an AccECN receiver counts them */
	u32 max_packets_out;
	u64 bytes_acked;
	u64 bytes_received;
	u64 bytes_sent;
	u32 segs_out;
	u32 data_segs_out;
	u32 lsndtime; /* [jiffies] */
	u32 snd_cwnd_clamp;
	u32 prior_cwnd;
	u64 bytes_retrans;
	u32 total_retrans;
	u32 app_limited;
	u32 rate_delivered;
	u8 rate_app_limited : 1;
	u8 bpf_sock_ops_cb_flags;
	struct tcp_rack rack;
};

struct rate_sample {
	u32 prior_delivered;
	s32 delivered;
	long interval_us;
	u32 snd_interval_us;
	u32 rcv_interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	bool is_app_limited;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

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

/* Created on the stack for cubictcp_acked(), so it has the kernel's layout (unchanged since 4.7). */
struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

/* All members of all supported kernels: libbpf drops those that are zero and unknown to the running kernel. */
struct tcp_congestion_ops___ccp {
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*cwnd_event_tx_start)(struct sock *sk);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#endif
