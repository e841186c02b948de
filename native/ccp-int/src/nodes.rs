//! Configured knowledge about nodes.

use std::collections::BTreeMap;

use ccp_ioam::{Node, Snapshot, State};
use serde::Deserialize;

/// Unit of a queue's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// As in ccplane's nodes.
    Packets,
    /// As in Linux.
    Bytes,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeInfo {
    pub name: String,
    /// Unit of its queue length; if None, packets for nodes with ccplane's snapshot, otherwise unknown.
    pub queue_depth_unit: Option<Unit>,
    /// Its queue is known never to be full, though the node does not report it.
    pub queue_is_unlimited: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct NodeTable(pub BTreeMap<u64, NodeInfo>);

impl NodeTable {
    /// Unit of a node's queue length, if known.
    pub(crate) fn unit(&self, node: &Node) -> Option<Unit> {
        let listed = node_id(node).and_then(|id| self.0.get(&id)?.queue_depth_unit);
        listed.or_else(|| state(node).map(|_| Unit::Packets))
    }

    /// Configured free room, for a node that does not report it.
    pub(crate) fn untold_room(&self, node_id: Option<u64>) -> Option<u32> {
        let listed = node_id.and_then(|id| self.0.get(&id));
        listed.is_some_and(|node| node.queue_is_unlimited).then_some(State::UNLIMITED_PKTS)
    }
}

pub(crate) fn node_id(node: &Node) -> Option<u64> {
    node.node_id.map(u64::from).or(node.node_id_wide)
}

pub(crate) fn hop_limit(node: &Node) -> Option<u8> {
    node.hop_limit.or(node.hop_limit_wide)
}

/// Arrival time of a packet at it, since 1970.
pub(crate) fn timestamp_us(node: &Node) -> Option<u64> {
    Some(u64::from(node.timestamp_s?) * 1_000_000 + u64::from(node.timestamp_fraction?))
}

pub(crate) fn state(node: &Node) -> Option<&State> {
    match &node.snapshot {
        Some(Snapshot::Ccplane(state)) => Some(state),
        _ => None,
    }
}
