/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * Structures shared by the kernel side and the agent, which maps them into its memory. With maps.h and state.h this file is
 * the layout of a datapath: a build with the same layout takes over maps and flows unchanged, any other build moves the
 * flows (leave.h). build.rs detects changes of the layout; raise CCP_ABI_VERSION if only the meaning changes. Rust reads
 * this file through bindgen.
 *
 * Names have units: _bytes, _pkts, _us (CLOCK_MONOTONIC for times), _bytes_per_s.
 *
 * A comment that begins with two stars describes its member for Rust, Python and the documents (facts.rs of ccp-record,
 * `make facts`): its meaning, with the unit in brackets. A tag and a colon before it give a property of a primitive for the
 * compiler of fold programs, mark a flag, or name the enumeration of the value.
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
	CCP_MAX_PROGRAMS = 1024, /* index 0 means "no program": the fallback */
	CCP_MAX_NAMES = 64, /* congestion-control names registered simultaneously */
	CCP_MAX_EXTENSIONS = 4,
	CCP_MAX_FLOWS = 65536,
	CCP_MAGIC_PRIM =
		0x0ccb0100, /* plus the primitive's index: a constant that occurs nowhere else (fold.bpf.c) */
	CCP_NAME_LEN = 16, /* TCP_CA_NAME_MAX, including the final zero */
	CCP_MIN_CWND_PKTS = 2,
	CCP_MAX_MOVING = 1024, /* sockets that change programs simultaneously: about one per processor */
	CCP_STATS_INTERVAL_US = 10000,
};

/*
 * Primitives: CCP's fifteen in portus' (alphabetical) order, then ccplane's own. Indices into ccp_fold.prim; the last ones,
 * of in-band telemetry, are in ccp_flow.inband, at the index minus CCP_INT_AGE_US.
 */
enum ccp_prim {
	CCP_ACK_BYTES_ACKED, /**< Acknowledged in order [bytes]. */
	CCP_ACK_BYTES_MISORDERED, /**< Newly acknowledged out of order, by SACK [bytes]. */
	CCP_ACK_ECN_BYTES, /**< Acknowledged with an ECN echo; with AccECN, marked [bytes]. */
	CCP_ACK_ECN_PACKETS, /**< Delivered with an ECN echo; with AccECN, marked [packets]. */
	CCP_ACK_LOST_PKTS_SAMPLE, /**< Newly marked lost [packets]. */
	CCP_ACK_NOW, /**< The datapath's clock [us]. */
	CCP_ACK_PACKETS_ACKED, /**< Acknowledged in order [packets]. */
	CCP_ACK_PACKETS_MISORDERED, /**< Newly acknowledged out of order [packets]. */
	CCP_FLOW_BYTES_IN_FLIGHT, /**< Sent and neither delivered nor marked lost [bytes]. */
	CCP_FLOW_BYTES_PENDING, /**< In the socket's send buffer, not yet acknowledged [bytes]. */
	CCP_FLOW_PACKETS_IN_FLIGHT, /**< Sent and neither delivered nor marked lost [packets]. */
	CCP_FLOW_RATE_INCOMING, /**< Rate at which data arrived at the receiver [bytes/s]. */
	CCP_FLOW_RATE_OUTGOING, /**< Rate at which data was sent [bytes/s]. */
	/* libccp's value. */
	CCP_FLOW_RTT_SAMPLE_US, /**< sampled: RTT sample [us]; 4294967295 if this ACK gives none. */
	CCP_FLOW_WAS_TIMEOUT, /**< flag: The fold runs because of a retransmission timeout, not because of an ACK. */
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
	CCP_FLOW_LOCAL_CONGESTION, /**< Times that a queue of this host refused a packet since the last fold. */
	CCP_FLOW_ECN_OK, /**< flag: ECN was negotiated. */
	CCP_FLOW_DELIVERED_BYTES, /**< Acknowledged in order since the connection began [bytes]. */
	CCP_FLOW_SENT_BYTES, /**< Sent since the connection began, without retransmissions [bytes]. */
	CCP_FLOW_PRIOR_DELIVERED, /**< `Flow.delivered` when the newest packet that this ACK delivers was sent [packets]; 0 if it delivers none. */
	CCP_FLOW_PRIOR_IN_FLIGHT, /**< `Flow.packets_in_flight` before this ACK [packets]; 0 after a timeout. */
	CCP_FLOW_RATE_ALLOWED, /**< Rate limit set by an extension of the datapath [bytes/s]; 0 if there is none. */
	CCP_INT_AGE_US, /**< huge: Time since the packet of the last echo left this host [us]; all ones without echoes. */
	CCP_INT_FRESH, /**< flag: This ACK brought a new echo. */
	CCP_INT_HOP, /**< Position of the hop with the longest queueing delay, counted from 1 at the sender. */
	CCP_INT_NODE, /**< Id of the described hop. */
	CCP_INT_HOPS, /**< Number of hops that reported. */
	CCP_INT_ALL_KNOWN, /**< flag: Every hop of the path reports the length and the free room of its queue. */
	CCP_INT_QUEUE_BYTES, /**< Queue length of the described hop, in full-size packets [bytes]. */
	CCP_INT_FREE_BYTES, /**< huge: Free room in the queue of the described hop, in full-size packets [bytes]; all ones if unlimited, 0 if unknown. */
	CCP_INT_ARRIVAL_BYTES_PER_S, /**< Arrival rate of all flows at the described hop [bytes/s]. */
	CCP_INT_LINK_BYTES_PER_S, /**< Rate at which the described hop's queue drains [bytes/s]; 0 if unknown. */
	CCP_INT_FLOW_COUNT, /**< Number of flows at the described hop; 0 if unknown. */
	CCP_INT_LOSSES_CONGESTION, /**< Packets dropped by nodes' queues since the flow began [packets]. */
	CCP_INT_LOSSES_LINK, /**< Packets lost on links between reporting nodes since the flow began [packets]. */
	CCP_INT_LOSSES_UNKNOWN, /**< Packets lost near nodes that do not report, since the flow began [packets]. */
	CCP_PRIM_COUNT,
};

