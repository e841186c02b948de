// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the segments that arrive on each open TCP connection of a namespace: their number, those with CE, those
 * retransmitted, and the delay of each above the minimum. The kernel holds the socket's lock, so there is one segment at a
 * time.
 *
 * One-way delay is the arrival on the local clock minus the departure on the sender's clock, by its timestamp option (RFC
 * 7323). The clocks share only their pace, so only differences are meaningful: the delay above the minimum of the last
 * seconds. The minimum is windowed, because clocks drift apart and paths change.
 */
#include "kernel.h"
#include "addresses.h"
#include "arrivals.h"
#include "dropped.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define NSEC_PER_USEC 1000ULL
#define NEVER ((s64)(~0ULL >> 1))
#define TCP_HEADER_BYTES 20
#define TCP_OPTIONS_BYTES 40
#define TSOPT 8
#define TSOPT_BYTES 10
#define NOP_NOP_TSOPT 0x0101080a
#define CE 3

/* A tick is 1 us or 1 ms: distinguishable after this time, and checked after this time. */
#define TICK_KNOWN_US 20000
#define TICK_CHECKED_US 200000
#define TICK_BETWEEN_US 16

/* A segment that seems this much faster than all others has a false timestamp, unless others follow it. */
#define STRANGE_US 1000000
#define STRANGE_IN_A_ROW 4

const volatile struct arrivals_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* the socket's cookie */
	__type(value, struct tcp_arrivals);
} flows SEC(".maps");

/* A flow is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tcp_arrivals);
} blank SEC(".maps");

static __always_inline bool here(struct sock *sk)
{
	return sk->__sk_common.skc_net.net->ns.inum == config.netns;
}

static __always_inline struct tcp_arrivals *flow_of(struct sock *sk)
{
	u64 cookie = bpf_get_socket_cookie(sk);
	struct tcp_arrivals *flow = bpf_map_lookup_elem(&flows, &cookie), *empty;
	u32 zero = 0;

	if (flow)
		return flow;
	empty = bpf_map_lookup_elem(&blank, &zero);
	if (!empty)
		return NULL;
	bpf_map_update_elem(&flows, &cookie, empty, BPF_NOEXIST);
	flow = bpf_map_lookup_elem(&flows, &cookie);
	if (!flow) {
		count_dropped();
		return NULL;
	}
	flow->cookie = cookie;
	flow->sport = sk->__sk_common.skc_num;
	flow->dport = bpf_ntohs(sk->__sk_common.skc_dport);
	put_addresses(flow->saddr, flow->daddr, sk);
	return flow;
}

static __always_inline u8 ecn_of(struct sk_buff *skb)
{
	u8 ip[2] = {};

	bpf_probe_read_kernel(ip, sizeof(ip), skb->head + skb->network_header);
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return ip[1] & 3;
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return ip[1] >> 4 & 3;
	return 0;
}

/* Number of segments that the card or the stack merged into this one. */
static __always_inline u32 segs_of(struct sk_buff *skb, u32 header_bytes)
{
	struct skb_shared_info *shared = (void *)(skb->head + skb->end);
	u32 bytes = skb->len;
	u16 merged = 0, size = 0;
	u32 segs = 1;

	if (bytes <= header_bytes)
		return 1;
	bpf_core_read(&size, sizeof(size), &shared->gso_size);
	if (size)
		segs = (bytes - header_bytes + size - 1) / size;
	bpf_core_read(&merged, sizeof(merged), &shared->gso_segs); /* virtual cards do not report it */
	return merged > segs ? merged : segs;
}

