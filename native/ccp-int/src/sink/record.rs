//! Each packet's telemetry as rows of a table: one per node on its path.

use std::fmt::{Display, Write};

use ccp_ioam::{Node, Numbers, State};

use super::ledger::Losses;
use super::{Came, Carried};
use crate::FlowKey;
use crate::nodes::{node_id, state, timestamp_us};

/// One node's data in one packet; packets without node data have one row.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRow {
    /// Arrival at the sink, CLOCK_MONOTONIC.
    pub mono_ns: u64,
    pub flow: FlowKey,
    /// Its number; for super-packets the first.
    pub sequence: Option<u64>,
    /// Its length without telemetry.
    pub len_bytes: u32,
    pub latency_us: Option<u64>,
    pub cwnd_bytes: Option<u32>,
    pub lost_congestion_pkts: u64,
    pub lost_link_pkts: u64,
    pub lost_unknown_pkts: u64,
    /// Position of the node, from 1.
    pub hop: Option<u16>,
    pub node: Node,
}

impl RecordRow {
    /// Names of the columns of [`RecordRow::write`], with a line feed.
    pub const HEADER: &str = "t_us,src,dst,src_port,dst_port,protocol,sequence,len_bytes,latency_us,cwnd_bytes,\
        lost_congestion_pkts,lost_link_pkts,lost_unknown_pkts,hop,node_id,hop_limit,ingress_if,egress_if,timestamp_us,\
        transit_delay_ns,queue_depth,buffer_occupancy,queue_free_pkts,arrival_pkts_per_s,flow_count,\
        link_lost_pkts,link_rate_bytes_per_s,flow_missing_pkts,flow_dropped_pkts,rssi_dbm,snr_db,data_rate_bytes_per_s,mcs\n";

    pub(super) fn gather(
        rows: &mut Vec<RecordRow>,
        mono_ns: u64,
        wall_ns: u64,
        came: &Came<'_>,
        lost: Losses,
        carried: &Carried,
    ) {
        let numbers = Numbers::of(carried.edge, carried.tcp, came.tcp_sequence, came.pkts);
        let row = |hop: Option<u16>, node: Node| RecordRow {
            mono_ns,
            flow: *came.flow,
            sequence: numbers.map(|numbers| numbers.first),
            len_bytes: came.len_bytes,
            latency_us: carried.latency_us(wall_ns),
            cwnd_bytes: carried.tcp.and_then(|tcp| tcp.cwnd_bytes),
            lost_congestion_pkts: lost.congestion,
            lost_link_pkts: lost.link,
            lost_unknown_pkts: lost.unknown,
            hop,
            node,
        };
        if carried.nodes.is_empty() {
            rows.push(row(None, Node::default()));
        }
        let hops = 1..;
        rows.extend(hops.zip(&carried.nodes).map(|(hop, node)| row(Some(hop), node.clone())));
    }

    /// Appends a CSV line; missing values are empty.
    pub fn write(&self, out: &mut String) {
        let (flow, node) = (&self.flow, &self.node);
        let State {
            queue_free_pkts,
            arrival_pkts_per_s,
            flow_count,
            lost_pkts,
            link_rate_bytes_per_s,
            flow_missing_pkts,
            flow_dropped_pkts,
            rssi_dbm,
            snr_db,
            data_rate_bytes_per_s,
            mcs,
        } = state(node).copied().unwrap_or_default();
        let mut line = Line(out);
        line.put(Some(self.mono_ns / 1000));
        line.put(Some(flow.src.to_canonical())).put(Some(flow.dst.to_canonical()));
        line.put(Some(flow.src_port)).put(Some(flow.dst_port)).put(Some(flow.protocol.name()));
        line.put(self.sequence).put(Some(self.len_bytes)).put(self.latency_us).put(self.cwnd_bytes);
        line.put(Some(self.lost_congestion_pkts)).put(Some(self.lost_link_pkts));
        line.put(Some(self.lost_unknown_pkts));
        line.put(self.hop).put(node_id(node)).put(node.hop_limit.or(node.hop_limit_wide));
        line.put(node.ingress_if.map(u32::from).or(node.ingress_if_wide));
        line.put(node.egress_if.map(u32::from).or(node.egress_if_wide));
        line.put(timestamp_us(node))
            .put(node.transit_delay_ns)
            .put(node.queue_depth)
            .put(node.buffer_occupancy);
        line.put(queue_free_pkts).put(arrival_pkts_per_s).put(flow_count).put(lost_pkts);
        line.put(link_rate_bytes_per_s).put(flow_missing_pkts).put(flow_dropped_pkts);
        line.put(rssi_dbm).put(snr_db).put(data_rate_bytes_per_s).put(mcs);
        line.end();
    }
}

struct Line<'a>(&'a mut String);

impl Line<'_> {
    fn put(&mut self, value: Option<impl Display>) -> &mut Self {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = write!(self.0, "{value}");
        }
        self.0.push(',');
        self
    }

    /// Replaces the last comma.
    fn end(&mut self) {
        self.0.pop();
        self.0.push('\n');
    }
}