/* Indices into ccp_fold.impl, in libccp's order. */
enum ccp_impl {
	CCP_IMPL_EVENT_FLAG,
	CCP_IMPL_SHOULD_CONTINUE,
	CCP_IMPL_SHOULD_REPORT,
	CCP_IMPL_MICROS,
	CCP_IMPL_CWND, /* [bytes] */
	CCP_IMPL_RATE, /* [bytes/s], 0 = not paced by the algorithm */
	CCP_IMPL_COUNT,
};

/* Values of ccp_flow.fold_error: libccp's errors. */
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
	CCP_REPORT_FOLD_ERROR = 2, /**< An arithmetic error aborted the fold program since the last report. */
};

/* Records are copied to the agent unchanged, so they have no gaps. */
#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Head of every ring-buffer record. In reports and messages of extensions n_fields u64 follow. */
struct ccp_record {
	__u32 kind;
	__u32 age_us; /* of a report: time from its ACK to its submission */
	__u64 flow_id; /**< Id of the flow. */
	__u64 now_us; /**< Time at which the fold program made the report [us]. */
	__u64 cwnd_bytes; /**< Window after the fold [bytes]. */
	__u64 rate_bytes_per_s; /**< Pacing rate after the fold [bytes/s]; 0 if the algorithm does not pace. */
	__u16 program; /* index in the program table; in a message of an extension: the extension's index */
	__u16 stamp; /* of the update that set the flow's program */
	__u32 program_uid; /* uid of the program that filled the registers */
	__u32 missed; /**< Number of earlier reports that found no room and are summed up in this one. */
	__u16 n_fields;
	__u16 flags; /**< Bits of enum ccp_record_flags. */
};

#pragma clang diagnostic pop

enum ccp_flow_state {
	CCP_FLOW_FREE,
	CCP_FLOW_ACTIVE,
	CCP_FLOW_REAPED, /* reclaimed by the agent: the slot becomes free once no program can still use it */
};

/* Reasons why a socket has no slot. */
enum ccp_no_slot {
	CCP_NO_SLOT_LIMIT = 1, /* all slots are taken */
	CCP_NO_SLOT_QUOTA, /* its user or its cgroup has reached its quota */
	CCP_NO_SLOT_CAUSES = 4, /* array size, a power of two */
};

