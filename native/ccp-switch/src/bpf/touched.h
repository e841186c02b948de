/* SPDX-License-Identifier: GPL-2.0 */
/* The state of switched sockets, and their owners. The maps are pinned, and outlive their loader. */
#ifndef CCP_SWITCH_TOUCHED_H
#define CCP_SWITCH_TOUCHED_H

struct touched {
	char first[SWITCH_NAME_BYTES]; /* congestion control that its application chose */
	char owned[SWITCH_NAME_BYTES]; /* the last one set here; empty: none */
	u64 first_rate; /* the pacing limit before */
	u64 owner; /* key in `leases`, or SWITCH_UNOWNED */
	u32 our_rate;
	u16 complained; /* a failure was reported */
	u16 asking; /* enum asking */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct touched);
} sockets SEC(".maps");

/* Time until which an owner's sockets stay switched [ns of CLOCK_MONOTONIC]. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SWITCH_MAX_OWNERS);
	__type(key, u64);
	__type(value, u64);
} leases SEC(".maps");

static __always_inline bool has_lease(u64 owner)
{
	u64 *until_ns = bpf_map_lookup_elem(&leases, &owner);

	return until_ns && bpf_ktime_get_ns() < *until_ns;
}

/* Whether another owner has the socket. */
static __always_inline bool is_anothers(const struct touched *touched)
{
	return touched->owner != config.owner && touched->owner != SWITCH_UNOWNED &&
	       has_lease(touched->owner);
}

static __always_inline void own(struct touched *touched)
{
	if (touched->owner == config.owner)
		return;
	touched->owner = config.owner;
	touched->complained = 0;
}

#endif
