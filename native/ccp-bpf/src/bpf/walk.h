/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Rows of the program that visits sockets. Rust reads this file through bindgen. */
#ifndef CCP_WALK_H
#define CCP_WALK_H

#ifndef __VMLINUX_H__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
#endif

#define WALK_NAME_BYTES 16
#define WALK_NAMES 64

enum walk_what {
	WALK_MOVED = 1,
	WALK_FAILED = 2, /* rejected by the kernel: see error */
	WALK_LEFT = 3, /* a listener without an own choice: its connections follow the default */
};

/* A socket with one of the names. */
struct walk_row {
	__u8 saddr[16]; /* IPv6, IPv4-mapped for IPv4 */
	__u8 daddr[16];
	__u16 sport;
	__u16 dport;
	__u32 what;
	__s32 error; /* negative errno */
	char name[WALK_NAME_BYTES];
};

#endif