/* Holders of slots, if there are quotas. */
enum ccp_holder_kind {
	CCP_HOLDER_USER = 1, /* bits of ccp_flow_info.held */
	CCP_HOLDER_CGROUP = 2,
};

struct ccp_holder {
	__u64 id; /* uid, or cgroup id */
	__u32 kind; /* enum ccp_holder_kind */
	__u32 takes; /* in a request of the agent: 1 adds a slot, 0 removes one; 0 in map keys */
};

/* What both ends agreed on at connection setup. */
enum ccp_ecn_mode {
	CCP_ECN_NONE,
	CCP_ECN_RFC3168,
	CCP_ECN_ACCECN,
};

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Addresses are IPv6, IPv4-mapped for IPv4 (::ffff:a.b.c.d). Ports are in host order. */
struct ccp_flow_info {
	__u8 saddr[16];
	__u8 daddr[16];
	__u16 sport;
	__u16 dport;
	__u16 family; /* AF_INET or AF_INET6 of the socket */
	__u16 ecn_mode; /* enum ccp_ecn_mode */
	__u32 mss;
	__u32 init_cwnd_bytes;
	__u32 cc_id; /* registered name that the socket chose */
	__u32 netns_inum;
	__u64 cgroup_id;
	__u64 created_us;
	__u64 sock_cookie; /* 0 if the kernel has not assigned one */
	__u32 uid; /* of the socket's creator */
	__u32 held; /* bits of enum ccp_holder_kind: where the flow is counted in holders */
};

#pragma clang diagnostic pop

/*
 * The agent's update for one flow. `owner` passes it: the agent changes EMPTY or FULL to WRITING, the kernel FULL to
 * READING, both by compare-and-exchange. So neither side sees half an update, and an update that has not been fetched is
 * extended, not replaced.
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
	CCP_MAIL_PROGRAM = 4, /* 0 hands the flow to the fallback */
	CCP_MAIL_EXTENSIONS = 8,
};

/*
 * Extensions: separate BPF objects, loaded when an algorithm asks for them. The core calls those whose bit is set in the
 * flow (extension.h), by their index in the core's program tables. Only agents use this table.
 */
struct ccp_extension {
	char name[CCP_NAME_LEN];
	__u64 version; /* hash of the object; 0: the index is free */
};

/* Head of the agent's message to an extension, which follows it; passed like struct ccp_mailbox. */
struct ccp_extension_mail {
	__u64 flow_id;
	__u32 owner; /* enum ccp_mail_owner */
	__u32 n_bytes; /* size of the message; 0: detach the extension from the flow */
};

struct ccp_mailbox {
	__u32 owner;
	__u32 what;
	__u64 flow_id; /* an update that reaches another flow in the same slot is discarded */
	__u16 program;
	__u16 stamp; /* returned in the reports of this program */
	__u32 extensions; /* bits to set in addition to those already set */
	__u64 cwnd_bytes;
	__u64 rate_bytes_per_s;
	__u64 control_mask; /* bit i: control[i] below is new */
	__u64 answered_us; /* time of the last report that the agent has handled; not passed by `owner` */
	__u64 control[CCP_MAX_CONTROL];
};

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Totals from the socket, refreshed every CCP_STATS_INTERVAL_US while ACKs arrive, and at the end of the flow. */
struct ccp_stats {
	__u64 now_us; /**< Time of the ACK at which the totals were last updated [us]. */
	__u64 cwnd_bytes; /**< Window [bytes]. */
	__u64 bytes_acked; /**< Bytes cumulatively acknowledged. */
	__u64 bytes_retrans; /**< Bytes retransmitted. */
	__u64 pacing_rate_bytes_per_s; /**< Pacing rate of the socket, even if the kernel sets it [bytes/s]. */
	__u64 acks; /**< ACKs that the datapath processed. */
	__u32 mss_bytes; /**< Maximum segment size [bytes]. */
	__u32 srtt_us; /**< Smoothed RTT [us]. */
	__u32 min_rtt_us; /**< Minimum RTT [us]. */
	__u32 delivered_pkts; /**< Segments delivered. */
	__u32 lost_pkts; /**< Segments marked lost. */
	__u32 retrans_pkts; /**< Segments retransmitted. */
	__u32 packets_in_flight; /**< Segments sent and neither delivered nor marked lost. */
	__u32 ca_state; /**< State of loss recovery: 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss. */
	__u32 snd_ssthresh_pkts; /**< Slow-start threshold of the socket [packets]. */
	__u32 spare;
};

