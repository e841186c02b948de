//! What a node is told to do.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use ccp_int::{SinkSpec, SourceSpec};
use serde::Deserialize;

/// What a node does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Adds headers to what leaves.
    Source,
    /// Fills its slot in what leaves.
    Transit,
    /// Takes headers off what comes, and keeps statistics.
    Sink,
    /// Takes echoes of the path out of ACKs that come, and keeps them for their sockets.
    Reader,
}

/// A node on a device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// The device, in the network namespace of the caller.
    pub ifindex: u32,
    /// What the node does.
    pub roles: Vec<Role>,
    /// Its number in traces, 24 bits.
    pub node_id: u32,
    /// Octets in front of IP: 14 with Ethernet, 0 without a header.
    pub link_bytes: u32,
    /// Whether it is one end of a veth pair.
    pub is_veth: bool,
    /// Whether it sends through the air.
    pub is_wireless: bool,
    /// Longest IP packet that the device takes.
    pub mtu_bytes: u32,
    /// Destinations whose packets get headers: an address, and how many of its bits count.
    pub to: (Ipv6Addr, u8),
    /// Senders whose telemetry the sink reads, likewise; that of others is taken off unread.
    pub trusted: (Ipv6Addr, u8),
    /// What the source puts into packets; its namespace is that of all roles.
    pub source: SourceSpec,
    /// How the sink summarises.
    pub sink: SinkSpec,
    /// Pin directory of the agent whose flows get the echoes that a reader takes out.
    pub pin_dir: PathBuf,
}

impl NodeSpec {
    /// Whether ACKs that leave tell their senders of the path.
    pub(crate) fn reflects(&self) -> bool {
        self.sink.echo && self.roles.contains(&Role::Sink)
    }
}

/// Which packets a queue drops, as far as the kernel says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drops {
    /// Nobody can tell.
    #[default]
    Unknown,
    /// Those that come, at once.
    Early,
    /// Also those that wait.
    Late,
}

/// What the queue behind the device is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Whether the kernel's count of its packets is what waits.
    pub known: bool,
    /// Whether it has no limit.
    #[serde(default)]
    pub unlimited: bool,
    /// For how many packets it has room, if that is its limit.
    pub limit_pkts: Option<u32>,
    /// For how many bytes it has room, if that is its limit.
    pub limit_bytes: Option<u32>,
    /// What the queue counts for a full-size packet.
    pub packet_bytes: u32,
    /// What it drains at while it is busy.
    pub link_rate_bytes_per_s: Option<u64>,
    /// Which packets it drops.
    #[serde(default)]
    pub drops: Drops,
    /// mac80211's queues behind it, if somebody reads them.
    #[serde(default)]
    pub air: Option<Air>,
}

/// mac80211's queues behind a wireless device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Air {
    /// For how long a reading counts.
    pub fresh_ns: u64,
    /// For how many packets they have room, to all other ends together.
    pub limit_pkts: Option<u32>,
}

/// What waits in mac80211's queues for another end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// Hardware address of the other end; all zeroes stand for any that is not listed.
    pub address: [u8; 6],
    /// When reading began, by the monotonic clock.
    pub read_ns: u64,
    /// How many full-size packets wait for it.
    pub pkts: u32,
    /// How many packets wait for all.
    pub all_pkts: u32,
}

/// What is known of the air to another end of a wireless link.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Radio {
    /// Hardware address of the other end; all zeroes stand for any that is not listed.
    pub address: [u8; 6],
    /// Losses and signal, the fields of the wire format.
    pub state: ccp_ioam::State,
}
