/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * What the kernel side and the agent share. The agent maps these structures into its memory. With maps.h and state.h this
 * file is the layout of a datapath: a build whose layout is the same takes over maps and flows as they are, any other moves
 * the flows (leave.h). build.rs sees what changes here; what changes its meaning only, raises CCP_ABI_VERSION. Rust sees
 * this file through bindgen.
 *
 * Units are in the names: _bytes, _pkts, _us (CLOCK_MONOTONIC where it is a point in time), _bytes_per_s.
 *
 * A comment that begins with two stars describes its member to Rust, Python and the documents (facts.rs of ccp-record,
 * `make facts`): what it is, and its unit in brackets. A word and a colon before that say what the compiler of fold programs
 * must know of a primitive, that a number is a flag, or which enumeration it is of.
 */
#ifndef CCP_INTF_H
#define CCP_INTF_H

#ifndef __VMLINUX_H__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
#endif

enum ccp_limits {
	CCP_ABI_VERSION = 7,
	CCP_MAX_REPORT = 64,
	CCP_MAX_CONTROL = 64,
	CCP_MAX_LOCAL = 64,
	CCP_MAX_PRIM = 48,
	CCP_MAX_PROGRAMS = 1024, /* index 0 means "no program": the fallback law */
	CCP_MAX_NAMES = 64, /* congestion-control names registered at once */
	CCP_MAX_EXTENSIONS = 4,
	CCP_MAX_FLOWS = 65536,
	CCP_MAGIC_PRIM =
		0x0ccb0100, /* and the primitive's index: a constant that no other code has (fold.bpf.c) */
	CCP_NAME_LEN = 16, /* TCP_CA_NAME_MAX, with the final zero */
	CCP_MIN_CWND_PKTS = 2,
	CCP_MAX_MOVING = 1024, /* sockets that change programs at the same time: about one a processor */
	CCP_STATS_INTERVAL_US = 10000,
};

/*
 * Primitives: CCP's fifteen in portus' (alphabetical) order, then ccplane's own. Index into ccp_fold.prim; those of in-band
 * telemetry, the last, are in ccp_flow.inband, less CCP_INT_AGE_US.
 */
