// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's CUBIC and BBR (version 1) as separate congestion controls that stay within the token bucket that limits a
 * client. Each hook calls the kernel's function and bounds its result.
 */
#include "clients.h"
#include "bbr.h"
#include "chosen.h"
#include "cubic.h"
#include "dropped.h"
#include "recorded.h"
#include <bpf/bpf_tracing.h>

#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define NO_MAX_RATE 0xffffffffU /* setsockopt's value for no limit */

/* Written by the loader; the only constant of the programs, so it is all of .rodata. */
const volatile struct rtcp_config config = {};

/* Read through assembly, so that the compiler does not assume the zeros above. */
static __always_inline const struct rtcp_options *the_options(void)
{
	const void *options = (const void *)&config.options;

	asm volatile("" : "+r"(options));
	return options;
}

/* A socket with one of these congestion controls. */
struct rtcp_sock {
	struct rtcp_flow flow;
	u64 own_max_rate; /* the application's pacing limit */
	u32 our_max_rate; /* the pacing limit set here; 0: none */
	u8 was_unpaced;
	u8 sought; /* enum rtcp_seeking: the limiter's request at the last ACK */
	u8 leaves; /* bool: no rule selects it, it leaves at its next ACK */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rtcp_sock);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} rows SEC(".maps");

static __always_inline void rtcp_event(struct rtcp_flow *flow, struct rtcp_client *client, u64 now_us)
{
	struct rtcp_row *row;

	if (client_verdict(client) == client->reported)
		return;
	row = bpf_ringbuf_reserve(&rows, sizeof(*row), 0);
	if (!row) {
		count_dropped();
		return;
	}
	client_row(row, flow, client, now_us);
	client->reported = row->verdict;
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP); /* the reader polls */
}

static __always_inline struct rtcp_sock *rtcp_sk(struct sock *sk)
{
	struct rtcp_sock *own = bpf_sk_storage_get(&sockets, sk, 0, 0);

	return own && !own->leaves ? own : NULL;
}

static __always_inline void begin(struct sock *sk)
{
	struct rtcp_sock *own = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!own)
		return;
	/* The pacing limit is kept: the socket may have it from an earlier use of these programs. */
	flow_begin(sk, &own->flow, the_options());
	own->sought = 0;
	own->leaves = 0;
	flow_join(sk, &own->flow, the_options());
}

static __always_inline bool leaves(struct sock *sk)
{
	struct rtcp_sock *own = bpf_sk_storage_get(&sockets, sk, 0, 0);

	return own && own->leaves;
}

/*
 * The connection begins, or has just selected these programs. Listeners and namespace defaults may keep replaced programs:
 * their connections move to the new ones. Sockets that no rule selects move to the kernel's own congestion control. A socket
 * switched by a program cannot move immediately (EBUSY), but moves at its next ACK.
 */
static __always_inline bool goes(struct sock *sk, char *name, char *original)
{
	struct rtcp_sock *own;

	if (!is_current(config.load) && go(sk, name))
		return true;
	if (!config.n_rules || is_chosen(sk, config.n_rules, config.others)) {
		begin(sk);
		return false;
	}
	if (go(sk, original))
		return true;
	own = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (own)
		own->leaves = 1;
	return false;
}

static __always_inline void on_tx_start(struct sock *sk, struct rtcp_sock *own)
{
	if (tcp_sk(sk)->app_limited && flow_start(sk, &own->flow, the_options()) && config.records)
		record(sk, true);
}

static __always_inline void on_ack(struct sock *sk, struct rtcp_sock *own)
{
	if (flow_ack(sk, &own->flow, the_options()) && config.records)
		record(sk, false);
}

static __always_inline void cwnd_within(struct sock *sk, u32 pkts)
{
	if (tcp_sk(sk)->snd_cwnd > pkts)
		tcp_sk(sk)->snd_cwnd = pkts;
}

static __always_inline u64 pacing_cap(const struct rtcp_flow *flow)
{
	return rtcp_share(flow->rate_bytes_per_s, config.options.margin_ratio_ppm);
}

