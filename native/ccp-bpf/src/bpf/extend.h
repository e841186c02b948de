/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For authors of datapath extensions. An extension is an object file that declares
 *
 *   EXTENSION("name", .cong_control = (void *)on_ack, .release = (void *)on_release);
 *
 * and, for work after the fold, EXTENSION_AFTER_FOLD(on_fold). Members are those of tcp_congestion_ops; cong_control is
 * called before the fold, cwnd_event and cwnd_event_tx_start when sending resumes. Each program gets the arguments of its
 * member, and is called for flows that the agent attached to the extension, while an algorithm controls them.
 *
 * An extension has its own maps, except those of maps.h, which it shares with the core. A map with CCP_MAX_FLOWS entries is
 * resized to the number of flows. EXTENSION_MAIL() declares the agent's messages.
 */
#ifndef CCP_EXTEND_H
#define CCP_EXTEND_H

#include "sock.h"
#include <bpf/bpf_tracing.h>

/* Set by the loader. */
const volatile u32 extension_index = 0;

/* Never registered: the loader reads name and flags, and libbpf the member that each program is loaded for. */
#define EXTENSION(name_, ...)   \
	SEC(".struct_ops.link") \
	struct tcp_congestion_ops___ccp extension = {.name = name_, .flags = CCP_ABI_VERSION, __VA_ARGS__}

#define EXTENSION_AFTER_FOLD(program) \
	SEC(".struct_ops.link")       \
	struct tcp_congestion_ops___ccp after_fold = {.name = "after_fold", .cong_control = (void *)program}

/* Messages by slot, each with a `letter` of this type. */
#define EXTENSION_MAIL(type_)                         \
	struct extension_mail {                       \
		struct ccp_extension_mail head;       \
		type_ message;                        \
	};                                            \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_ARRAY);     \
		__uint(map_flags, BPF_F_MMAPABLE);    \
		__uint(max_entries, CCP_MAX_FLOWS);   \
		__type(key, u32);                     \
		__type(value, struct extension_mail); \
	} mail SEC(".maps")

/* Returns whether there is a message; it belongs to the program until mail_end(). Check mail_is_for(): it may be old. */
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

/* Fills in the head of a record of `bytes`; the extension's message follows it, a multiple of eight bytes. */
static __always_inline void extension_sends(struct ccp_record *record, u64 bytes, u64 flow_id, u64 now_us)
{
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = CCP_RECORD_EXTENSION;
	record->program = extension_index;
	record->flow_id = flow_id;
	record->now_us = now_us;
	record->n_fields = (bytes - sizeof(*record)) / sizeof(u64);
}

#endif