enum ccp_prim {
	CCP_ACK_BYTES_ACKED, /**< Acknowledged in order [bytes]. */
	CCP_ACK_BYTES_MISORDERED, /**< Newly acknowledged out of order, by SACK [bytes]. */
	CCP_ACK_ECN_BYTES, /**< Acknowledged with an ECN echo [bytes]. */
	CCP_ACK_ECN_PACKETS, /**< Delivered with an ECN echo [packets]. */
	CCP_ACK_LOST_PKTS_SAMPLE, /**< Newly marked lost [packets]. */
	CCP_ACK_NOW, /**< The datapath's clock [us]. */
	CCP_ACK_PACKETS_ACKED, /**< Acknowledged in order [packets]. */
	CCP_ACK_PACKETS_MISORDERED, /**< Newly acknowledged out of order [packets]. */
	CCP_FLOW_BYTES_IN_FLIGHT, /**< Sent and neither delivered nor marked lost [bytes]. */
	CCP_FLOW_BYTES_PENDING, /**< In the socket's send buffer, not yet acknowledged [bytes]. */
	CCP_FLOW_PACKETS_IN_FLIGHT, /**< Sent and neither delivered nor marked lost [packets]. */
	CCP_FLOW_RATE_INCOMING, /**< Rate at which data arrived at the receiver [bytes/s]. */
	CCP_FLOW_RATE_OUTGOING, /**< Rate at which data was sent [bytes/s]. */
	/* As libccp reads it. */
	CCP_FLOW_RTT_SAMPLE_US, /**< sampled: RTT sample [us]; 4294967295 when this ACK gives none. */
	CCP_FLOW_WAS_TIMEOUT, /**< flag: The fold runs because of a retransmission timeout, not of an ACK. */
	CCP_FLOW_MIN_RTT_US, /**< The kernel's windowed minimum RTT [us]. */
	CCP_FLOW_SRTT_US, /**< The kernel's smoothed RTT [us]. */
	CCP_FLOW_MSS, /**< nonzero: Maximum segment size [bytes]. */
	CCP_FLOW_DELIVERED, /**< Delivered since the connection began [packets]. */
	CCP_FLOW_LOST, /**< Marked lost since the connection began [packets]. */
	CCP_FLOW_RETRANS, /**< Retransmitted since the connection began [packets]. */
	CCP_FLOW_CA_STATE, /**< The kernel's state: 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss. */
	CCP_FLOW_APP_LIMITED, /**< flag: The rate sample was limited by the application. */
	CCP_FLOW_SND_SSTHRESH, /**< huge: The kernel's slow-start threshold [bytes]; all ones before the first loss. */
	CCP_FLOW_CWND_LIMITED, /**< flag: The window, not the application or the receiver, limits sending. */
	CCP_FLOW_LOCAL_CONGESTION, /**< Times a queue of this host refused a packet since the last fold. */
	CCP_FLOW_ECN_OK, /**< flag: ECN was negotiated. */
	CCP_FLOW_DELIVERED_BYTES, /**< Acknowledged in order since the connection began [bytes]. */
	CCP_FLOW_RATE_ALLOWED, /**< Rate that an extension of the datapath allows [bytes/s]; 0 if there is no limit. */
	CCP_INT_AGE_US, /**< huge: Since the packet of the last echo left this host [us]; all ones without echoes. */
	CCP_INT_FRESH, /**< flag: This ACK brought a new echo. */
	CCP_INT_HOP, /**< Place of the hop with the longest wait, from 1 at the sender on. */
	CCP_INT_NODE, /**< Id of that hop. */
	CCP_INT_HOPS, /**< Number of hops that wrote. */
	CCP_INT_ALL_KNOWN, /**< flag: Every hop of the path reports depth and room of its queue. */
	CCP_INT_QUEUE_BYTES, /**< Queue of that hop, in full-size packets [bytes]. */
	CCP_INT_FREE_BYTES, /**< huge: Room in the queue of that hop, in full-size packets [bytes]; all ones if unlimited, 0 if unknown. */
	CCP_INT_ARRIVAL_BYTES_PER_S, /**< Rate at which packets of all flows arrive at that hop [bytes/s]. */
	CCP_INT_LINK_BYTES_PER_S, /**< Rate at which the queue of that hop drains [bytes/s]; 0 if unknown. */
	CCP_INT_FLOW_COUNT, /**< Flows that the hop sees; 0 if unknown. */
	CCP_INT_LOSSES_CONGESTION, /**< Dropped by a node's own queue since the flow began [packets]. */
	CCP_INT_LOSSES_LINK, /**< Lost between two nodes that both report, since the flow began [packets]. */
	CCP_INT_LOSSES_UNKNOWN, /**< Lost where some node does not report, since the flow began [packets]. */
	CCP_PRIM_COUNT,
};

/* Index into ccp_fold.impl, libccp's order. */
enum ccp_impl {
	CCP_IMPL_EVENT_FLAG,
	CCP_IMPL_SHOULD_CONTINUE,
	CCP_IMPL_SHOULD_REPORT,
	CCP_IMPL_MICROS,
	CCP_IMPL_CWND, /* [bytes] */
	CCP_IMPL_RATE, /* [bytes/s], 0 = not paced by the algorithm */
	CCP_IMPL_COUNT,
};

/* What a fold leaves in ccp_flow.fold_error: libccp's errors, by name. */
enum ccp_fold_error {
	CCP_FOLD_OK,
	CCP_FOLD_ADD_OVERFLOW,
	CCP_FOLD_DIV_BY_ZERO,
	CCP_FOLD_MUL_OVERFLOW,
	CCP_FOLD_SUB_UNDERFLOW,
};

enum ccp_record_kind {
	CCP_RECORD_REPORT = 1,
	CCP_RECORD_CREATE,
	CCP_RECORD_CLOSE,
	CCP_RECORD_EXTENSION,
};

enum ccp_record_flags {
	CCP_REPORT_TIMEOUT = 1, /**< A retransmission timeout happened since the last report. */
	CCP_REPORT_FOLD_ERROR = 2, /**< An arithmetic error stopped the fold program since the last report. */
};

/* Records leave for the agent as they are: without gaps. */
#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Head of every ring-buffer record. A report, and what an extension tells, carries n_fields u64 behind it. */
struct ccp_record {
	__u32 kind;
	__u32 age_us; /* of a report: how long before it went into the ring its ACK came */
	__u64 flow_id; /**< The flow. */
	__u64 now_us; /**< When the fold program made it [us]. */
	__u64 cwnd_bytes; /**< Window after the fold [bytes]. */
	__u64 rate_bytes_per_s; /**< Pacing rate then [bytes/s], 0 if the algorithm does not pace. */
	__u16 program; /* index in the program table; of what an extension tells: its own index */
	__u16 stamp; /* of the letter that gave the flow its program */
	__u32 program_uid; /* uid of the program that filled the registers */
	__u32 missed; /**< Reports that found no room and are summed up in this one. */
	__u16 n_fields;
	__u16 flags; /**< Bits of enum ccp_record_flags. */
};

