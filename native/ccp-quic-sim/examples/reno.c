/* Reno for QUIC (RFC 9002, section 7), alone and against another Reno on a path of 20 Mbit/s and 40 ms.
 *
 * cc -I native/ccp-quic-sim/include native/ccp-quic-sim/examples/reno.c native/target/release/libccp_quic_sim.a -lm
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ccp_quic_sim.h"

#define MS 1000000ull

struct reno {
	uint64_t mtu_bytes;
	uint64_t window_bytes;
	uint64_t ssthresh_bytes;
	/* Acknowledged since the window last grew in congestion avoidance. */
	uint64_t acked_bytes;
	uint64_t recovery_start_ns;
	bool in_recovery;
};

static void *create(void *context, uint16_t mtu_bytes)
{
	struct reno *reno = calloc(1, sizeof(*reno));

	(void)context;
	if (!reno)
		abort();
	reno->mtu_bytes = mtu_bytes;
	reno->window_bytes = 10 * reno->mtu_bytes;
	reno->ssthresh_bytes = UINT64_MAX;
	return reno;
}

static void on_ack(void *state, const struct ccp_ack *ack)
{
	struct reno *reno = state;

	if (reno->in_recovery && ack->sent_ns <= reno->recovery_start_ns)
		return;
	reno->in_recovery = false;
	if (ack->app_limited)
		return;
	if (reno->window_bytes < reno->ssthresh_bytes) {
		reno->window_bytes += ack->bytes;
		return;
	}
	reno->acked_bytes += ack->bytes;
	if (reno->acked_bytes >= reno->window_bytes) {
		reno->acked_bytes -= reno->window_bytes;
		reno->window_bytes += reno->mtu_bytes;
	}
}

static void on_congestion(void *state, const struct ccp_congestion *congestion)
{
	struct reno *reno = state;
	uint64_t minimum_bytes = 2 * reno->mtu_bytes;

	if (!reno->in_recovery || congestion->sent_ns > reno->recovery_start_ns) {
		reno->in_recovery = true;
		reno->recovery_start_ns = congestion->now_ns;
		reno->acked_bytes = 0;
		reno->window_bytes /= 2;
		if (reno->window_bytes < minimum_bytes)
			reno->window_bytes = minimum_bytes;
		reno->ssthresh_bytes = reno->window_bytes;
	}
	if (congestion->persistent) {
		reno->window_bytes = minimum_bytes;
		reno->in_recovery = false;
	}
}

static void on_mtu(void *state, uint16_t mtu_bytes)
{
	struct reno *reno = state;

	reno->mtu_bytes = mtu_bytes;
}

static uint64_t window_bytes(const void *state)
{
	const struct reno *reno = state;

	return reno->window_bytes;
}

static const struct ccp_controller RENO = {
	.create = create,
	.destroy = free,
	.on_ack = on_ack,
	.on_congestion = on_congestion,
	.on_mtu = on_mtu,
	.window_bytes = window_bytes,
};

int main(void)
{
	const struct ccp_path path = {.mbit_per_s = 20, .rtt_ns = 40 * MS, .seed = 1};
	const struct ccp_flow flows[2] = {{.controller = &RENO}, {.controller = &RENO, .start_ns = 500 * MS}};
	struct ccp_result results[2];
	char error[256];

	for (size_t count = 1; count <= 2; count++) {
		double share = 0;

		if (ccp_simulate(&path, flows, count, 60000 * MS, results, error, sizeof(error)) != 0) {
			fprintf(stderr, "%s\n", error);
			return 1;
		}
		for (size_t flow = 0; flow < count; flow++) {
			printf("%zu of %zu: %.1f %% of the path, RTT %.0f ms (95 %%), lost %.2f %%, %llu reductions\n", flow + 1,
			       count, 100 * results[flow].goodput_share, (double)results[flow].rtt_p95_ns / MS,
			       100 * results[flow].lost_share, (unsigned long long)results[flow].reductions);
			share += results[flow].goodput_share;
		}
		if (share < 0.85) {
			fprintf(stderr, "Reno leaves too much of the path unused\n");
			return 1;
		}
	}
	return 0;
}
