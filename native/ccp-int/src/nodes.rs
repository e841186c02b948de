//! What nodes mean by their numbers.

use std::collections::BTreeMap;

use ccp_ioam::{Node, Snapshot, State};
use serde::Deserialize;

/// What a queue is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Packets, as ccplane's nodes count.
    Packets,
    /// Bytes, as Linux does.
    Bytes,
}

/// What is known of a node beforehand.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeInfo {
    /// What people call it.
    pub name: String,
    /// What its queue depth is measured in; packets if it writes our snapshot, and unknown if not.
    pub queue_depth_unit: Option<Unit>,
    /// Somebody knows that its queue is never full, though the node says nothing of it.
    pub queue_is_unlimited: bool,
}

/// Nodes by their number.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct NodeTable(pub BTreeMap<u64, NodeInfo>);

impl NodeTable {
    /// What a node's queue depth is measured in, if that is known.
    pub(crate) fn unit(&self, node: &Node) -> Option<Unit> {
        let listed = node_id(node).and_then(|id| self.0.get(&id)?.queue_depth_unit);
        listed.or_else(|| state(node).map(|_| Unit::Packets))
    }

    /// Room of the queue that the node does not tell.
    pub(crate) fn untold_room(&self, node_id: Option<u64>) -> Option<u32> {
        let listed = node_id.and_then(|id| self.0.get(&id));
        listed.is_some_and(|node| node.queue_is_unlimited).then_some(State::UNLIMITED_PKTS)
    }
}

/// Number of a node, short or wide.
pub(crate) fn node_id(node: &Node) -> Option<u64> {
    node.node_id.map(u64::from).or(node.node_id_wide)
}

/// Hop limit with which a packet left it.
pub(crate) fn hop_limit(node: &Node) -> Option<u8> {
    node.hop_limit.or(node.hop_limit_wide)
}

/// When a packet came to it, since 1970.
pub(crate) fn timestamp_us(node: &Node) -> Option<u64> {
    Some(u64::from(node.timestamp_s?) * 1_000_000 + u64::from(node.timestamp_fraction?))
}

/// What one of ours said of itself.
pub(crate) fn state(node: &Node) -> Option<&State> {
    match &node.snapshot {
        Some(Snapshot::Ccplane(state)) => Some(state),
        _ => None,
    }
}