#pragma clang diagnostic pop

enum ccp_flow_state {
	CCP_FLOW_FREE,
	CCP_FLOW_ACTIVE,
	CCP_FLOW_REAPED, /* taken away by the agent: the slot becomes free when no program can still be at it */
};

/* Why a socket has no slot. */
enum ccp_no_slot {
	CCP_NO_SLOT_LIMIT = 1, /* all were taken */
	CCP_NO_SLOT_QUOTA, /* its user or its cgroup has as many as it may */
	CCP_NO_SLOT_CAUSES = 4, /* room for them: a power of two */
};

/* Who has slots, where there is a quota. */
enum ccp_holder_kind {
	CCP_HOLDER_USER = 1, /* bits: ccp_flow_info.held has both */
	CCP_HOLDER_CGROUP = 2,
};

struct ccp_holder {
	__u64 id; /* uid, or cgroup id */
	__u32 kind; /* enum ccp_holder_kind */
	__u32 takes; /* in a request of the agent: one slot more, else one less; 0 in the key of a map */
};

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Addresses are IPv6; IPv4 ones are mapped (::ffff:a.b.c.d). Ports in host order. */
struct ccp_flow_info {
	__u8 saddr[16];
	__u8 daddr[16];
	__u16 sport;
	__u16 dport;
	__u16 family; /* AF_INET or AF_INET6 of the socket */
	__u16 ecn_ok;
	__u32 mss;
	__u32 init_cwnd_bytes;
	__u32 cc_id; /* which registered name the socket chose */
	__u32 netns_inum;
	__u64 cgroup_id;
	__u64 created_us;
	__u64 sock_cookie; /* 0 when the kernel has not given the socket one */
	__u32 uid; /* of who made the socket */
	__u32 held; /* bits of enum ccp_holder_kind: the flow is counted in holders, and is to be taken out */
};

#pragma clang diagnostic pop

/*
 * The agent's letter to one flow. `owner` hands it over: the agent moves EMPTY or FULL to WRITING, the kernel
 * FULL to READING, both by compare-and-exchange; so no side ever sees half a letter and a letter that was not
 * fetched yet is added to, not replaced.
 */
enum ccp_mail_owner {
	CCP_MAIL_EMPTY,
	CCP_MAIL_WRITING,
	CCP_MAIL_FULL,
	CCP_MAIL_READING,
};

enum ccp_mail_what {
	CCP_MAIL_CWND = 1,
	CCP_MAIL_RATE = 2,
	CCP_MAIL_PROGRAM = 4, /* 0 gives the flow to the fallback law */
	CCP_MAIL_EXTENSIONS = 8,
};

/*
 * Extensions: BPF objects of their own, loaded when an algorithm asks for them. The core calls those whose bit a flow
 * has (extension.h); an extension's index is that in the core's tables of programs. Only agents use this table.
 */
struct ccp_extension {
	char name[CCP_NAME_LEN];
	__u64 version; /* hash of its object; 0: the index is free */
};

/* Head of the agent's letter to an extension, which stands behind it; handed over as struct ccp_mailbox is. */
struct ccp_extension_mail {
	__u64 flow_id;
	__u32 owner; /* enum ccp_mail_owner */
	__u32 n_octets; /* of the letter; 0: the extension is to leave the flow */
};

