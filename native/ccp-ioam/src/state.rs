//! State of ccplane's nodes: the opaque data of schema 0x636302, and of its predecessor 0x636301.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::wire::{bad_length, cannot_write, known, truncated, u16_at, u32_at};

/// Length of the common part, and of the additional wireless part.
const COMMON_BYTES: usize = 24;
const RADIO_BYTES: usize = 12;
/// The same in the first version, without the link's rate and the flow's counters.
const FIRST_COMMON_BYTES: usize = 16;
/// Decibels are encoded as hundredths above this value, so that no number has all bits set.
const MIN_DECIBELS: f64 = -300.0;

/// State of a queue and its link. `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// Free room in full-size packets; [`State::UNLIMITED_PKTS`] if the queue has no limit.
    pub queue_free_pkts: Option<u32>,
    /// Arriving packets per second.
    pub arrival_pkts_per_s: Option<u32>,
    pub flow_count: Option<u32>,
    /// Packets lost on the link so far; modulo 2^32 - 1 on the wire and when read.
    pub lost_pkts: Option<u64>,
    /// Drain rate of the queue while busy; [`State::MAX_BYTES_PER_S`]: that or more.
    pub link_rate_bytes_per_s: Option<u32>,
    /// Packets of this packet's flow missing when this one arrived; modulo 2^16 - 1 on the wire.
    pub flow_missing_pkts: Option<u64>,
    /// Earlier packets of this packet's flow dropped by the node's own queue; likewise.
    pub flow_dropped_pkts: Option<u64>,
    pub rssi_dbm: Option<f64>,
    pub snr_db: Option<f64>,
    pub data_rate_bytes_per_s: Option<u32>,
    pub mcs: Option<u8>,
}

impl State {
    /// Schema ID on the wire; the last byte is the version.
    pub const SCHEMA_ID: u32 = 0x63_63_02;
    /// The schema ID of the first version, which is only read.
    pub const FIRST_SCHEMA_ID: u32 = 0x63_63_01;
    /// Free room of an unlimited queue. A node that does not know the limit reports no free room.
    pub const UNLIMITED_PKTS: u32 = u32::MAX - 1;
    /// Modulus of the counter of losses.
    pub const LOST_MODULUS: u64 = u32::MAX as u64;
    /// Modulus of the flow's counters.
    pub const FLOW_MODULUS: u64 = u16::MAX as u64;
    /// The maximum encodable rate.
    pub const MAX_BYTES_PER_S: u32 = u32::MAX - 1;
    /// Offset of the flow's drops in the snapshot's data.
    pub const FLOW_DROPPED_AT: usize = 22;

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

    /// Length; shorter without wireless fields.
    pub fn size(&self) -> usize {
        COMMON_BYTES + if self.is_wireless() { RADIO_BYTES } else { 0 }
    }

    /// Parses it; `None` for a third-party schema. Errors: `ioam.bad_length` unless it has one of two sizes.
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
                format!("{} bytes of schema {schema_id:#08x}, which has {wired} or {wireless}", data.len());
            return Err(bad_length("Opaque State Snapshot Length", at, why));
        }
        let (common, radio) = data.split_at(common_bytes);
        let word = |of, at| u32_at(of, at).and_then(|value| known(value, u32::MAX));
        let half = |of, at| u16_at(of, at).and_then(|value| known(value, u16::MAX));
        let decibels = |at| half(radio, at).map(|v| f64::from(v) / 100.0);
        let decibels = |at| decibels(at).map(|value| ((value + MIN_DECIBELS) * 100.0).round() / 100.0);
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

    /// Writes [`State::size`] bytes. Errors: `ioam.cannot_write` if a number is out of range or means
    /// *missing*.
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
            return Err(cannot_write("mcs", "the value 255 means unknown"));
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
        Some(u32::MAX) => Err(cannot_write(field, "the value with all bits set means unknown")),
        value => Ok(value.unwrap_or(u32::MAX)),
    }
}

/// A counter of the flow on the wire.
pub fn flow_word(pkts: Option<u64>) -> u32 {
    pkts.map_or(State::FLOW_MODULUS, |pkts| pkts % State::FLOW_MODULUS) as u32
}

fn decibels(field: &str, value: Option<f64>) -> Result<u16> {
    let Some(value) = value else { return Ok(u16::MAX) };
    let steps = ((value - MIN_DECIBELS) * 100.0).round();
    if (0.0..f64::from(u16::MAX)).contains(&steps) {
        return Ok(steps as u16);
    }
    Err(cannot_write(field, format!("{value} is not within -300 and 355.34")))
}