/* Finds the timestamp if the options are in an unusual order. */
static __noinline bool find_timestamp(struct sk_buff *skb, u32 header_bytes, u32 *tsval)
{
	u8 options[64] = {};
	u32 end = header_bytes - TCP_HEADER_BYTES, at = 0;

	if (!tsval || header_bytes <= TCP_HEADER_BYTES || end > TCP_OPTIONS_BYTES)
		return false;
	barrier_var(end); /* older verifiers have forgotten the comparison */
	end &= sizeof(options) - 1;
	if (bpf_probe_read_kernel(options, end, skb->data + TCP_HEADER_BYTES))
		return false;
	for (int turn = 0; turn < TCP_OPTIONS_BYTES; turn++) {
		u8 kind, bytes;

		if (at + TSOPT_BYTES > end)
			return false;
		kind = options[at & 63];
		bytes = options[(at + 1) & 63];
		if (kind == 0)
			return false;
		if (kind == TSOPT && bytes == TSOPT_BYTES) {
			*tsval = (u32)options[(at + 2) & 63] << 24 | (u32)options[(at + 3) & 63] << 16 |
				 (u32)options[(at + 4) & 63] << 8 | options[(at + 5) & 63];
			return true;
		}
		if (kind != 1 && bytes < 2)
			return false;
		at += kind == 1 ? 1 : bytes;
	}
	return false;
}

/* The largest bin whose delays do not exceed this one. */
static __always_inline u32 bin_of(u64 us)
{
	u32 value = us >> ARRIVALS_BITS ? (1u << ARRIVALS_BITS) - 1 : us;
	u32 rest = value, top = 0, shift;

	if (value < ARRIVALS_STEPS)
		return value;
	for (u32 half = 16; half; half /= 2) {
		if (rest >> half) {
			rest >>= half;
			top += half;
		}
	}
	shift = top - ARRIVALS_STEP_BITS;
	return ((shift + 1) << ARRIVALS_STEP_BITS) + (value >> shift & (ARRIVALS_STEPS - 1));
}

static __always_inline void set_clocks(struct tcp_arrivals *flow, u32 tsval, u64 now_ns)
{
	flow->first_ns = now_ns;
	flow->window_ns = now_ns;
	flow->elapsed_us = 0;
	flow->ticks = 0;
	flow->tsval = tsval;
	flow->tick_us = 0;
	flow->strange = 0;
	flow->min_us[0] = 0; /* the first segment is the fastest so far */
	flow->min_us[1] = NEVER;
}

/* Determines the unit of a tick, if the clocks allow it. A burst does not: its timestamps are all the same. */
static __always_inline bool tick_known(struct tcp_arrivals *flow)
{
	bool fast = flow->ticks * TICK_BETWEEN_US > flow->elapsed_us;

	if (!flow->tick_us) {
		if (flow->elapsed_us < TICK_KNOWN_US)
			return false;
		flow->tick_us = fast ? 1 : 1000;
	}
	return flow->elapsed_us < TICK_CHECKED_US || fast == (flow->tick_us == 1);
}

static __always_inline void take_delay(struct tcp_arrivals *flow, u32 tsval, u64 now_ns, u32 segs)
{
	s64 ticks, delay_us, min_us;
	u64 elapsed_us;
	u32 bin;

	if (!flow->first_ns || now_ns - flow->newest_ns > ARRIVALS_IDLE_NS) {
		set_clocks(flow, tsval, now_ns);
		return;
	}
	elapsed_us = (now_ns - flow->first_ns) / NSEC_PER_USEC;
	ticks = (s64)flow->ticks + (s32)(tsval - flow->tsval);
	if (ticks > (s64)flow->ticks) {
		flow->ticks = ticks;
		flow->tsval = tsval;
	}
	flow->elapsed_us = elapsed_us;
	if (!tick_known(flow)) {
		if (flow->tick_us)
			set_clocks(flow, tsval, now_ns); /* it was wrong: start again */
		return;
	}
	delay_us = (s64)elapsed_us - ticks * flow->tick_us;

	if (now_ns - flow->window_ns >= config.minimum_ns) {
		bool long_ago = now_ns - flow->window_ns >= 2 * config.minimum_ns;

		flow->min_us[1] = long_ago ? NEVER : flow->min_us[0];
		flow->min_us[0] = NEVER;
		flow->window_ns = now_ns;
	}
	min_us = flow->min_us[0] < flow->min_us[1] ? flow->min_us[0] : flow->min_us[1];
	if (min_us != NEVER && delay_us < min_us - STRANGE_US) {
		if (++flow->strange >= STRANGE_IN_A_ROW)
			set_clocks(flow, tsval, now_ns);
		return;
	}
	flow->strange = 0;
	if (delay_us < flow->min_us[0])
		flow->min_us[0] = delay_us;
	if (delay_us < min_us)
		min_us = delay_us;
	bin = bin_of(delay_us - min_us);
	if (bin < ARRIVALS_BINS)
		flow->bins[bin] += segs;
}