/* --- CUBIC ---------------------------------------------------------------------------------------------------- */

static __always_inline void set_max_rate(struct sock *sk, u64 rate)
{
	u32 value = rate < NO_MAX_RATE ? rate : NO_MAX_RATE;

	bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value));
}

static __always_inline void pace_no_more(struct sock *sk, const struct rtcp_sock *own)
{
	if (own->was_unpaced && own->own_max_rate >= NO_MAX_RATE && sk->sk_pacing_status == SK_PACING_NEEDED)
		sk->sk_pacing_status = SK_PACING_NONE;
}

/*
 * The kernel computes CUBIC's pacing rate itself, after cong_avoid, up to the limit that an application may set. That limit
 * is used while the flow is capped; then the application's own limit is restored.
 */
static __always_inline void pace(struct sock *sk, struct rtcp_sock *own)
{
	u64 rate = config.options.pace_cubic ? pacing_cap(&own->flow) : 0, max_rate = sk->sk_max_pacing_rate;

	if (!rate && !own->our_max_rate)
		return;
	if (!rate) {
		if (max_rate == own->our_max_rate) /* else the application has changed it */
			set_max_rate(sk, own->own_max_rate);
		pace_no_more(sk, own);
		own->our_max_rate = 0;
		return;
	}
	if (!own->our_max_rate)
		own->was_unpaced = sk->sk_pacing_status == SK_PACING_NONE;
	if (max_rate != own->our_max_rate)
		own->own_max_rate = max_rate;
	rate = rtcp_min(rtcp_min(rate, own->own_max_rate), NO_MAX_RATE - 1);
	if (rate != max_rate)
		set_max_rate(sk, rate);
	own->our_max_rate = rate;
}

/* Maximum window of CUBIC in packets; without pacing, the window for the rate would be too small. */
static __always_inline u32 max_pkts(struct sock *sk, const struct rtcp_sock *own)
{
	bool paced = config.options.pace_cubic;

	return own ? flow_window(tcp_sk(sk), &own->flow, paced ? config.options.floor_pkts : 2, paced)
		   : NO_WINDOW;
}

SEC("struct_ops")
void BPF_PROG(cubic_init, struct sock *sk)
{
	char name[NAME_BYTES] = "rtcp_cubic", original[NAME_BYTES] = "cubic";

	if (!goes(sk, name, original))
		cubictcp_init(sk);
}

SEC("struct_ops")
void BPF_PROG(cubic_release, struct sock *sk)
{
	struct rtcp_sock *own = rtcp_sk(sk);

	if (!own)
		return;
	/* setsockopt is not allowed here, so the pacing limit stays; without pacing it has no effect. */
	if (own->our_max_rate)
		pace_no_more(sk, own);
	flow_leave(sk, &own->flow, the_options());
}

SEC("struct_ops")
u32 BPF_PROG(cubic_ssthresh, struct sock *sk)
{
	u32 ssthresh = cubictcp_recalc_ssthresh(sk), maximum = max_pkts(sk, rtcp_sk(sk));

	return ssthresh < maximum ? ssthresh : maximum;
}

