//! What ccplane's nodes say of themselves: the opaque data of schema 0x636302, and of 0x636301 before it.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::wire::{bad_length, cannot_write, known, truncated, u16_at, u32_at};

/// Octets of what all nodes say, and of what those of wireless links say besides.
const COMMON_BYTES: usize = 24;
const RADIO_BYTES: usize = 12;
/// The same of the first version, which had neither the link's rate nor counters of the flow.
const FIRST_COMMON_BYTES: usize = 16;
/// Decibels are carried as hundredths above this many, so that no number has all bits set.
const LEAST_DECIBELS: f64 = -300.0;

/// State of a queue and of the link behind it. `None` is what a node cannot tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// Full-size packets for which the queue has room; [`State::UNLIMITED_PKTS`] if it has no limit.
    pub queue_free_pkts: Option<u32>,
    /// Packets a second that come to the queue.
    pub arrival_pkts_per_s: Option<u32>,
    /// Flows that share the queue.
    pub flow_count: Option<u32>,
    /// Packets lost on the link so far; on the wire, and thus when read, modulo 2^32 - 1.
    pub lost_pkts: Option<u64>,
    /// Rate at which the queue drains while it is busy; [`State::MOST_BYTES_PER_S`] is that much or more.
    pub link_rate_bytes_per_s: Option<u32>,
    /// Packets of this packet's flow that had not come when this one came; on the wire modulo 2^16 - 1.
    pub flow_missing_pkts: Option<u64>,
    /// Packets of this packet's flow, sent before it, that the node's own queue dropped; likewise.
    pub flow_dropped_pkts: Option<u64>,
    /// Strength of the signal.
    pub rssi_dbm: Option<f64>,
    /// Signal to noise ratio.
    pub snr_db: Option<f64>,
    /// Rate at which the link sends.
    pub data_rate_bytes_per_s: Option<u32>,
    /// Modulation and coding scheme.
    pub mcs: Option<u8>,
}

impl State {
    /// Schema ID on the wire; the last octet is the version.
    pub const SCHEMA_ID: u32 = 0x63_63_02;
    /// That of the first version, which is only read.
    pub const FIRST_SCHEMA_ID: u32 = 0x63_63_01;
    /// Room of a queue that has no limit. A node that does not know the limit says nothing of the room.
    pub const UNLIMITED_PKTS: u32 = u32::MAX - 1;
    /// The counter of losses starts again here.
    pub const LOST_MODULUS: u64 = u32::MAX as u64;
    /// The counters of the flow start again here.
    pub const FLOW_MODULUS: u64 = u16::MAX as u64;
    /// The highest rate that can be told.
    pub const MOST_BYTES_PER_S: u32 = u32::MAX - 1;
    /// Where, in the snapshot's data, the packets of the flow that the queue dropped stand.
    pub const FLOW_DROPPED_AT: usize = 22;

