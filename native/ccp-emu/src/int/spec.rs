//! In-band telemetry as data.

use std::os::fd::RawFd;
use std::path::PathBuf;

use ccp_int::{SinkSpec, SourceSpec};
use serde::Deserialize;

use super::egress::Egress;
use crate::Result;
use crate::spec::bad;

/// Which nodes do what, and where results go.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Int {
    /// What sources put into packets.
    pub source: SourceSpec,
    /// What sinks make of it.
    pub sink: SinkSpec,
    /// Nodes that take part.
    pub nodes: Vec<IntNode>,
    /// The descriptor to which summaries are written, a line of JSON each.
    #[serde(default)]
    pub summaries_fd: Option<RawFd>,
    /// The file to which records of packets are written, as CSV.
    #[serde(default)]
    pub records_path: Option<PathBuf>,
}

/// A node that takes part.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct IntNode {
    /// Its index.
    pub node: usize,
    /// What it does.
    pub roles: Vec<Role>,
    /// What it calls itself in packets.
    pub node_id: u32,
    /// What it says of the wireless links that begin at it.
    #[serde(default)]
    pub radio: Option<Radio>,
}

/// What a node may do with packets.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It puts headers into packets that have none.
    Source,
    /// It writes what it knows into headers that are there.
    Transit,
    /// It takes headers off and keeps statistics.
    Sink,
}

/// What a wireless node says of its links; these never change.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Radio {
    /// Strength of the signal.
    pub rssi_dbm: Option<f64>,
    /// Signal to noise ratio.
    pub snr_db: Option<f64>,
    /// Modulation and coding scheme.
    pub mcs: Option<u8>,
    /// Rate at which the link sends.
    pub data_rate_bytes_per_s: Option<u32>,
}

impl Int {
    /// Whether its values can be, in a network of so many nodes.
    ///
    /// # Errors
    ///
    /// `emulator.bad_spec`, or what is wrong with the headers that sources are to make.
    pub(crate) fn check(&self, nodes: usize) -> Result<()> {
        self.source.check()?;
        if self.sink.records != self.records_path.is_some() {
            return Err(bad("records need a file, and a sink that keeps them").at("int.records_path"));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let place = format!("int.nodes[{index}]");
            if node.node >= nodes {
                return Err(bad(format!("there is no node {}", node.node)).at(place));
            }
            if self.nodes[..index].iter().any(|other| other.node == node.node) {
                return Err(bad("two entries are for the same node").at(place));
            }
            Egress::new(node, 0).check().map_err(|e| bad("a node could not write this").at(place).why(e))?;
        }
        Ok(())
    }
}
