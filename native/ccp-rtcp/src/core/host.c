// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/* The core as functions to link with. */
#include "limiter.h"
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

void rtcp_host_remote_of(struct rtcp_remote *remote, const struct rtcp_options *o, __u32 port)
{
	rtcp_remote_of(remote, o, port);
}
