//! Trace options: data of nodes on the path (RFC 9197, section 4.4).

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::node::Node;
use crate::trace_type::TraceType;
use crate::wire::{bad_length, bad_value, cannot_write, truncated, u16_at, u32_at};

/// Length of the header before the node data.
pub const HEADER_BYTES: usize = 8;
/// Words of node data that fit into an IPv6 option of at most 255 bytes.
const MAX_DATA_WORDS: usize = 61;

const OVERFLOW: u16 = 0x400;
const LOOPBACK: u16 = 0x200;
const ACTIVE: u16 = 0x100;
const REMAINING: u16 = 0x7f;

/// A trace in a packet.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    /// Whether nodes extend the option instead of filling reserved room.
    pub incremental: bool,
    pub namespace_id: u16,
    pub overflow: bool,
    /// A copy is to be returned to the source (RFC 9322).
    pub loopback: bool,
    /// The packet was made for measurement (RFC 9322).
    pub active: bool,
    /// Free room in words of four bytes.
    pub remaining_words: u8,
    pub trace_type: TraceType,
    data: &'a [u8],
    at: usize,
}

impl<'a> Trace<'a> {
    /// Parses the header from Namespace-ID on, at byte `at` of the packet. Errors: `ioam.truncated`,
    /// `ioam.bad_length` or `ioam.bad_value`.
    pub fn read(body: &'a [u8], at: usize, incremental: bool) -> Result<Self> {
        let cut = || truncated("IOAM trace header", at);
        let namespace_id = u16_at(body, 0).ok_or_else(cut)?;
        let flags = u16_at(body, 2).ok_or_else(cut)?;
        let trace_type = TraceType(u32_at(body, 4).ok_or_else(cut)? >> 8);
        let data = &body[HEADER_BYTES..];
        if !data.len().is_multiple_of(4) {
            let why = format!("{} bytes of node data are not a multiple of 4", data.len());
            return Err(bad_length("Opt Data Len", at - 3, why));
        }
        let node_words = flags >> 11;
        if node_words != u16::from(trace_type.node_words()) {
            let why = format!(
                "it is {node_words}, and fields of trace type {:#08x} have {} words",
                trace_type.0,
                trace_type.node_words()
            );
            return Err(bad_value("NodeLen", at + 2, why));
        }
        if node_words == 0 && !trace_type.has(TraceType::SNAPSHOT) {
            return Err(bad_value("IOAM-Trace-Type", at + 4, "it requests no field"));
        }
        let remaining_words = (flags & REMAINING) as u8;
        if !incremental && usize::from(remaining_words) * 4 > data.len() {
            let why = format!("it is {remaining_words}, but the option has {} words", data.len() / 4);
            return Err(bad_value("RemainingLen", at + 3, why));
        }
        Ok(Trace {
            incremental,
            namespace_id,
            overflow: flags & OVERFLOW != 0,
            loopback: flags & LOOPBACK != 0,
            active: flags & ACTIVE != 0,
            remaining_words,
            trace_type,
            data,
            at: at + HEADER_BYTES,
        })
    }

    fn free_bytes(&self) -> usize {
        if self.incremental { 0 } else { usize::from(self.remaining_words) * 4 }
    }

    /// The nodes' data, the last node first, as in the packet.
    pub fn nodes(&self) -> Nodes<'a> {
        let free = self.free_bytes();
        Nodes { data: &self.data[free..], trace_type: self.trace_type, at: self.at + free }
    }

    /// An owned copy. Errors: those of [`Node::read`].
    pub fn to_option(&self) -> Result<TraceOption> {
        let mut nodes = self.nodes().collect::<Result<Vec<_>>>()?;
        nodes.reverse();
        Ok(TraceOption {
            incremental: self.incremental,
            namespace_id: self.namespace_id,
            overflow: self.overflow,
            loopback: self.loopback,
            active: self.active,
            trace_type: self.trace_type,
            remaining_words: self.remaining_words,
            nodes,
        })
    }
}