SEC("struct_ops")
u32 BPF_PROG(cubic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(cubic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	cubictcp_cong_avoid(sk, ack, acked);
	cwnd_within(sk, max_pkts(sk, rtcp_sk(sk)));
}

/* Called for every ACK. Before 6.15 tp->delivered is not updated yet, so this ACK's deliveries count at the next one. */
SEC("struct_ops")
void BPF_PROG(cubic_in_ack_event, struct sock *sk, u32 flags)
{
	struct rtcp_sock *own = rtcp_sk(sk);
	char original[NAME_BYTES] = "cubic";

	if (!own) {
		if (leaves(sk))
			go(sk, original);
		return;
	}
	on_ack(sk, own);
	pace(sk, own);
	if (tcp_ca_state(tcp_sk(sk)) > TCP_CA_Disorder)
		return;
	if (own->flow.seeks && !own->sought)
		tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH; /* slow start, within the bound */
	own->sought = own->flow.seeks;
	cwnd_within(sk, max_pkts(sk, own));
}

SEC("struct_ops")
void BPF_PROG(cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubictcp_acked(sk, sample);
}

SEC("struct_ops")
void BPF_PROG(cubic_set_state, struct sock *sk, u8 new_state)
{
	cubictcp_state(sk, new_state);
	/* It becomes the window. For how it can be less, see docs/kernels.md. */
	if (tcp_sk(sk)->snd_ssthresh < 2)
		tcp_sk(sk)->snd_ssthresh = 2;
}

static __always_inline void cubic_tx_start(struct sock *sk)
{
	struct rtcp_sock *own = rtcp_sk(sk);

	if (!own)
		return;
	on_tx_start(sk, own);
	pace(sk, own);
	cwnd_within(sk, max_pkts(sk, own));
}

SEC("struct_ops")
void BPF_PROG(cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	cubictcp_cwnd_event(sk, event);
	if (event == CA_EVENT_TX_START)
		cubic_tx_start(sk);
}

SEC("struct_ops")
void BPF_PROG(cubic_cwnd_event_tx_start, struct sock *sk)
{
	cubictcp_cwnd_event_tx_start(sk);
	cubic_tx_start(sk);
}

/* --- BBR ------------------------------------------------------------------------------------------------------ */

static __always_inline void bound_rate(struct sock *sk, const struct rtcp_sock *own)
{
	u64 maximum;

	if (!own->flow.rate_bytes_per_s)
		return;
	maximum = pacing_cap(&own->flow);
	if (sk->sk_pacing_rate > maximum)
		sk->sk_pacing_rate = maximum;
	/* The rate is the bound; but half a window may leave in a burst. */
	cwnd_within(sk, flow_window(tcp_sk(sk), &own->flow, config.options.floor_pkts, true));
}

/* BBR's own detection of policers would bound the rate by its own estimate (section 4.4). */
static __always_inline struct rtcp_sock *before_bbr(struct sock *sk)
{
	struct rtcp_sock *own = rtcp_sk(sk);

	if (!own)
		return NULL;
	on_ack(sk, own);
	if (own->flow.limited || own->flow.suspected)
		bbr_forget_policer(sk);
	if (own->flow.seeks == RTCP_SEEKS_A_LITTLE)
		bbr_probe(sk);
	else if (own->flow.seeks)
		bbr_start_up(sk);
	else if (own->sought == RTCP_SEEKS_MUCH && own->flow.rate_bytes_per_s)
		bbr_drain(sk);
	own->sought = own->flow.seeks;
	return own;
}

SEC("struct_ops")
void BPF_PROG(rtcp_bbr_init, struct sock *sk)
{
	char name[NAME_BYTES] = "rtcp_bbr", original[NAME_BYTES] = "bbr";

	if (!goes(sk, name, original))
		bbr_init(sk);
}

SEC("struct_ops")
void BPF_PROG(rtcp_bbr_release, struct sock *sk)
{
	struct rtcp_sock *own = rtcp_sk(sk);

	if (own)
		flow_leave(sk, &own->flow, the_options());
}

SEC("struct_ops")
void BPF_PROG(rtcp_bbr_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct rtcp_sock *own = before_bbr(sk);
	char original[NAME_BYTES] = "bbr";

	if (!own && leaves(sk) && go(sk, original))
		return;
	bbr_main(sk, ack, flag, rs);
	if (own)
		bound_rate(sk, own);
}

SEC("struct_ops")
void BPF_PROG(rtcp_bbr_cong_control_6_9, struct sock *sk, const struct rate_sample *rs)
{
	struct rtcp_sock *own = before_bbr(sk);
	char original[NAME_BYTES] = "bbr";

	if (!own && leaves(sk) && go(sk, original))
		return;
	bbr_main___6_9(sk, rs);
	if (own)
		bound_rate(sk, own);
}

static __always_inline void rtcp_bbr_tx_start(struct sock *sk)
{
	struct rtcp_sock *own = rtcp_sk(sk);

	if (!own)
		return;
	on_tx_start(sk, own);
	bound_rate(sk, own);
}

SEC("struct_ops")
void BPF_PROG(rtcp_bbr_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	bbr_cwnd_event(sk, event);
	if (event == CA_EVENT_TX_START)
		rtcp_bbr_tx_start(sk);
}

SEC("struct_ops")
void BPF_PROG(rtcp_bbr_cwnd_event_tx_start, struct sock *sk)
{
	bbr_cwnd_event_tx_start(sk);
	rtcp_bbr_tx_start(sk);
}

SEC("struct_ops")
void BPF_PROG(rtcp_bbr_set_state, struct sock *sk, u8 new_state)
{
	bbr_set_state(sk, new_state);
}

SEC("struct_ops")
u32 BPF_PROG(rtcp_bbr_ssthresh, struct sock *sk)
{
	return bbr_ssthresh(sk);
}

SEC("struct_ops")
u32 BPF_PROG(rtcp_bbr_undo_cwnd, struct sock *sk)
{
	return bbr_undo_cwnd(sk);
}

SEC("struct_ops")
u32 BPF_PROG(rtcp_bbr_sndbuf_expand, struct sock *sk)
{
	return bbr_sndbuf_expand(sk);
}

/* --- registration: per congestion control, the loader takes the variant that fits the kernel -------------------- */

/* All members of all supported kernels: libbpf drops those that are zero and unknown to the running kernel. */
struct tcp_congestion_ops___rtcp {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*cwnd_event_tx_start)(struct sock *sk);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	char name[16];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#define CUBIC                                                                               \
	.ssthresh = (void *)cubic_ssthresh, .cong_avoid = (void *)cubic_cong_avoid,         \
	.set_state = (void *)cubic_set_state, .in_ack_event = (void *)cubic_in_ack_event,   \
	.pkts_acked = (void *)cubic_pkts_acked, .undo_cwnd = (void *)cubic_undo_cwnd,       \
	.init = (void *)cubic_init, .release = (void *)cubic_release, .name = "rtcp_cubic", \
	.flags = TCP_CONG_NON_RESTRICTED

/*
 * Without BBR's min_tso_segs: some kernels occasionally get a number that no program returned (docs/kernels.md). As a number
 * of segments that is fatal: large bursts, or a segment of length 0, which is never acknowledged, so that the connection
 * hangs. So there are two segments where BBR would send one, below 1.2 Mbit/s.
 */
#define BBR                                                                                       \
	.ssthresh = (void *)rtcp_bbr_ssthresh, .set_state = (void *)rtcp_bbr_set_state,           \
	.undo_cwnd = (void *)rtcp_bbr_undo_cwnd, .sndbuf_expand = (void *)rtcp_bbr_sndbuf_expand, \
	.init = (void *)rtcp_bbr_init, .release = (void *)rtcp_bbr_release, .name = "rtcp_bbr",   \
	.flags = TCP_CONG_NON_RESTRICTED

SEC(".struct_ops.link")
struct tcp_congestion_ops___rtcp cubic_7_0 = {CUBIC, .cwnd_event = (void *)cubic_cwnd_event};

SEC(".struct_ops.link")
struct tcp_congestion_ops___rtcp cubic_7_1 = {CUBIC,
					      .cwnd_event_tx_start = (void *)cubic_cwnd_event_tx_start};

SEC(".struct_ops.link")
struct tcp_congestion_ops___rtcp bbr_6_9 = {
	BBR,
	.cwnd_event = (void *)rtcp_bbr_cwnd_event,
	.cong_control = (void *)rtcp_bbr_cong_control_6_9,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops___rtcp bbr_7_0 = {
	BBR,
	.cwnd_event = (void *)rtcp_bbr_cwnd_event,
	.cong_control = (void *)rtcp_bbr_cong_control,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops___rtcp bbr_7_1 = {
	BBR,
	.cwnd_event_tx_start = (void *)rtcp_bbr_cwnd_event_tx_start,
	.cong_control = (void *)rtcp_bbr_cong_control,
};

char LICENSE[] SEC("license") = "GPL";
