//! Trace options: what nodes on the path wrote down (RFC 9197, section 4.4).

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::node::Node;
use crate::trace_type::TraceType;
use crate::wire::{bad_length, bad_value, cannot_write, truncated, u16_at, u32_at};

/// Octets of the header in front of the node data.
pub const HEADER_BYTES: usize = 8;
/// Words of node data for which an IPv6 option, of at most 255 octets, has room.
const MAX_DATA_WORDS: usize = 61;

const OVERFLOW: u16 = 0x400;
const LOOPBACK: u16 = 0x200;
const ACTIVE: u16 = 0x100;
const REMAINING: u16 = 0x7f;

/// A trace where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    /// Whether nodes make the option longer, instead of filling room that was there from the start.
    pub incremental: bool,
    /// In which namespace fields have their meaning.
    pub namespace_id: u16,
    /// A node found no room.
    pub overflow: bool,
    /// A copy is to go back to the source (RFC 9322).
    pub loopback: bool,
    /// The packet was made for measuring (RFC 9322).
    pub active: bool,
    /// Words of four octets that nodes may still write.
    pub remaining_words: u8,
    /// What nodes write.
    pub trace_type: TraceType,
    data: &'a [u8],
    at: usize,
}

impl<'a> Trace<'a> {
    /// Reads the header, from Namespace-ID on, which is octet `at` of the packet.
    ///
    /// # Errors
    ///
    /// `ioam.truncated`, `ioam.bad_length` or `ioam.bad_value`.
    pub fn read(body: &'a [u8], at: usize, incremental: bool) -> Result<Self> {
        let cut = || truncated("IOAM trace header", at);
        let namespace_id = u16_at(body, 0).ok_or_else(cut)?;
        let flags = u16_at(body, 2).ok_or_else(cut)?;
        let trace_type = TraceType(u32_at(body, 4).ok_or_else(cut)? >> 8);
        let data = &body[HEADER_BYTES..];
        if !data.len().is_multiple_of(4) {
            let why = format!("{} octets of node data are no multiple of 4", data.len());
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
            return Err(bad_value("IOAM-Trace-Type", at + 4, "it asks for no field"));
        }
        let remaining_words = (flags & REMAINING) as u8;
        if !incremental && usize::from(remaining_words) * 4 > data.len() {
            let why = format!("it is {remaining_words}, and the option has {} words", data.len() / 4);
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

    /// Octets at the front of the node data that are free.
    fn free_bytes(&self) -> usize {
        if self.incremental { 0 } else { usize::from(self.remaining_words) * 4 }
    }

    /// What nodes wrote, the last node first, as it lies in the packet.
    pub fn nodes(&self) -> Nodes<'a> {
        let free = self.free_bytes();
        Nodes { data: &self.data[free..], trace_type: self.trace_type, at: self.at + free }
    }

    /// All of it, on its own.
    ///
    /// # Errors
    ///
    /// Those of [`Node::read`].
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

/// Nodes of a trace, the last one first.
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

/// A trace on its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceOption {
    /// Whether nodes make the option longer; such traces are only read.
    pub incremental: bool,
    /// In which namespace fields have their meaning.
    pub namespace_id: u16,
    /// A node found no room.
    pub overflow: bool,
    /// A copy is to go back to the source (RFC 9322).
    pub loopback: bool,
    /// The packet was made for measuring (RFC 9322).
    pub active: bool,
    /// What nodes write.
    pub trace_type: TraceType,
    /// Words of four octets that nodes may still write.
    pub remaining_words: u8,
    /// What nodes wrote, in the order of the path: the last one in the packet is the first.
    pub nodes: Vec<Node>,
}

impl TraceOption {
    /// Appends it, from Namespace-ID on.
    ///
    /// # Errors
    ///
    /// `ioam.cannot_write`.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.incremental {
            return Err(cannot_write("incremental", "no document says how it lies in IPv6 (RFC 9486)"));
        }
        if !self.trace_type.is_sendable() {
            let why = format!("{:#08x} asks for nothing, or for what is not defined", self.trace_type.0);
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

/// Writes a node's data where a trace has room for it, from Namespace-ID on; where in the node data, if there was room.
///
/// # Errors
///
/// `ioam.cannot_write`, and then nothing is changed.
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
            // A failing write must leave the free room as it was.
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
