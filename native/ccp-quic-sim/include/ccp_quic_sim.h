/* Congestion controllers in C, simulated in connections of quinn (a QUIC stack) over an emulated path in virtual time.
 *
 * Build the library: cargo rustc --release --package ccp-quic-sim --features c --crate-type staticlib
 * Functions receive times in nanoseconds since their connection began, in the thread that called ccp_simulate. */
#ifndef CCP_QUIC_SIM_H
#define CCP_QUIC_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A packet that was acknowledged for the first time. */
struct ccp_ack {
	uint64_t now_ns;
	uint64_t sent_ns;
	uint64_t bytes;
	uint64_t smoothed_rtt_ns;
	uint64_t min_rtt_ns;
	/* The connection had nothing to send before this ACK. */
	bool app_limited;
};

/* Packets that were declared lost, or marked. */
struct ccp_congestion {
	uint64_t now_ns;
	/* When the newest of the packets was sent. */
	uint64_t sent_ns;
	/* 0 for ECN marks. */
	uint64_t lost_bytes;
	bool persistent;
};

/* Functions with `optional` may be NULL. */
struct ccp_controller {
	/* Returns the state of a connection's controller. */
	void *(*create)(void *context, uint16_t mtu_bytes);
	/* Optional: frees a state. */
	void (*destroy)(void *state);
	/* Optional: packets were sent. */
	void (*on_sent)(void *state, uint64_t now_ns, uint64_t bytes);
	void (*on_ack)(void *state, const struct ccp_ack *ack);
	/* Optional: an ACK has been processed, packet by packet. */
	void (*on_acks_end)(void *state, uint64_t now_ns, uint64_t in_flight_bytes, bool app_limited);
	void (*on_congestion)(void *state, const struct ccp_congestion *congestion);
	/* Optional: the maximum size of a UDP payload changed. */
	void (*on_mtu)(void *state, uint16_t mtu_bytes);
	/* Returns the congestion window, above 0. quinn paces 1.25 windows per smoothed RTT. */
	uint64_t (*window_bytes)(const void *state);
	/* Passed to `create`. */
	void *context;
};

struct ccp_path {
	double mbit_per_s;
	uint64_t rtt_ns;
	/* 0: one bandwidth-delay product. */
	uint64_t buffer_bytes;
	double loss_ratio;
	uint64_t seed;
};

struct ccp_flow {
	const struct ccp_controller *controller;
	uint64_t start_ns;
	/* 0: the application always has data. Else it writes a message of this size at each interval. */
	uint64_t message_bytes;
	uint64_t message_interval_ns;
};

struct ccp_result {
	double goodput_bytes_per_s;
	/* Relative to the rate of the path. */
	double goodput_share;
	/* Bytes declared lost relative to bytes sent. */
	double lost_share;
	uint64_t rtt_p50_ns;
	uint64_t rtt_p95_ns;
	uint64_t window_max_bytes;
	/* Congestion events that reduced the window. */
	uint64_t reductions;
	uint64_t longest_stall_ns;
};

/* Simulates flows over a path; writes a result for each flow. Returns 0, or -1 with a text in `error`, which is cut to
 * `error_bytes` and ends with a 0. */
int ccp_simulate(const struct ccp_path *path, const struct ccp_flow *flows, size_t flow_count, uint64_t duration_ns,
		 struct ccp_result *results, char *error, size_t error_bytes);

#ifdef __cplusplus
}
#endif

#endif
