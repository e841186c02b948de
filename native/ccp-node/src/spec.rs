//! Settings of a node.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use ccp_int::{SinkSpec, SourceSpec};
use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Inserts headers into outgoing packets.
    Source,
    /// Fills its slot in outgoing packets.
    Transit,
    /// Removes headers from incoming packets, and keeps statistics.
    Sink,
    /// Removes echoes of the path from incoming ACKs, and stores them for their sockets.
    Reader,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    pub ifindex: u32,
    pub roles: Vec<Role>,
    /// Its id in traces, 24 bits.
    pub node_id: u32,
    /// Bytes before IP: 14 with Ethernet, 0 without a header.
    pub link_bytes: u32,
    pub is_veth: bool,
    pub is_wireless: bool,
    pub mtu_bytes: u32,
    /// Prefix of the destinations whose packets get headers: address and length.
    pub to: (Ipv6Addr, u8),
    /// Prefix of the senders whose telemetry is read; that of other senders is removed unread. `None`: no
    /// sender is trusted.
    pub trusted: Option<(Ipv6Addr, u8)>,
    /// The source's headers; their namespace applies to all roles.
    pub source: SourceSpec,
    pub sink: SinkSpec,
    /// Pin directory of the agent whose flows get the reader's echoes.
    pub pin_dir: PathBuf,
}

impl NodeSpec {
    /// Whether outgoing ACKs carry echoes of the path.
    pub(crate) fn reflects(&self) -> bool {
        self.sink.echo && self.roles.contains(&Role::Sink)
    }
}

/// The drops of a queue that the kernel reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drops {
    #[default]
    Unknown,
    /// Those of arriving packets.
    Early,
    /// Also those of waiting packets.
    Late,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Whether the kernel's packet count is the queue's length.
    pub known: bool,
    #[serde(default)]
    pub unlimited: bool,
    /// Its limit in packets, if it has one.
    pub limit_pkts: Option<u32>,
    /// Its limit in bytes, if it has one.
    pub limit_bytes: Option<u32>,
    /// Size of a full-size packet in the queue's accounting.
    pub packet_bytes: u32,
    /// Its drain rate while busy.
    pub link_rate_bytes_per_s: Option<u64>,
    #[serde(default)]
    pub drops: Drops,
    /// mac80211's queues after it, if they are read.
    #[serde(default)]
    pub air: Option<Air>,
}

/// mac80211's queues of a wireless device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Air {
    /// Maximum age of a reading.
    pub fresh_ns: u64,
    pub limit_pkts: Option<u32>,
}

/// mac80211's queue for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// Hardware address of the peer; all zeroes match unlisted ones.
    pub address: [u8; 6],
    /// Start of the reading, on the monotonic clock.
    pub read_ns: u64,
    /// Full-size packets waiting for it.
    pub pkts: u32,
    /// Packets waiting for all peers.
    pub all_pkts: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Radio {
    /// Hardware address of the peer; all zeroes match unlisted ones.
    pub address: [u8; 6],
    pub state: ccp_ioam::State,
}
