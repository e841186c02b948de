// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/* The core as functions to link with. */
#include "limiter.h"
#include "member.h"
#include "remote.h"

void rtcp_host_init(struct rtcp_detector *d, __u32 mss_bytes)
{
	rtcp_detector_init(d, mss_bytes);
}

void rtcp_host_start(struct rtcp_detector *d, const struct rtcp_options *o, const struct rtcp_progress *now)
{
	rtcp_detector_start(d, o, now);
}

void rtcp_host_ack(struct rtcp_detector *d, const struct rtcp_options *o, const struct rtcp_progress *now)
{
	rtcp_detector_ack(d, o, now);
}

__u32 rtcp_host_tokens_bytes(const struct rtcp_detector *d, __u64 now_us)
{
	return rtcp_tokens_bytes(d, now_us);
}

__u64 rtcp_host_last_us(const struct rtcp_detector *d)
{
	return rtcp_last_us(d);
}

void rtcp_host_limiter_ack(struct rtcp_limiter *l, struct rtcp_detector *d, const struct rtcp_options *o,
			   const struct rtcp_progress *now)
{
	rtcp_limiter_ack(l, d, o, now);
}

__u64 rtcp_host_limiter_rate(const struct rtcp_limiter *l, const struct rtcp_detector *d,
			     const struct rtcp_options *o, const struct rtcp_progress *now)
{
	return rtcp_limiter_rate(l, d, o, now);
}

int rtcp_host_limiter_seeks(const struct rtcp_limiter *l)
{
	return rtcp_limiter_seeks(l);
}

int rtcp_host_seems_limited(const struct rtcp_detector *d, const struct rtcp_options *o)
{
	return rtcp_is_undecided(d) && rtcp_is_reduced(d, o);
}

void rtcp_host_remote_of(struct rtcp_remote *remote, const struct rtcp_options *o, __u32 port)
{
	rtcp_remote_of(remote, o, port);
}

void rtcp_host_remote_single(struct rtcp_remote *remote, __u32 port)
{
	rtcp_remote_single(remote, port);
}

void rtcp_host_member_start(struct rtcp_member *m, __u64 now_us)
{
	rtcp_member_start(m, now_us);
}

void rtcp_host_member_add(struct rtcp_member *m, __u64 now_us, __u64 delivered_bytes, __u64 lost_bytes)
{
	rtcp_member_add(m, now_us, delivered_bytes, lost_bytes);
}

int rtcp_host_member_is_short(const struct rtcp_member *m, __u64 now_us)
{
	return rtcp_member_is_short(m, now_us);
}

int rtcp_host_member_ack(struct rtcp_member *m, __u32 mss_bytes, const struct rtcp_progress *client)
{
	return rtcp_member_ack(m, mss_bytes, client);
}
