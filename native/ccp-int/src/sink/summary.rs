//! A sink's message, as `telemetry.schema.IntSummary`.

use std::net::IpAddr;

use serde::Serialize;

use crate::{FlowKey, Protocol};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowId {
    pub src: IpAddr,
    pub src_port: u16,
    pub dst: IpAddr,
    pub dst_port: u16,
    pub protocol: Protocol,
}

impl From<&FlowKey> for FlowId {
    fn from(key: &FlowKey) -> Self {
        FlowId {
            src: key.src.to_canonical(),
            src_port: key.src_port,
            dst: key.dst.to_canonical(),
            dst_port: key.dst_port,
            protocol: key.protocol,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LossCause {
    None,
    Wireless,
    Overflow,
    Mixed,
}

/// One flow over one interval. `None`: unknown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename = "int_summary")]
pub struct Summary {
    pub flow: FlowId,
    /// From the last packet of the previous summary to the last one of this.
    pub interval_us: u64,
    /// End of the interval, on the sink's monotonic clock.
    pub end_mono_us: u64,
    pub received_pkts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_pkts: Option<u64>,
    /// Packets now known to be dropped by a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_congestion_pkts: Option<u64>,
    /// Packets now known to be lost by a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_link_pkts: Option<u64>,
    /// Lost packets of unknown cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_unknown_pkts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_max_us: Option<u64>,
    /// Mean difference of consecutive latencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_us: Option<u64>,
    /// Lost packets divided by sent packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_cause: Option<LossCause>,
    /// Last reported window of the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u32>,
    /// Whether hop limits show nodes on the path that wrote nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_silent_hop: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
}

fn is_none(pkts: &u64) -> bool {
    *pkts == 0
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hop {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<u64>,
    /// Length of the interval on its own clock: the time of its means.
    pub interval_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth_pkts: Option<f64>,
    /// Mean free room for full-size packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_free_pkts: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub queue_is_unlimited: bool,
    /// Arrivals at its queue per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_pkts_per_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_count: Option<u64>,
    /// Mean transit delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transit_delay_us: Option<u64>,
    /// Lost on its link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_pkts: Option<u64>,
    #[serde(skip_serializing_if = "is_none")]
    pub lost_congestion_pkts: u64,
    /// Packets of the flow lost by its link.
    #[serde(skip_serializing_if = "is_none")]
    pub lost_link_pkts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rssi_dbm: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snr_db: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_rate_bytes_per_s: Option<u64>,
}