struct ccp_mailbox {
	__u32 owner;
	__u32 what;
	__u64 flow_id; /* a letter that reaches another flow in the same slot is thrown away */
	__u16 program;
	__u16 stamp; /* comes back in the reports of this program */
	__u32 extensions; /* bits that the flow gets besides those that it has */
	__u64 cwnd_bytes;
	__u64 rate_bytes_per_s;
	__u64 control_mask; /* bit i: control[i] below is new */
	__u64 control[CCP_MAX_CONTROL];
};

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Totals from the socket: refreshed every CCP_STATS_INTERVAL_US while ACKs arrive, and at the end of the flow. */
struct ccp_stats {
	__u64 now_us; /**< When the totals were last brought up to date: at an ACK [us]. */
	__u64 cwnd_bytes; /**< Window [bytes]. */
	__u64 bytes_acked; /**< Bytes cumulatively acknowledged. */
	__u64 bytes_retrans; /**< Bytes retransmitted. */
	__u64 pacing_rate_bytes_per_s; /**< Pacing rate of the socket, also where the kernel sets it [bytes/s]. */
	__u64 acks; /**< ACKs that the datapath saw. */
	__u32 mss_bytes; /**< Maximum segment size [bytes]. */
	__u32 srtt_us; /**< Smoothed RTT [us]. */
	__u32 min_rtt_us; /**< Minimum RTT [us]. */
	__u32 delivered_pkts; /**< Segments delivered. */
	__u32 lost_pkts; /**< Segments marked lost. */
	__u32 retrans_pkts; /**< Segments retransmitted. */
	__u32 packets_in_flight; /**< Segments sent and neither delivered nor marked lost. */
	__u32 ca_state; /**< State of loss recovery: Open 0, Disorder 1, CWR 2, Recovery 3, Loss 4. */
	__u32 snd_ssthresh_pkts; /**< Slow-start threshold of the socket [packets]. */
	__u32 spare;
};

#pragma clang diagnostic pop

/*
 * Why the fallback law has a flow, or had it last. The last two are the agent's: it gives a flow program 0, and the
 * letter's stamp is added to CCP_LAW_NO_PROGRAM.
 */
enum ccp_law_cause {
	CCP_LAW_NEW, /**< No agent has given it a program. */
	CCP_LAW_SILENT, /**< The agent's heartbeat was too old. */
	CCP_LAW_UNINSTALLED, /**< Its program was removed. */
	CCP_LAW_NO_PROGRAM, /**< Its algorithm gave it none. */
	CCP_LAW_FAILED, /**< Its algorithm raised an exception. */
	CCP_LAW_CAUSES = 8, /* room for them: a power of two */
};

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Totals of what ccplane itself did for the flow. */
struct ccp_counts {
	__u64 reports; /**< Reports made. */
	__u64 reports_missed; /**< Reports that found no room and were summed up in later ones. */
	__u64 mail_applied_us; /**< When the last update was applied [us], 0 if none was. */
	__u64 law_entered_us; /**< When the fallback law got the flow last [us]. */
	__u64 law_left_us; /**< When it gave the flow back after that [us]; 0 while it has it. */
	__u32 mail_applied; /**< Updates applied; several written before an ACK count once. */
	__u32 fold_errors; /**< Folds that stopped with an arithmetic error. */
	__u32 last_fold_error; /**< The last of these errors, of enum ccp_fold_error; 0 if there was none. */
	__u32 law_entries; /**< Times the fallback law took over. */
	__u32 law_cause; /**< ccp_law_cause: Why the fallback law has the flow, or had it last. */
	__u32 local_congestion; /**< Times a queue of this host refused a packet. */
	__u32 timeouts; /**< Retransmission timeouts. */
	__u32 spare;
};

#pragma clang diagnostic pop

/* What a fold works on besides the flow: on the stack of the program that runs it, for the length of an ACK. */
struct ccp_fold {
	__u64 impl[CCP_IMPL_COUNT];
	__u64 prim[CCP_INT_AGE_US]; /* those that the fold reads */
};

/*
 * One flow. What every ACK touches comes first, in two cache lines: on a busy machine they are cold, and each costs more
 * than the arithmetic. The second line ends with the head of the mailbox.
 */
struct ccp_flow {
	__u64 flow_id; /**< Id of the flow: generation << 32 | slot, never used twice. */
	__u32 state; /* enum ccp_flow_state */
	__u32 law; /**< flag: The fallback law steers the flow. */
	__u32 program; /**< Handle of the program that it runs, 0 if none. */
	__u32 extensions; /* bits: who is called for this flow */
	__u32 applied_pkts; /* snd_cwnd as last written by us */
	__u32 fold_error; /* set by a fold that fails, taken away when counted */
	__u64 cwnd_bytes; /* the algorithm's window, with the bytes that snd_cwnd cannot hold */
	__u64 cwnd_floor_bytes; /* snd_cwnd in bytes: while Cwnd stays within one segment above, nothing is applied */
	__u64 rate_bytes_per_s; /**< Pacing rate set by the algorithm [bytes/s], 0 if none. */
	__u64 time_zero_us; /* Micros counts from here */

	__u64 last_bytes_acked;
	__u32 last_sacked_out;
	__u32 last_lost;
	__u32 last_delivered;
	__u32 local_congestion; /* since the last fold */
	__u64 pace_most_bytes_per_s; /* bounds that extensions set, 0 and all ones for none */
	__u64 cwnd_most_bytes;
	__u64 stats_due_us; /* not before are stats taken again */
	__u64 acks;
	struct ccp_mailbox mail;