#[derive(Clone, Debug)]
pub struct Nodes<'a> {
    data: &'a [u8],
    trace_type: TraceType,
    at: usize,
}

impl Iterator for Nodes<'_> {
    type Item = Result<Node>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.data.is_empty() {
            return None;
        }
        let read = Node::read(self.data, self.trace_type, self.at);
        let size = read.as_ref().map_or(self.data.len(), |(_, size)| *size);
        self.data = self.data.get(size..).unwrap_or_default();
        self.at += size;
        Some(read.map(|(node, _)| node))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceOption {
    /// Whether nodes extend the option; such traces are read-only.
    pub incremental: bool,
    pub namespace_id: u16,
    pub overflow: bool,
    pub loopback: bool,
    pub active: bool,
    pub trace_type: TraceType,
    pub remaining_words: u8,
    /// The nodes' data in the order of the path, which is reversed in the packet.
    pub nodes: Vec<Node>,
}

impl TraceOption {
    /// Appends it from Namespace-ID on. Errors: `ioam.cannot_write`.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.incremental {
            return Err(cannot_write("incremental", "its format in IPv6 is not specified (RFC 9486)"));
        }
        if !self.trace_type.is_sendable() {
            let why = format!("{:#08x} requests nothing, or undefined fields", self.trace_type.0);
            return Err(cannot_write("trace_type", why));
        }
        let nodes_bytes: usize = self.nodes.iter().map(|node| node.size(self.trace_type)).sum();
        let words = usize::from(self.remaining_words) + nodes_bytes / 4;
        if words > MAX_DATA_WORDS {
            let why = format!("{words} words of node data; an IPv6 option has room for {MAX_DATA_WORDS}");
            return Err(cannot_write("remaining_words", why));
        }
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = u16::from(self.trace_type.node_words()) << 11
            | flag(self.overflow, OVERFLOW)
            | flag(self.loopback, LOOPBACK)
            | flag(self.active, ACTIVE)
            | u16::from(self.remaining_words);
        out.extend(self.namespace_id.to_be_bytes());
        out.extend(flags.to_be_bytes());
        out.extend((self.trace_type.0 << 8).to_be_bytes());
        let mut at = out.len() + usize::from(self.remaining_words) * 4;
        out.resize(out.len() + words * 4, 0);
        for node in self.nodes.iter().rev() {
            let end = at + node.size(self.trace_type);
            node.write(self.trace_type, &mut out[at..end])?;
            at = end;
        }
        Ok(())
    }
}

/// Writes a node's data into a trace with free room, from Namespace-ID on; returns its offset in the node
/// data, if there was room. Errors: `ioam.cannot_write`; nothing is changed then.
pub fn fill(body: &mut [u8], trace_type: TraceType, node: &Node) -> Result<Option<usize>> {
    let Some((header, data)) = body.split_first_chunk_mut::<HEADER_BYTES>() else { return Ok(None) };
    let flags = u16::from_be_bytes([header[2], header[3]]);
    if flags & OVERFLOW != 0 {
        return Ok(None);
    }
    let end = usize::from(flags & REMAINING) * 4;
    let start = end.checked_sub(node.size(trace_type));
    let slot = start.and_then(|start| data.get_mut(start..end));
    let (flags, start) = match slot {
        None => (flags | OVERFLOW, None),
        Some(slot) => {
            // A failing write must leave the free room unchanged.
            let mut written = [0; MAX_DATA_WORDS * 4];
            let Some(written) = written.get_mut(..slot.len()) else { return Ok(None) };
            node.write(trace_type, written)?;
            slot.copy_from_slice(written);
            (flags - (slot.len() / 4) as u16, start)
        }
    };
    header[2..4].copy_from_slice(&flags.to_be_bytes());
    Ok(start)
}
