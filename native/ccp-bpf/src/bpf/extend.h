/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For who writes an extension of the datapath: an object of its own with
 *
 *   EXTENSION("name", .cong_control = (void *)on_ack, .release = (void *)on_release);
 *
 * and, if it has something to do behind the fold, EXTENSION_AFTER_FOLD(on_fold). Members are those of
 * tcp_congestion_ops; cong_control is called before the fold, cwnd_event and cwnd_event_tx_start when sending begins
 * anew. Each program gets the arguments of its member, and is called for flows that the agent gave the extension,
 * while an algorithm steers them.
 *
 * Maps are its own, but for those of maps.h, which it shares with the core. One with CCP_MAX_FLOWS entries gets as many
 * as there are flows. EXTENSION_MAIL() declares the agent's letters.
 */
#ifndef CCP_EXTEND_H
#define CCP_EXTEND_H

#include "sock.h"
#include <bpf/bpf_tracing.h>

/* Set by the loader. */
const volatile u32 extension_index = 0;

/* Never registered: name and flags are for our loader; libbpf learns from it which member each program is loaded for. */
#define EXTENSION(name_, ...)   \
	SEC(".struct_ops.link") \
	struct tcp_congestion_ops___ccp extension = {.name = name_, .flags = CCP_ABI_VERSION, __VA_ARGS__}

#define EXTENSION_AFTER_FOLD(program) \
	SEC(".struct_ops.link")       \
	struct tcp_congestion_ops___ccp after_fold = {.name = "after_fold", .cong_control = (void *)program}

/* Letters by slot, each with a `letter` of this type. */
#define EXTENSION_MAIL(type_)                         \
	struct extension_mail {                       \
		struct ccp_extension_mail head;       \
		type_ letter;                         \
	};                                            \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_ARRAY);     \
		__uint(map_flags, BPF_F_MMAPABLE);    \
		__uint(max_entries, CCP_MAX_FLOWS);   \
		__type(key, u32);                     \
		__type(value, struct extension_mail); \
	} mail SEC(".maps")

/* Whether there is a letter, which is ours until mail_end(). It may be for the slot's last flow: see mail_is_for(). */
static __always_inline bool mail_begin(struct ccp_extension_mail *head)
{
	return head->owner == CCP_MAIL_FULL &&
	       __sync_val_compare_and_swap(&head->owner, CCP_MAIL_FULL, CCP_MAIL_READING) == CCP_MAIL_FULL;
}

static __always_inline bool mail_is_for(const struct ccp_extension_mail *head, const struct ccp_flow *flow)
{
	return head->flow_id == flow->flow_id;
}

static __always_inline void mail_end(struct ccp_extension_mail *head)
{
	__sync_lock_test_and_set(&head->owner, CCP_MAIL_EMPTY);
}

/* Head of a record of `bytes`, with what the extension tells behind it: a multiple of eight octets. */
static __always_inline void extension_tells(struct ccp_record *record, u64 bytes, u64 flow_id, u64 now_us)
{
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = CCP_RECORD_EXTENSION;
	record->program = extension_index;
	record->flow_id = flow_id;
	record->now_us = now_us;
	record->n_fields = (bytes - sizeof(*record)) / sizeof(u64);
}

#endif
