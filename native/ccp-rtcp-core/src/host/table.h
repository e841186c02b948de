/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The table of clients on the host, owned by Rust and used by one thread at a time. */
#ifndef RTCP_TABLE_H
#define RTCP_TABLE_H

#include "tcp.h"
#include "rtcp.h"

struct rtcp_table {
	void *clients;
	struct rtcp_client *(*find)(void *clients, const struct rtcp_key *key);
	void (*insert)(void *clients, const struct rtcp_key *key);
	void (*remove)(void *clients, const struct rtcp_key *key);
	struct rtcp_row row; /* the client's state, if the connection has news */
	__u8 has_row;
	__u8 is_news; /* bool: the client's verdict differs from the previous row */
};

/* The table of the current call. */
static _Thread_local struct rtcp_table *rtcp_table;

static inline bool client_lock(struct rtcp_client *client)
{
	return true;
}

static inline void client_unlock(struct rtcp_client *client)
{
}

static inline struct rtcp_client *client_find(const struct rtcp_key *key)
{
	return rtcp_table->find(rtcp_table->clients, key);
}

static inline bool client_insert(const struct rtcp_key *key)
{
	rtcp_table->insert(rtcp_table->clients, key);
	return true;
}

static inline void client_delete(const struct rtcp_key *key)
{
	rtcp_table->remove(rtcp_table->clients, key);
}

static inline void count_no_room(void)
{
}

/* A client whose time is up is replaced when its next connection finds it. */
static inline void sweep_from_now_on(void)
{
}

#endif