/*
 * Whether a segment below the highest one was retransmitted, and not only late: then it was sent after one that follows it in
 * sequence. The nearest of those is the oldest, so it is the one to compare with.
 */
static __always_inline bool sent_again(struct tcp_arrivals *flow, u32 seq, u32 tsval)
{
	u32 nearest = flow->end_seq, after_tsval = flow->end_tsval;

	for (u32 i = 0; i < ARRIVALS_GAPS && i < flow->gaps; i++) {
		if ((s32)(flow->gap_seq[i] - seq) > 0 && (s32)(flow->gap_seq[i] - nearest) < 0) {
			nearest = flow->gap_seq[i];
			after_tsval = flow->gap_tsval[i];
		}
	}
	return (s32)(tsval - after_tsval) > 0;
}

static __always_inline void take_payload(struct tcp_arrivals *flow, u32 seq, u32 bytes, u32 tsval, u32 segs)
{
	u32 end_seq = seq + bytes;

	if (flow->has_end && (s32)(seq - flow->end_seq) < 0) {
		if (sent_again(flow, seq, tsval))
			flow->resent_segs += segs;
	} else if (flow->has_end && seq != flow->end_seq) {
		u32 place = flow->gaps++ & (ARRIVALS_GAPS - 1);

		flow->gap_seq[place] = seq;
		flow->gap_tsval[place] = tsval;
	}
	if (!flow->has_end || (s32)(end_seq - flow->end_seq) > 0) {
		flow->end_seq = end_seq;
		flow->end_tsval = tsval;
		flow->has_end = 1;
	}
}

/*
 * A segment arrives on an open connection. If a program is using the socket, the segment had to wait for it, and its arrival
 * time was not recorded: its delay is skipped.
 */
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_arrival, struct sock *sk, struct sk_buff *skb)
{
	__be32 tcp[8] = {}; /* header and usual options */
	struct tcp_arrivals *flow;
	u32 header_bytes, segs, tsval = 0;
	bool stamped;
	u64 now_ns;

	if (!here(sk))
		return 0;
	now_ns = bpf_ktime_get_ns();
	flow = flow_of(sk);
	if (!flow || bpf_probe_read_kernel(tcp, sizeof(tcp), skb->data))
		return 0;
	header_bytes = (bpf_ntohl(tcp[3]) >> 28) * 4;
	segs = segs_of(skb, header_bytes);
	flow->segs += segs;
	if (ecn_of(skb) == CE)
		flow->ce_segs += segs;

	stamped = header_bytes >= sizeof(tcp) && tcp[5] == bpf_htonl(NOP_NOP_TSOPT);
	if (stamped)
		tsval = bpf_ntohl(tcp[6]);
	else
		stamped = find_timestamp(skb, header_bytes, &tsval);
	if (stamped) {
		flow->stamped = 1;
		if (skb->len > header_bytes)
			take_payload(flow, bpf_ntohl(tcp[1]), skb->len - header_bytes, tsval, segs);
		if (!sk->sk_lock.owned)
			take_delay(flow, tsval, now_ns, segs);
	}
	flow->newest_ns = now_ns;
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int before, int after)
{
	struct tcp_arrivals *flow;
	u64 cookie;

	if (after != TCP_CLOSE || before == TCP_CLOSE || !here(sk))
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	flow = bpf_map_lookup_elem(&flows, &cookie);
	if (flow)
		flow->closed = 1;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
