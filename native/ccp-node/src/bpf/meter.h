/* SPDX-License-Identifier: GPL-2.0 */
/* Arrival rate and number of flows, as in ccp_int::Meter, without floating point. */
#ifndef CCP_NODE_METER_H
#define CCP_NODE_METER_H

#include "maps.h"

#define NSEC_PER_SEC 1000000000ULL
#define WEIGHT_BITS 16
#define FRACTION_BITS 28
#define ONE (1ULL << FRACTION_BITS)
#define LN_2 186065279ULL /* times ONE */
#define TIMES_FORGOTTEN 16 /* e^-16 is negligible */
#define SEEN_NS 10000000ULL /* a hundredth of the time for which a flow counts as active */

/* e^-x, both in units of 1 / ONE: halved for each ln 2, and a series for the rest. */
static __always_inline u64 decay(u64 x)
{
	u64 halvings = x / LN_2, rest = x % LN_2, term = ONE, sum = ONE;

	for (int n = 1; n <= 6; n++) {
		term = (term * rest >> FRACTION_BITS) / n;
		if (!term)
			break;
		sum = n & 1 ? sum - term : sum + term;
	}
	return sum >> (halvings & 63);
}

static __always_inline u64 faded(const struct node_link *link, u64 now_ns)
{
	u64 age_ns = now_ns > link->last_ns ? now_ns - link->last_ns : 0;

	if (age_ns >= TIMES_FORGOTTEN * config.rate_time_ns)
		return 0;
	return link->weight * decay((age_ns << FRACTION_BITS) / config.rate_time_ns) >> FRACTION_BITS;
}

static __always_inline bool is_same(const struct node_flow *flow, const struct node_flow *other)
{
	const u32 *words = (const u32 *)flow, *others = (const u32 *)other;
	u32 difference = 0;

	for (u32 i = 0; i < sizeof(*flow) / 4; i++)
		difference |= words[i] ^ others[i];
	return !difference;
}

static __always_inline void note_flow(struct node_link *link, const struct node_flow *flow, u64 now_ns)
{
	struct node_seen *last = ONLY(last_seen);
	u64 *seen_ns;

	if (!last || (now_ns - last->noted_ns < SEEN_NS && is_same(&last->flow, flow)))
		return;
	seen_ns = bpf_map_lookup_elem(&active, flow);
	if (seen_ns)
		*seen_ns = now_ns;
	else if (!bpf_map_update_elem(&active, flow, &now_ns, BPF_NOEXIST))
		__sync_fetch_and_add(&link->flows_seen, 1);
	last->flow = *flow;
	last->noted_ns = now_ns;
}

/* Counts arriving packets; returns the arrivals per second, including these. */
static __always_inline u32 arrived(struct node_link *link, const struct node_flow *flow, u32 pkts, u64 now_ns)
{
	u64 weight;

	if (flow->protocol)
		note_flow(link, flow, now_ns);
	bpf_spin_lock(&link->lock);
	link->weight = weight = faded(link, now_ns) + ((u64)pkts << WEIGHT_BITS);
	if (now_ns > link->last_ns)
		link->last_ns = now_ns;
	bpf_spin_unlock(&link->lock);
	return (weight * (NSEC_PER_SEC / config.rate_time_ns) + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS;
}

#endif
