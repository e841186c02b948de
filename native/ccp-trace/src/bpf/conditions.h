/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* A rule's conditions for a socket, for all programs with rules. Rust reads this file through bindgen. */
#ifndef CCP_CONDITIONS_H
#define CCP_CONDITIONS_H

#ifndef __VMLINUX_H__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
#endif

#define ANY_CGROUP 0

/* All must hold. */
struct socket_conditions {
	__u64 src[2]; /* IPv6 in network order, IPv4-mapped for IPv4 (::ffff:a.b.c.d) */
	__u64 src_mask[2];
	__u64 dst[2];
	__u64 dst_mask[2];
	__u64 cgroup; /* id of the cgroup or of an ancestor; ANY_CGROUP: any */
	__u16 sport_low;
	__u16 sport_high;
	__u16 dport_low;
	__u16 dport_high;
};

#endif
