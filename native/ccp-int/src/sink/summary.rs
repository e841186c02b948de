//! What a sink says, as the bus has it: `telemetry.schema.IntSummary`.

use std::net::IpAddr;

use serde::Serialize;

use crate::{FlowKey, Protocol};

/// A flow as the bus names it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowId {
    /// Sender.
    pub src: IpAddr,
    /// Its port.
    pub src_port: u16,
    /// Receiver.
    pub dst: IpAddr,
    /// Its port.
    pub dst_port: u16,
    /// TCP or UDP.
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

/// Where losses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LossCause {
    /// Nothing was lost.
    None,
    /// Lost on links.
    Wireless,
    /// Queues were full.
    Overflow,
    /// Both.
    Mixed,
}

/// One flow over one interval. `None`: nobody could tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename = "int_summary")]
pub struct Summary {
    /// Which flow.
    pub flow: FlowId,
    /// From the last packet of the summary before to the last one of this.
    pub interval_us: u64,
    /// When that was, by the sink's monotonic clock.
    pub end_mono_us: u64,
    /// Packets that came.
    pub received_pkts: u64,
    /// Packets that did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_pkts: Option<u64>,
    /// Packets of which it is known now that a queue dropped them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_congestion_pkts: Option<u64>,
    /// Packets of which it is known now that a link lost them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_link_pkts: Option<u64>,
    /// Packets that did not come, nobody knows why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_unknown_pkts: Option<u64>,
    /// Mean time from source to sink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
    /// The longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_max_us: Option<u64>,
    /// Mean difference of neighbouring ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_us: Option<u64>,
    /// Lost by sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    /// Where losses come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_cause: Option<LossCause>,
    /// Window of the sender, the last that was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u32>,
    /// Whether hop limits show that there are nodes on the path which wrote nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_silent_hop: bool,
    /// Nodes in the order of the path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
}

fn is_none(pkts: &u64) -> bool {
    *pkts == 0
}

/// One node over the interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hop {
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<u64>,
    /// For how long, by its own clock: the time of its means.
    pub interval_us: u64,
    /// Mean of what waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth_bytes: Option<u64>,
    /// Mean of what waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth_pkts: Option<f64>,
    /// Mean room for packets of full size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_free_pkts: Option<f64>,
    /// Its queue has no limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub queue_is_unlimited: bool,
    /// Packets that came to its queue, by time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_pkts_per_s: Option<u64>,
    /// Mean number of flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_count: Option<u64>,
    /// Mean time within it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transit_delay_us: Option<u64>,
    /// Lost on the link behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_pkts: Option<u64>,
    /// Packets of the flow that its queue dropped.
    #[serde(skip_serializing_if = "is_none")]
    pub lost_congestion_pkts: u64,
    /// Packets of the flow that the link behind it lost.
    #[serde(skip_serializing_if = "is_none")]
    pub lost_link_pkts: u64,
    /// Mean strength of the signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rssi_dbm: Option<f64>,
    /// Mean signal to noise ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snr_db: Option<f64>,
    /// Modulation and coding scheme, the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u8>,
    /// Mean rate of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_rate_bytes_per_s: Option<u64>,
}
