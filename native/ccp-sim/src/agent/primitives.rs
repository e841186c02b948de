//! Primitives of an ACK: `load_primitives()` of `ccp-bpf`'s `fold.bpf.c`.

use ::ccp_record::intf::*;
use ccp_tcp::{CaState, INFINITE_SSTHRESH, RateSample, Sock};

/// Measured only for programs that use them, as state is kept between folds.
const RATES: u64 = 1 << CCP_FLOW_RATE_INCOMING | 1 << CCP_FLOW_RATE_OUTGOING;
const ECN: u64 = 1 << CCP_ACK_ECN_BYTES | 1 << CCP_ACK_ECN_PACKETS;

/// As libccp reads an ACK without a sample.
const NO_RTT_SAMPLE: u64 = 0xffff_ffff;

/// Linux counts the SYN among the delivered packets; `Sock` does not.
const SYN_PKTS: u64 = 1;

pub(super) use ccp_lang::prims::Prims;

pub(super) struct Event<'a> {
    /// None: a timeout.
    pub sample: Option<&'a RateSample>,
    /// The ACK has the ECE flag.
    pub ece: bool,
    pub state: CaState,
    pub used: u64,
    /// The rate an extension allows the flow; 0: unlimited.
    pub rate_allowed_bytes_per_s: u64,
}

/// Counters of the socket at the last fold.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    bytes_acked: u64,
    sacked_out: u32,
    lost: u32,
    pub delivered: u32,
    delivered_ce: u32,
    /// Packets rejected since then by a queue of this host.
    pub local_congestion: u32,
}

fn set(prims: &mut Prims, index: u32, value: u64) {
    prims[index as usize] = value;
}

impl Counted {
    /// Counters restart here: for a new flow, and when an agent takes over from the fallback.
    pub fn start(sock: &Sock) -> Self {
        Self {
            bytes_acked: sock.bytes_acked,
            sacked_out: sock.sacked_out,
            lost: sock.lost,
            delivered: sock.delivered,
            delivered_ce: sock.delivered_ce,
            local_congestion: 0,
        }
    }

    /// Losses are those of `sock.lost`, so that those marked between two ACKs are included; without a valid
    /// sample a rate keeps its value.
    pub fn load(&mut self, prims: &mut Prims, sock: &Sock, event: &Event<'_>) {
        let sample = event.sample;
        let mss = u64::from(sock.mss_bytes);
        let bytes_acked = sock.bytes_acked - self.bytes_acked;
        let in_flight = u64::from(sock.packets_in_flight());
        let misordered = u64::from(sock.sacked_out.saturating_sub(self.sacked_out));
        let delivered = u64::from(sock.delivered.wrapping_sub(self.delivered));
        let rtt_us = sample.and_then(|s| u64::try_from(s.rtt_us).ok()).filter(|rtt| *rtt > 0);
        let ssthresh_bytes = match sock.snd_ssthresh {
            INFINITE_SSTHRESH.. => u64::MAX,
            pkts => u64::from(pkts) * mss,
        };
        set(prims, CCP_ACK_NOW, sock.mstamp_us);
        set(prims, CCP_ACK_BYTES_ACKED, bytes_acked);
        set(prims, CCP_ACK_PACKETS_ACKED, delivered.saturating_sub(misordered));
        set(prims, CCP_ACK_PACKETS_MISORDERED, misordered);
        set(prims, CCP_ACK_BYTES_MISORDERED, misordered * mss);
        set(prims, CCP_ACK_LOST_PKTS_SAMPLE, u64::from(sock.lost.wrapping_sub(self.lost)));
        set(prims, CCP_FLOW_PACKETS_IN_FLIGHT, in_flight);
        set(prims, CCP_FLOW_BYTES_IN_FLIGHT, in_flight * mss);
        set(prims, CCP_FLOW_RTT_SAMPLE_US, rtt_us.unwrap_or(NO_RTT_SAMPLE));
        set(prims, CCP_FLOW_WAS_TIMEOUT, u64::from(sample.is_none()));
        set(prims, CCP_FLOW_SRTT_US, u64::from(sock.srtt_us));
        set(prims, CCP_FLOW_MSS, mss);
        set(prims, CCP_FLOW_CA_STATE, event.state as u64);
        set(prims, CCP_FLOW_CWND_LIMITED, u64::from(sock.cwnd_limited()));
        set(prims, CCP_FLOW_LOCAL_CONGESTION, u64::from(self.local_congestion));
        set(prims, CCP_FLOW_DELIVERED_BYTES, sock.bytes_acked);
        set(prims, CCP_FLOW_SENT_BYTES, sock.bytes_acked + (sock.snd_nxt - sock.snd_una));
        let prior_delivered = sample.filter(|s| s.delivered >= 0).map(|s| u64::from(s.prior_delivered));
        set(prims, CCP_FLOW_PRIOR_DELIVERED, prior_delivered.map_or(0, |pkts| pkts + SYN_PKTS));
        set(prims, CCP_FLOW_PRIOR_IN_FLIGHT, sample.map_or(0, |s| u64::from(s.prior_in_flight)));
        set(prims, CCP_FLOW_SND_SSTHRESH, ssthresh_bytes);
        set(prims, CCP_FLOW_MIN_RTT_US, u64::from(sock.min_rtt_us));
        set(prims, CCP_FLOW_DELIVERED, u64::from(sock.delivered) + SYN_PKTS);
        set(prims, CCP_FLOW_LOST, u64::from(sock.lost));
        set(prims, CCP_FLOW_RETRANS, u64::from(sock.total_retrans));
        set(prims, CCP_FLOW_BYTES_PENDING, sock.write_seq - sock.snd_una);
        set(prims, CCP_FLOW_ECN_OK, u64::from(sock.ecn_ok));
        set(prims, CCP_FLOW_APP_LIMITED, u64::from(sample.is_some_and(|s| s.is_app_limited)));
        set(prims, CCP_FLOW_RATE_ALLOWED, event.rate_allowed_bytes_per_s);
        let mut delivered_ce = self.delivered_ce;
        if event.used & ECN != 0 {
            let marked = sock.delivered_ce.wrapping_sub(delivered_ce);
            set(prims, CCP_ACK_ECN_BYTES, if event.ece { bytes_acked } else { 0 });
            set(prims, CCP_ACK_ECN_PACKETS, u64::from(marked));
            delivered_ce = sock.delivered_ce;
        }
        if let Some(sample) = sample.filter(|_| event.used & RATES != 0) {
            load_rates(prims, mss, sample);
        }
        *self = Self { delivered_ce, ..Self::start(sock) };
    }
}

fn load_rates(prims: &mut Prims, mss: u64, sample: &RateSample) {
    if sample.delivered <= 0 || sample.interval_us <= 0 {
        return;
    }
    let bytes = sample.delivered as u64 * mss * 1_000_000;
    if let Some(rate) = bytes.checked_div(u64::from(sample.snd_interval_us)) {
        set(prims, CCP_FLOW_RATE_OUTGOING, rate);
    }
    if let Some(rate) = bytes.checked_div(u64::from(sample.rcv_interval_us)) {
        set(prims, CCP_FLOW_RATE_INCOMING, rate);
    }
}

#[cfg(test)]
#[path = "primitives_tests.rs"]
mod tests;
