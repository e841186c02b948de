//! One node's data in a trace (RFC 9197, section 4.4.2).

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::snapshot::Snapshot;
use crate::trace_type::TraceType;
use crate::wire::{cannot_write, known, truncated, u32_at, u64_at};

const MAX_SHORT_ID: u32 = 0xff_ffff;
const MAX_WIDE_ID: u64 = 0xff_ffff_ffff_ffff;
/// Delays from here on have the same encoding.
const MAX_DELAY_NS: u64 = 1 << 31;

/// Data of a node. `None`: not requested by the trace, or unknown to the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Node {
    /// Hop limit at which the packet left the node; 255 means unknown.
    pub hop_limit: Option<u8>,
    /// Id of the node, 24 bits.
    pub node_id: Option<u32>,
    pub ingress_if: Option<u16>,
    pub egress_if: Option<u16>,
    /// Arrival time: seconds.
    pub timestamp_s: Option<u32>,
    /// Fraction of the second, in the unit of the domain's timestamp format.
    pub timestamp_fraction: Option<u32>,
    /// Time in the node; 2^31 if that or longer.
    pub transit_delay_ns: Option<u64>,
    /// Defined by the namespace.
    pub namespace_data: Option<u32>,
    /// Queue of the egress interface, in the node's unit.
    pub queue_depth: Option<u32>,
    /// Corrects a UDP checksum.
    pub checksum_complement: Option<u32>,
    /// Hop limit next to the wide node id.
    pub hop_limit_wide: Option<u8>,
    /// Id of the node, 56 bits.
    pub node_id_wide: Option<u64>,
    pub ingress_if_wide: Option<u32>,
    pub egress_if_wide: Option<u32>,
    /// Defined by the namespace, 64 bits.
    pub namespace_data_wide: Option<u64>,
    /// Use of shared buffers, in the node's unit.
    pub buffer_occupancy: Option<u32>,
    /// State in a schema.
    pub snapshot: Option<Snapshot>,
}

impl Node {
    /// Length in a trace of this type.
    pub fn size(&self, trace_type: TraceType) -> usize {
        let snapshot = trace_type.has(TraceType::SNAPSHOT);
        let snapshot = if snapshot { Snapshot::size(self.snapshot.as_ref()) } else { 0 };
        usize::from(trace_type.node_words()) * 4 + snapshot
    }

    /// Parses one; returns it with its length. Errors: `ioam.truncated` or `ioam.bad_length`.
    pub fn read(bytes: &[u8], trace_type: TraceType, at: usize) -> Result<(Self, usize)> {
        let fixed = usize::from(trace_type.node_words()) * 4;
        if bytes.len() < fixed {
            return Err(truncated("node data", at));
        }
        let mut node = Node::default();
        let mut offset = 0;
        // The length of requested fields was checked.
        let mut word = |field| {
            let there = trace_type.has(field);
            offset += if there { 4 } else { 0 };
            there.then(|| u32_at(bytes, offset - 4)).flatten()
        };
        let number = |word: Option<u32>| word.and_then(|value| known(value, u32::MAX));
        if let Some(value) = word(TraceType::NODE) {
            node.hop_limit = known((value >> 24) as u8, u8::MAX);
            node.node_id = known(value & MAX_SHORT_ID, MAX_SHORT_ID);
        }
        if let Some(value) = word(TraceType::INTERFACES) {
            node.ingress_if = known((value >> 16) as u16, u16::MAX);
            node.egress_if = known(value as u16, u16::MAX);
        }
        node.timestamp_s = number(word(TraceType::TIMESTAMP_S));
        node.timestamp_fraction = number(word(TraceType::TIMESTAMP_FRACTION));
        let delay_ns = number(word(TraceType::TRANSIT_DELAY));
        node.transit_delay_ns = delay_ns.map(|ns| u64::from(ns).min(MAX_DELAY_NS));
        node.namespace_data = number(word(TraceType::NAMESPACE_DATA));
        node.queue_depth = number(word(TraceType::QUEUE_DEPTH));
        node.checksum_complement = number(word(TraceType::CHECKSUM_COMPLEMENT));
        let mut double = |field| {
            let there = trace_type.has(field);
            offset += if there { 8 } else { 0 };
            there.then(|| u64_at(bytes, offset - 8)).flatten()
        };
        if let Some(value) = double(TraceType::NODE_WIDE) {
            node.hop_limit_wide = known((value >> 56) as u8, u8::MAX);
            node.node_id_wide = known(value & MAX_WIDE_ID, MAX_WIDE_ID);
        }
        if let Some(value) = double(TraceType::INTERFACES_WIDE) {
            node.ingress_if_wide = known((value >> 32) as u32, u32::MAX);
            node.egress_if_wide = known(value as u32, u32::MAX);
        }
        let data = double(TraceType::NAMESPACE_DATA_WIDE);
        node.namespace_data_wide = data.and_then(|value| known(value, u64::MAX));
        if trace_type.has(TraceType::BUFFER_OCCUPANCY) {
            node.buffer_occupancy = number(u32_at(bytes, offset));
        }
        // Undefined fields are between here and the end of the fixed part.
        let mut size = fixed;
        if trace_type.has(TraceType::SNAPSHOT) {
            let (snapshot, snapshot_size) = Snapshot::read(&bytes[fixed..], at + fixed)?;
            node.snapshot = snapshot;
            size += snapshot_size;
        }
        Ok((node, size))
    }