    /// Whether the queue has no limit.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.queue_free_pkts == Some(Self::UNLIMITED_PKTS)
    }

    fn is_wireless(&self) -> bool {
        self.rssi_dbm.is_some()
            || self.snr_db.is_some()
            || self.data_rate_bytes_per_s.is_some()
            || self.mcs.is_some()
    }

    /// Octets that it takes: without wireless fields, fewer.
    pub fn size(&self) -> usize {
        COMMON_BYTES + if self.is_wireless() { RADIO_BYTES } else { 0 }
    }

    /// Reads it; `None` if the schema is none of ours.
    ///
    /// # Errors
    ///
    /// `ioam.bad_length`: it has one of two sizes.
    pub fn read(schema_id: u32, data: &[u8], at: usize) -> Option<Result<Self>> {
        let common_bytes = match schema_id {
            Self::SCHEMA_ID => COMMON_BYTES,
            Self::FIRST_SCHEMA_ID => FIRST_COMMON_BYTES,
            _ => return None,
        };
        Some(Self::read_fields(schema_id, data, common_bytes, at))
    }

    fn read_fields(schema_id: u32, data: &[u8], common_bytes: usize, at: usize) -> Result<Self> {
        let sizes = [common_bytes, common_bytes + RADIO_BYTES];
        if !sizes.contains(&data.len()) {
            let [wired, wireless] = sizes;
            let why =
                format!("{} octets of schema {schema_id:#08x}, which has {wired} or {wireless}", data.len());
            return Err(bad_length("Opaque State Snapshot Length", at, why));
        }
        let (common, radio) = data.split_at(common_bytes);
        let word = |of, at| u32_at(of, at).and_then(|value| known(value, u32::MAX));
        let half = |of, at| u16_at(of, at).and_then(|value| known(value, u16::MAX));
        let decibels = |at| half(radio, at).map(|v| f64::from(v) / 100.0);
        let decibels = |at| decibels(at).map(|value| ((value + LEAST_DECIBELS) * 100.0).round() / 100.0);
        Ok(State {
            queue_free_pkts: word(common, 0),
            arrival_pkts_per_s: word(common, 4),
            flow_count: word(common, 8),
            lost_pkts: word(common, 12).map(u64::from),
            link_rate_bytes_per_s: word(common, 16),
            flow_missing_pkts: half(common, 20).map(u64::from),
            flow_dropped_pkts: half(common, Self::FLOW_DROPPED_AT).map(u64::from),
            rssi_dbm: decibels(0),
            snr_db: decibels(2),
            data_rate_bytes_per_s: word(radio, 4),
            mcs: radio.get(8).and_then(|mcs| known(*mcs, u8::MAX)),
        })
    }

    /// Writes [`State::size`] octets.
    ///
    /// # Errors
    ///
    /// `ioam.cannot_write`: a number is out of range or means *missing*.
    pub fn write(&self, out: &mut [u8]) -> Result<()> {
        let mut words = [u32::MAX; (COMMON_BYTES + RADIO_BYTES) / 4];
        words[0] = word("queue_free_pkts", self.queue_free_pkts)?;
        words[1] = word("arrival_pkts_per_s", self.arrival_pkts_per_s)?;
        words[2] = word("flow_count", self.flow_count)?;
        words[3] = self.lost_pkts.map_or(u32::MAX, |lost| (lost % Self::LOST_MODULUS) as u32);
        words[4] = word("link_rate_bytes_per_s", self.link_rate_bytes_per_s)?;
        words[5] = flow_word(self.flow_missing_pkts) << 16 | flow_word(self.flow_dropped_pkts);
        let rssi = decibels("rssi_dbm", self.rssi_dbm)?;
        words[6] = u32::from(rssi) << 16 | u32::from(decibels("snr_db", self.snr_db)?);
        words[7] = word("data_rate_bytes_per_s", self.data_rate_bytes_per_s)?;
        if self.mcs == Some(u8::MAX) {
            return Err(cannot_write("mcs", "255 means that it is missing"));
        }
        words[8] = u32::from(self.mcs.unwrap_or(u8::MAX)) << 24 | 0xff_ffff;
        let out = out.get_mut(..self.size()).ok_or_else(|| truncated("Opaque State Snapshot", 0))?;
        for (to, word) in out.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        Ok(())
    }
}

fn word(field: &str, value: Option<u32>) -> Result<u32> {
    match value {
        Some(u32::MAX) => Err(cannot_write(field, "all bits set mean that it is missing")),
        value => Ok(value.unwrap_or(u32::MAX)),
    }
}

/// A counter of the flow as it lies there.
pub fn flow_word(pkts: Option<u64>) -> u32 {
    pkts.map_or(State::FLOW_MODULUS, |pkts| pkts % State::FLOW_MODULUS) as u32
}

fn decibels(field: &str, value: Option<f64>) -> Result<u16> {
    let Some(value) = value else { return Ok(u16::MAX) };
    let steps = ((value - LEAST_DECIBELS) * 100.0).round();
    if (0.0..f64::from(u16::MAX)).contains(&steps) {
        return Ok(steps as u16);
    }
    Err(cannot_write(field, format!("{value} is not within -300 and 355.34")))
}
