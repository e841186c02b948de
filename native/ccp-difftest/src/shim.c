// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A datapath for libccp whose clock and registers the test controls, and the layout of struct ccp_flow. One per thread, so
 * that programs can be tested in parallel.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ccp_priv.h"
#include "intf.h"

enum { MAX_PROGRAMS = 4 };

static __thread u64 clock_us;
static __thread struct ccp_datapath datapath;
static __thread struct ccp_connection connection;
static __thread char last_message[REPORT_MSG_SIZE];
static __thread int last_message_bytes;

static u64 now(void)
{
	return clock_us;
}

static u64 since_usecs(u64 then)
{
	return clock_us - then;
}

static u64 after_usecs(u64 usecs)
{
	return clock_us + usecs;
}

static void set_cwnd(struct ccp_connection *conn, u32 cwnd)
{
}

static void set_rate(struct ccp_connection *conn, u32 rate)
{
}

static int send_msg(struct ccp_datapath *dp, char *msg, int bytes)
{
	memcpy(last_message, msg, bytes);
	last_message_bytes = bytes;
	return 0;
}

/* Starts a new flow without a program. Returns 0, or libccp's error. */
int difftest_start(void)
{
	struct ccp_datapath_info info = {.init_cwnd = 15000, .mss = 1500};
	int err;

	if (connection.index)
		ccp_connection_free(&datapath, connection.index);
	if (datapath.programs)
		ccp_free(&datapath);
	clock_us = 0; /* Ack.now counts from here, so it equals the clock */
	datapath = (struct ccp_datapath){
		.set_cwnd = set_cwnd,
		.set_rate_abs = set_rate,
		.send_msg = send_msg,
		.now = now,
		.since_usecs = since_usecs,
		.after_usecs = after_usecs,
		.max_connections = 1,
		.ccp_active_connections = &connection,
		.fto_us = 1000000,
		.max_programs = MAX_PROGRAMS,
	};
	memset(&connection, 0, sizeof(connection));
	err = ccp_init(&datapath, 0);
	if (err)
		return err;
	return ccp_connection_start(&datapath, NULL, &info) ? 0 : LIBCCP_CONNECTION_NOT_INITIALIZED;
}

int difftest_message(char *msg, int bytes)
{
	return ccp_read_msg(&datapath, msg, bytes);
}

/*
 * Sets an operand of an instruction of the first program to a constant that does not fit the 32 bits of the message; libccp
 * itself computes with 64 bits.
 */
void difftest_set_constant(int instruction, int right, u64 value)
{
	struct Instruction64 *instr =
		&((struct DatapathProgram *)datapath.programs)->fold_instructions[instruction];

	(right ? &instr->rRight : &instr->rLeft)->value = value;
}

/* libccp lets a new program see the previous program's local registers; ccplane's start at 0. */
void difftest_clear_locals(void)
{
	struct ccp_priv_state *state = connection.state;

	memset(state->registers.local_registers, 0, sizeof(state->registers.local_registers));
}

struct difftest_inputs {
	u64 now_us;
	u64 cwnd_bytes;
	u64 rate_bytes_per_s;
	u64 prim[15];
};

/* libccp's state after a run, and the message that it sent, if any. */
struct difftest_state {
	u64 report[MAX_REPORT_REG];
	u64 control[MAX_CONTROL_REG];
	u64 local[MAX_LOCAL_REG];
	u64 impl[MAX_IMPLICIT_REG];
	u64 time_zero_us;
	u64 n_sent; /* -1: no report */
	u64 sent[MAX_REPORT_REG];
};

/* Runs the fold. Returns 0, or libccp's error. */
int difftest_invoke(const struct difftest_inputs *in, struct difftest_state *out)
{
	struct ccp_priv_state *state = connection.state;
	struct ccp_primitives *prims = &connection.prims;
	int err;

	clock_us = in->now_us;
	*prims = (struct ccp_primitives){
		.bytes_acked = in->prim[ACK_BYTES_ACKED],
		.packets_acked = in->prim[ACK_PACKETS_ACKED],
		.bytes_misordered = in->prim[ACK_BYTES_MISORDERED],
		.packets_misordered = in->prim[ACK_PACKETS_MISORDERED],
		.ecn_bytes = in->prim[ACK_ECN_BYTES],
		.ecn_packets = in->prim[ACK_ECN_PACKETS],
		.lost_pkts_sample = in->prim[ACK_LOST_PKTS_SAMPLE],
		.was_timeout = in->prim[FLOW_WAS_TIMEOUT],
		.rtt_sample_us = in->prim[FLOW_RTT_SAMPLE_US],
		.rate_outgoing = in->prim[FLOW_RATE_OUTGOING],
		.rate_incoming = in->prim[FLOW_RATE_INCOMING],
		.bytes_in_flight = in->prim[FLOW_BYTES_IN_FLIGHT],
		.packets_in_flight = in->prim[FLOW_PACKETS_IN_FLIGHT],
		.snd_cwnd = in->cwnd_bytes,
		.snd_rate = in->rate_bytes_per_s,
		.bytes_pending = in->prim[FLOW_BYTES_PENDING],
	};
	last_message_bytes = 0;
	err = ccp_invoke(&connection);

	memcpy(out->report, state->registers.report_registers, sizeof(out->report));
	memcpy(out->control, state->registers.control_registers, sizeof(out->control));
	memcpy(out->local, state->registers.local_registers, sizeof(out->local));
	memcpy(out->impl, state->registers.impl_registers, sizeof(out->impl));
	out->time_zero_us = state->implicit_time_zero;
	out->n_sent = -1;
	if (last_message_bytes) {
		struct MeasureMsg *sent = (struct MeasureMsg *)(last_message + sizeof(struct CcpMsgHeader));

		out->n_sent = sent->num_fields;
		memcpy(out->sent, sent->fields, sent->num_fields * sizeof(u64));
	}
	return err;
}

/* Offsets in struct ccp_flow; the last two are in struct ccp_fold. */
struct difftest_flow_layout {
	u64 flow_bytes;
	u64 fold_bytes;
	u64 control;
	u64 local;
	u64 report;
	u64 time_zero_us;
	u64 fold_error;
	u64 inband;
	u64 prim;
	u64 impl;
};

struct difftest_flow_layout difftest_flow_layout(void)
{
	return (struct difftest_flow_layout){
		.flow_bytes = sizeof(struct ccp_flow),
		.fold_bytes = sizeof(struct ccp_fold),
		.control = offsetof(struct ccp_flow, control),
		.local = offsetof(struct ccp_flow, local),
		.report = offsetof(struct ccp_flow, report),
		.time_zero_us = offsetof(struct ccp_flow, time_zero_us),
		.fold_error = offsetof(struct ccp_flow, fold_error),
		.inband = offsetof(struct ccp_flow, inband),
		.prim = offsetof(struct ccp_fold, prim),
		.impl = offsetof(struct ccp_fold, impl),
	};
}