#pragma clang diagnostic pop

/*
 * Why the fallback has a flow, or had it last. The last two are the agent's: it sets the flow's program to 0, and the
 * update's stamp is added to CCP_FALLBACK_NO_PROGRAM.
 */
enum ccp_fallback_cause {
	CCP_FALLBACK_NEW, /**< No agent has set its program yet. */
	CCP_FALLBACK_SILENT, /**< The agent's heartbeat was too old. */
	CCP_FALLBACK_UNANSWERED, /**< The agent did not handle a report of the flow in time. */
	CCP_FALLBACK_UNINSTALLED, /**< Its program was removed. */
	CCP_FALLBACK_NO_PROGRAM, /**< Its algorithm set no program. */
	CCP_FALLBACK_FAILED, /**< Its algorithm raised an exception. */
	CCP_FALLBACK_CAUSES = 8, /* array size, a power of two */
};

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Totals of ccplane's own actions for the flow. */
struct ccp_counts {
	__u64 reports; /**< Reports sent. */
	__u64 reports_missed; /**< Reports that found no room and were summed up in later ones. */
	__u64 mail_applied_us; /**< Time at which the last update was applied [us]; 0 before the first update. */
	__u64 fallback_entered_us; /**< Time at which the fallback last took over the flow [us]. */
	__u64 fallback_left_us; /**< Time at which the fallback then returned the flow [us]; 0 while the fallback has the flow. */
	__u32 mail_applied; /**< Updates applied; several written before an ACK count once. */
	__u32 fold_errors; /**< Folds aborted by an arithmetic error. */
	__u32 last_fold_error; /**< The last arithmetic error, of enum ccp_fold_error; 0 if there was none. */
	__u32 fallback_entries; /**< Number of times that the fallback took over. */
	__u32 fallback_cause; /**< ccp_fallback_cause: Why the fallback has the flow, or had it last. */
	__u32 local_congestion; /**< Times that a queue of this host refused a packet. */
	__u32 timeouts; /**< Retransmission timeouts. */
	__u32 spare;
};

#pragma clang diagnostic pop

/* Working state of a fold in addition to the flow: on the stack of the program, for one ACK. */
struct ccp_fold {
	__u64 impl[CCP_IMPL_COUNT];
	__u64 prim[CCP_INT_AGE_US]; /* those that the fold reads */
};

/*
 * One flow. Members used on every ACK come first, in two cache lines: on a busy machine the lines are cold, and each costs
 * more than the arithmetic. The second line ends with the head of the mailbox.
 */
struct ccp_flow {
	__u64 flow_id; /**< Id of the flow: generation << 32 | slot, never reused. */
	__u32 state; /* enum ccp_flow_state */
	__u32 fallback; /**< flag: The fallback controls the flow. */
	__u32 program; /**< Handle of the program that the flow runs; 0 without a program. */
	__u32 extensions; /* bits of the extensions that are called for this flow */
	__u32 applied_pkts; /* snd_cwnd as last written by ccplane */
	__u32 fold_error; /* set by a fold that fails, cleared when counted */
	__u64 cwnd_bytes; /* the algorithm's window, including bytes that make no full packet */
	__u64 cwnd_floor_bytes; /* snd_cwnd in bytes: nothing is applied while Cwnd is within one segment above */
	__u64 rate_bytes_per_s; /**< Pacing rate set by the algorithm [bytes/s]; 0 without pacing. */
	__u64 time_zero_us; /* start of Micros */

	__u64 last_bytes_acked;
	__u32 last_sacked_out;
	__u32 last_lost;
	__u32 last_delivered;
	__u32 local_congestion; /* since the last fold */
	__u64 pace_cap_bytes_per_s; /* bounds set by extensions; 0 and all ones: none */
	__u64 cwnd_cap_bytes;
	__u64 stats_due_us; /* earliest time of the next stats */
	__u64 acks;
	struct ccp_mailbox mail;

