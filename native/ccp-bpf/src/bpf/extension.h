/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls the extensions of a flow. A tail call from a separate function returns to that function's caller, so an extension
 * is a program that may be loaded later, or never, and costs nothing for flows without its bit.
 */
#ifndef CCP_EXTENSION_H
#define CCP_EXTENSION_H

#include "maps.h"

#define EXTENSION_HOOK(hook)                                                                    \
	static __noinline int extension_##hook(u64 *ctx, u32 extension)                         \
	{                                                                                       \
		bpf_tail_call(ctx, &extensions_on_##hook, extension);                           \
		return 0;                                                                       \
	}                                                                                       \
	static __always_inline void extensions_##hook(u64 *ctx, u32 bits)                       \
	{                                                                                       \
		_Pragma("clang loop unroll(full)") for (u32 i = 0; i < CCP_MAX_EXTENSIONS; i++) \
		{                                                                               \
			if (bits >> i & 1)                                                      \
				extension_##hook(ctx, i);                                       \
		}                                                                               \
	}

EXTENSION_HOOK(ack) /* before the fold */
EXTENSION_HOOK(fold) /* after the fold and the application of its results */
EXTENSION_HOOK(cwnd_event)
EXTENSION_HOOK(cwnd_event_tx_start)
EXTENSION_HOOK(release)

#endif
