//! In-band telemetry as data.

use std::os::fd::RawFd;
use std::path::PathBuf;

use ccp_int::{SinkSpec, SourceSpec};
use serde::Deserialize;

use super::egress::Egress;
use crate::Result;
use crate::spec::bad;

/// Roles of nodes, and destinations of results.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Int {
    pub source: SourceSpec,
    pub sink: SinkSpec,
    pub nodes: Vec<IntNode>,
    /// File descriptor for summaries, as lines of JSON.
    #[serde(default)]
    pub summaries_fd: Option<RawFd>,
    /// File for records of packets, as CSV.
    #[serde(default)]
    pub records_path: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct IntNode {
    pub node: usize,
    pub roles: Vec<Role>,
    pub node_id: u32,
    #[serde(default)]
    pub radio: Option<Radio>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Inserts headers into packets that have none.
    Source,
    /// Writes its data into existing headers.
    Transit,
    Sink,
}

/// Constant properties that a wireless node reports of its links.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Radio {
    pub rssi_dbm: Option<f64>,
    pub snr_db: Option<f64>,
    pub mcs: Option<u8>,
    pub data_rate_bytes_per_s: Option<u32>,
}

impl Int {
    /// Checks the values, for a network of `nodes` nodes. Errors: `emulator.bad_spec`, or what is wrong with
    /// the sources' headers.
    pub(crate) fn check(&self, nodes: usize) -> Result<()> {
        self.source.check()?;
        if self.sink.records != self.records_path.is_some() {
            return Err(bad("records require a file and a sink that keeps them").at("int.records_path"));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let place = format!("int.nodes[{index}]");
            if node.node >= nodes {
                return Err(bad(format!("there is no node {}", node.node)).at(place));
            }
            if self.nodes[..index].iter().any(|other| other.node == node.node) {
                return Err(bad("two entries are for the same node").at(place));
            }
            Egress::new(node, 0)
                .check()
                .map_err(|e| bad("a node cannot write these values").at(place).why(e))?;
        }
        Ok(())
    }
}
