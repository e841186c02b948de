//! What a transit node does: it writes its data where the source left room.

use crate::Result;
use crate::ipv6::Kind;
use crate::node::Node;
use crate::option::{HEAD_BYTES, IOAM_MUTABLE, Parsed};
use crate::read::options;
use crate::trace;

/// What happened to the traces of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Traces that have the node's data now.
    pub filled: usize,
    /// Traces without room for it; their overflow flag is set.
    pub overflowed: usize,
}

/// Writes a node's data into every pre-allocated trace of the namespace, in place.
///
/// Only flags, RemainingLen and free room change (RFC 9197, section 4.4.1). What the trace does not ask for is
/// left out.
///
/// # Errors
///
/// Those of [`options`], and `ioam.cannot_write`; the packet is as it was.
pub fn fill(packet: &mut [u8], namespace_id: u16, node: &Node) -> Result<Filled> {
    let mut places = Vec::new();
    for found in options(packet)? {
        let found = found?;
        match found.option {
            Parsed::Trace(trace)
                if found.header == Kind::HopByHop
                    && packet[found.at] == IOAM_MUTABLE
                    && !trace.incremental
                    && trace.namespace_id == namespace_id =>
            {
                let start = found.at + HEAD_BYTES;
                places.push((start..found.at + 2 + found.data_bytes, trace.trace_type));
            }
            _ => {}
        }
    }
    // With several, all are tried before any is changed; with one, it is as it was if writing fails.
    if places.len() > 1 {
        for (_, trace_type) in &places {
            node.write(*trace_type, &mut vec![0; node.size(*trace_type)])?;
        }
    }
    let mut outcome = Filled::default();
    for (place, trace_type) in places {
        if trace::fill(&mut packet[place], trace_type, node)? {
            outcome.filled += 1;
        } else {
            outcome.overflowed += 1;
        }
    }
    Ok(outcome)
}