    /// Writes [`Node::size`] bytes. Errors: `ioam.cannot_write` if a number is out of range, or has all bits
    /// set, which means *missing*.
    pub fn write(&self, trace_type: TraceType, out: &mut [u8]) -> Result<()> {
        let mut writer = Writer { out, trace_type };
        let hop_limit = short("hop_limit", self.hop_limit.map(u32::from), u8::MAX.into())?;
        let node_id = short("node_id", self.node_id, MAX_SHORT_ID)?;
        writer.word(TraceType::NODE, hop_limit << 24 | node_id)?;
        let ingress = short("ingress_if", self.ingress_if.map(u32::from), u16::MAX.into())?;
        let egress = short("egress_if", self.egress_if.map(u32::from), u16::MAX.into())?;
        writer.word(TraceType::INTERFACES, ingress << 16 | egress)?;
        writer.word(TraceType::TIMESTAMP_S, word("timestamp_s", self.timestamp_s)?)?;
        writer.word(TraceType::TIMESTAMP_FRACTION, word("timestamp_fraction", self.timestamp_fraction)?)?;
        writer.word(TraceType::TRANSIT_DELAY, delay_word(self.transit_delay_ns))?;
        writer.word(TraceType::NAMESPACE_DATA, word("namespace_data", self.namespace_data)?)?;
        writer.word(TraceType::QUEUE_DEPTH, word("queue_depth", self.queue_depth)?)?;
        let complement = word("checksum_complement", self.checksum_complement)?;
        writer.word(TraceType::CHECKSUM_COMPLEMENT, complement)?;
        let hop_limit = wide("hop_limit_wide", self.hop_limit_wide.map(u64::from), u8::MAX.into())?;
        let node_id = wide("node_id_wide", self.node_id_wide, MAX_WIDE_ID)?;
        writer.double(TraceType::NODE_WIDE, hop_limit << 56 | node_id)?;
        let ingress = word("ingress_if_wide", self.ingress_if_wide)?;
        let egress = word("egress_if_wide", self.egress_if_wide)?;
        writer.double(TraceType::INTERFACES_WIDE, u64::from(ingress) << 32 | u64::from(egress))?;
        let data = wide("namespace_data_wide", self.namespace_data_wide, u64::MAX)?;
        writer.double(TraceType::NAMESPACE_DATA_WIDE, data)?;
        writer.word(TraceType::BUFFER_OCCUPANCY, word("buffer_occupancy", self.buffer_occupancy)?)?;
        // A transit node may meet fields defined later (RFC 9197, section 4.4.1, bits 12 to 21).
        for _ in 0..(trace_type.0 & TraceType::UNDEFINED).count_ones() {
            writer.word(TraceType::UNDEFINED, u32::MAX)?;
        }
        if trace_type.has(TraceType::SNAPSHOT) {
            Snapshot::write(self.snapshot.as_ref(), writer.out)?;
        }
        Ok(())
    }
}

pub fn delay_word(delay_ns: Option<u64>) -> u32 {
    delay_ns.map_or(u32::MAX, |ns| ns.min(MAX_DELAY_NS) as u32)
}

struct Writer<'a> {
    out: &'a mut [u8],
    trace_type: TraceType,
}

impl Writer<'_> {
    fn word(&mut self, field: u32, value: u32) -> Result<()> {
        self.raw(field, value.to_be_bytes())
    }

    fn double(&mut self, field: u32, value: u64) -> Result<()> {
        self.raw(field, value.to_be_bytes())
    }

    fn raw<const N: usize>(&mut self, field: u32, raw: [u8; N]) -> Result<()> {
        if self.trace_type.has(field) {
            let out = std::mem::take(&mut self.out);
            let (place, rest) = out.split_first_chunk_mut::<N>().ok_or_else(|| truncated("node data", 0))?;
            *place = raw;
            self.out = rest;
        }
        Ok(())
    }
}

fn word(field: &str, value: Option<u32>) -> Result<u32> {
    short(field, value, u32::MAX)
}

fn short(field: &str, value: Option<u32>, all_ones: u32) -> Result<u32> {
    wide(field, value.map(u64::from), all_ones.into()).map(|value| value as u32)
}

fn wide(field: &str, value: Option<u64>, all_ones: u64) -> Result<u64> {
    match value {
        Some(value) if value == all_ones => {
            Err(cannot_write(field, "the value with all bits set means unknown"))
        }
        Some(value) if value > all_ones => Err(cannot_write(field, format!("{value} has too many bits"))),
        value => Ok(value.unwrap_or(all_ones)),
    }
}
