// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A typical datapath on libccp: flows in a table, messages over Unix datagram sockets, the real clock. One per process. The
 * packets are in examples/libccp_path/main.rs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ccp_error.h"
#include "ccp_priv.h"

enum { MAX_FLOWS = 64, MAX_PROGRAMS = 10, FALLBACK_US = 500000 };

/* Settings that libccp made for a flow since the last invocation; 0: none. */
struct path_set {
	u32 cwnd_bytes;
	u32 rate_bytes_per_s;
};

static struct ccp_connection connections[MAX_FLOWS];
static struct path_set reported[MAX_FLOWS];
static struct ccp_datapath_info infos[MAX_FLOWS];
static struct ccp_connection *of_flow[MAX_FLOWS];
static int n_flows;
static struct sockaddr_un agent = {.sun_family = AF_UNIX};
static int fd = -1;

static u64 now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static u64 since_usecs(u64 then)
{
	return now_us() - then;
}

static u64 after_usecs(u64 usecs)
{
	return now_us() + usecs;
}

static void set_cwnd(struct ccp_connection *conn, u32 cwnd)
{
	((struct path_set *)conn->impl)->cwnd_bytes = cwnd;
}

static void set_rate(struct ccp_connection *conn, u32 rate)
{
	((struct path_set *)conn->impl)->rate_bytes_per_s = rate;
}

static int send_msg(struct ccp_datapath *dp, char *msg, int bytes)
{
	if (sendto(fd, msg, bytes, MSG_DONTWAIT, (struct sockaddr *)&agent, sizeof(agent)) < 0)
		return -errno;
	return 0;
}

static struct ccp_datapath datapath = {
	.set_cwnd = set_cwnd,
	.set_rate_abs = set_rate,
	.send_msg = send_msg,
	.now = now_us,
	.since_usecs = since_usecs,
	.after_usecs = after_usecs,
	.max_connections = MAX_FLOWS,
	.ccp_active_connections = connections,
	.fto_us = FALLBACK_US,
	.max_programs = MAX_PROGRAMS,
};

/* Binds a socket, and reports the datapath ready, with its age. Returns the socket, or an error below 0. */
int path_start(const char *agent_path, const char *own_path, u64 age_us)
{
	struct sockaddr_un own = {.sun_family = AF_UNIX};
	int err;

	strncpy(agent.sun_path, agent_path, sizeof(agent.sun_path) - 1);
	strncpy(own.sun_path, own_path, sizeof(own.sun_path) - 1);
	unlink(own_path);
	fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof(own)) < 0)
		return -errno;
	err = ccp_init(&datapath, 1);
	datapath.time_zero -= age_us;
	return err ? err : fd;
}

/* Begins a flow; returns its number, or -1. Ports are in network byte order, as in the kernel's datapath. */
int path_flow(u32 mss_bytes, u32 init_cwnd_bytes, const char *algorithm)
{
	struct ccp_datapath_info *info = &infos[n_flows];

	if (n_flows == MAX_FLOWS)
		return -1;
	*info = (struct ccp_datapath_info){
		.init_cwnd = init_cwnd_bytes,
		.mss = mss_bytes,
		.src_ip = __builtin_bswap32(0x0a000001),
		.src_port = __builtin_bswap16(40000 + n_flows),
		.dst_ip = __builtin_bswap32(0x0a000002),
		.dst_port = __builtin_bswap16(5001),
	};
	strncpy(info->congAlg, algorithm, sizeof(info->congAlg) - 1);
	of_flow[n_flows] = ccp_connection_start(&datapath, &reported[n_flows], info);
	return of_flow[n_flows] ? n_flows++ : -1;
}

/* Ends all flows, so that the agent is notified. */
void path_end(void)
{
	for (int flow = 0; flow < n_flows; flow++)
		ccp_connection_free(&datapath, of_flow[flow]->index);
}

/* Announces everything to a new agent, as a new datapath would; libccp does not do that. */
void path_again(void)
{
	path_end();
	ccp_free(&datapath);
	ccp_init(&datapath, 1);
	for (int flow = 0; flow < n_flows; flow++)
		of_flow[flow] = ccp_connection_start(&datapath, &reported[flow], &infos[flow]);
}

/* Receives and handles the agent's messages. */
void path_receive(void)
{
	static char buffer[65536];
	ssize_t bytes;

	while ((bytes = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0)
		for (char *at = buffer; at < buffer + bytes;) {
			struct CcpMsgHeader *header = (struct CcpMsgHeader *)at;

			ccp_read_msg(&datapath, at, buffer + bytes - at);
			at += header->Len ? header->Len : bytes;
		}
}

/* Runs the flow's program. Returns 0, 1 if the datapath is in control itself, or libccp's error. */
int path_invoke(int flow, const struct ccp_primitives *prims, struct path_set *set)
{
	int err;

	reported[flow] = (struct path_set){};
	of_flow[flow]->prims = *prims;
	err = ccp_invoke(of_flow[flow]);
	*set = reported[flow];
	/* No program yet, or no agent. */
	return err == LIBCCP_FALLBACK_TIMED_OUT || err == LIBCCP_PROG_IS_NULL ? 1 : err;
}
