/* SPDX-License-Identifier: GPL-2.0 */
/* ECN as a socket negotiated it. What asks for AccECN has no code on kernels without it. */
#ifndef CCP_ECN_H
#define CCP_ECN_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Other kernels may use its bit for something else, as those with Google's BBRv3 do. */
#define HAS_ACCECN bpf_core_field_exists(struct tcp_sock, delivered_ecn_bytes)
#define TCP_ECN_MODES (TCP_ECN_MODE_RFC3168 | TCP_ECN_MODE_ACCECN)

static __always_inline bool is_accecn(const struct tcp_sock *tp)
{
	return HAS_ACCECN && (tp->ecn_flags & TCP_ECN_MODES) == TCP_ECN_MODE_ACCECN;
}

static __always_inline bool has_ecn(const struct tcp_sock *tp)
{
	return tp->ecn_flags & (HAS_ACCECN ? TCP_ECN_MODES : TCP_ECN_MODE_RFC3168);
}

/* Bytes with a CE mark that an AccECN receiver counted. */
static __always_inline u32 accecn_bytes(const struct tcp_sock *tp)
{
	return tp->delivered_ecn_bytes[INET_ECN_CE - 1];
}

#endif