	struct ccp_flow_info info;
	__u64 rate_allowed_bytes_per_s; /* what an extension lets this flow send; 0: none bounds it */
	__u64 rate_incoming_bytes_per_s; /* of the last valid rate sample */
	__u64 rate_outgoing_bytes_per_s;
	__u32 last_delivered_ce;
	__u32 missed; /* reports folded into the next one */
	__u32 report_flags; /* enum ccp_record_flags for the next report */
	__u32 reads_ce; /* the program in use reads ECN marks */
	__u64 finish[CCP_IMPL_COUNT]; /* what a fold leaves for ccp_finish_* */
	struct ccp_counts counts;
	struct ccp_stats stats;

	__u64 echo_left_us; /* when the packet left this host that the last echo is of; 0: none came */
	__u64 inband[CCP_PRIM_COUNT - CCP_INT_AGE_US]; /* what that said; fresh until a fold has seen it */

	__u64 control[CCP_MAX_CONTROL];
	__u64 local[CCP_MAX_LOCAL];
	struct ccp_record record; /* stands right before report: both leave in one copy */
	__u64 report[CCP_MAX_REPORT];
} __attribute__((aligned(64)));

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

struct ccp_create {
	struct ccp_record record;
	struct ccp_flow_info info;
};

struct ccp_close {
	struct ccp_record record;
	struct ccp_stats stats;
	struct ccp_counts counts;
};

#pragma clang diagnostic pop

/* What the kernel side must know of a program besides its code. */
struct ccp_program {
	__u32 uid;
	__u32 n_report;
	__u32 n_control;
	__u32 spare;
	__u64 prims_used; /* bit i: the fold reads prim[i] */
	__u64 report_volatile;
	__u64 control_volatile;
	__u64 report_init[CCP_MAX_REPORT];
	__u64 control_init[CCP_MAX_CONTROL];
};

/*
 * A registered congestion-control name; its index is ccp_flow_info.cc_id. Only agents use this table, of datapaths of other
 * versions, too: it stays as it is.
 */
struct ccp_name {
	char name[CCP_NAME_LEN];
	__u32 registered;
	__u32 needs_ecn;
};

/* What goes with a socket from programs to those that replace them (leave.h). */
struct ccp_moving {
	__u64 state[5]; /* struct ccp_sk */
};

/*
 * Up to goes_to this stays as it is: agents of later versions read and write it in a datapath that they replace. What every
 * ACK reads is in the first cache line.
 */
struct ccp_globals {
	__u32 abi_version;
	__u32 max_flows;
	__u64 build_hash; /* of the programs */
	__u64 layout_hash; /* of what they share with the agent and with each other */
	/* written by agents */
	__u64 heartbeat_us;
	__u64 heartbeat_timeout_us;
	__u64 looks_at_us; /* until then reports wake nobody: the agent looks by itself at that time */
	__u32 load; /* number of the copies of the programs that are in use; 0: others have taken their place */
	__u32 leaves; /* sockets of other copies leave them, if their slot1 is at most this */
	__u32 agent_pid; /* 0: it has ended for the sake of its successor */
	__u32 successor; /* process of an agent that wants to take over; 0: none */
	char goes_to
		[CCP_NAME_LEN]; /* congestion control that leaving sockets get; empty: of the name they have */
	__u64 max_cwnd_bytes;
	__u32 flows_per_user; /* quotas of slots; 0: none */
	__u32 flows_per_cgroup;
	/* written by the kernel side */
	__u64 generation __attribute__((aligned(64)));
	__u64 flows_active;
	__u64 flows_over_limit; /**< Sockets that found no slot, and got the fallback law. */
	__u64 flows_over_quota; /**< Sockets over the quota of their user or cgroup, that got the law. */
	__u64 without_slot[CCP_NO_SLOT_CAUSES]; /* sockets that have none now, by cause */
	__u64 flows_reaped; /**< Silent flows whose slots were taken away because slots were scarce. */
	__u64 reports_missed; /**< Reports that found no room, and were summed up in later ones. */
	__u64 creates_missed; /**< Events of new flows that found no room. */
	__u64 closes_missed; /**< Events of closed flows that found no room. */
	__u64 fold_errors; /**< Folds that stopped with an arithmetic error. */
	__u64 law_entries[CCP_LAW_CAUSES]; /* flows that the law took over from an agent, by cause */
};

#endif