	struct ccp_flow_info info;
	__u64 rate_allowed_bytes_per_s; /* limit by an extension; 0: none */
	__u64 rate_incoming_bytes_per_s; /* of the last valid rate sample */
	__u64 rate_outgoing_bytes_per_s;
	__u32 last_delivered_ce;
	__u32 last_ecn_bytes; /* reported of the marked bytes that an AccECN receiver counted */
	__u32 missed; /* reports folded into the next one; while the flow waits for an answer: its announcement found no room */
	__u32 report_flags; /* enum ccp_record_flags for the next report */
	__u32 reads_marks; /* bits of prims_used: the primitives of ECN marks that the program in use reads */
	__u64 asked_us; /* time of the report, or announcement, whose answer is awaited (answers.h) */
	__u64 missing_us; /* time of the first report of `missed` */
	__u64 finish[CCP_IMPL_COUNT]; /* results of a fold for ccp_finish_* */
	struct ccp_counts counts;
	struct ccp_stats stats;

	__u64 echo_left_us; /* time at which the packet of the last echo left this host; 0: no echo */
	__u64 inband[CCP_PRIM_COUNT -
		     CCP_INT_AGE_US]; /* content of the last echo; fresh until a fold has run */

	__u64 control[CCP_MAX_CONTROL];
	__u64 local[CCP_MAX_LOCAL];
	struct ccp_record record; /* directly before report: both are sent in one copy */
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

/* What the kernel side needs to know about a program besides its code. */
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
 * A registered congestion-control name; its index is ccp_flow_info.cc_id. Only agents use this table, including those of
 * other versions: do not change it.
 */
struct ccp_name {
	char name[CCP_NAME_LEN];
	__u32 registered;
	__u32 needs_ecn;
};

/* State that a socket takes from its programs to their replacement (leave.h). */
struct ccp_moving {
	__u64 state[5]; /* struct ccp_sk */
};

/*
 * Do not change the members up to goes_to: agents of later versions use them in a datapath that they replace. Members read
 * on every ACK are in the first cache line.
 */
struct ccp_globals {
	__u32 abi_version;
	__u32 max_flows;
	__u64 build_hash; /* of the programs */
	__u64 layout_hash; /* of the layout shared with the agent and with each other */
	/* written by agents */
	__u64 heartbeat_us;
	__u64 heartbeat_timeout_us;
	__u64 looks_at_us; /* until then reports do not wake the agent, which polls at that time */
	__u32 load; /* number of the program copies in use; 0: they were replaced */
	__u32 leaves; /* sockets of other copies move if their slot1 is at most this */
	__u32 agent_pid; /* 0: it ended to let its successor take over */
	__u32 successor; /* process id of an agent that wants to take over; 0: none */
	char goes_to[CCP_NAME_LEN]; /* congestion control that moving sockets get; empty: the same name */
	__u64 max_cwnd_bytes;
	__u64 report_timeout_us;
	__u32 flows_per_user; /* slot quotas; 0: none */
	__u32 flows_per_cgroup;
	/* written by the kernel side */
	__u64 generation __attribute__((aligned(64)));
	__u64 flows_active;
	__u64 flows_over_limit; /**< Sockets that found no free slot and use the fallback. */
	__u64 flows_over_quota; /**< Sockets over the quota of their user or cgroup, which use the fallback. */
	__u64 without_slot[CCP_NO_SLOT_CAUSES]; /* sockets without a slot at present, by cause */
	__u64 flows_reaped; /**< Silent flows whose slots were reclaimed because slots were scarce. */
	__u64 slots_not_returned; /**< Slots that the kernel could not return when their flows ended; the agent does. */
	__u64 reports_missed; /**< Reports that found no room, and were summed up in later ones. */
	__u64 creates_missed; /**< Events of new flows lost for lack of room. */
	__u64 closes_missed; /**< Events of closed flows lost for lack of room. */
	__u64 fold_errors; /**< Folds aborted by an arithmetic error. */
	__u64 fallback_entries
		[CCP_FALLBACK_CAUSES]; /* flows that the fallback took over from an agent, by cause */
};

#endif
