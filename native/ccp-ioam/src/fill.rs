//! A transit node: writes its data into the room that the source left.

use crate::Result;
use crate::ipv6::{self, Headers, Kind};
use crate::node::{Node, delay_word};
use crate::option::{HEAD_BYTES, IOAM_MUTABLE, Parsed};
use crate::read::HeaderOptions;
use crate::snapshot::{HEAD_BYTES as SNAPSHOT_HEAD_BYTES, Snapshot};
use crate::state::{State, flow_word};
use crate::trace::{self, HEADER_BYTES};
use crate::trace_type::TraceType;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    pub filled: usize,
    /// Traces without room for it; their overflow flag is set.
    pub overflowed: usize,
    /// Offset of the transit delay in the first slot, if requested: for [`set_transit_delay`].
    pub transit_delay_at: Option<usize>,
    /// Offset of the flow's drops by the queue in the first slot, if the trace requests the snapshot and the
    /// node wrote ccplane's: for [`set_flow_dropped`].
    pub flow_dropped_at: Option<usize>,
}

/// Writes a node's data into every pre-allocated trace of the namespace, in place. Only flags, RemainingLen and free
/// room change (RFC 9197, section 4.4.1); unrequested data is skipped. Like all transit nodes it processes only the
/// Hop-by-Hop Options header. Errors: those of that header, and `ioam.cannot_write`; the packet is unchanged then.
pub fn fill(packet: &mut [u8], namespace_id: u16, node: &Node) -> Result<Filled> {
    let places = places(ipv6::headers(packet)?, namespace_id)?;
    write(packet, places, node)
}

/// Like [`fill`], for extension headers separated from their packet; `first` is the type of the first one.
/// Allocates nothing for a single trace. Errors: those of [`fill`], with offsets from the first header.
pub fn fill_headers(extension: &mut [u8], first: u8, namespace_id: u16, node: &Node) -> Result<Filled> {
    let places = places(ipv6::detached(extension, first), namespace_id)?;
    write(extension, places, node)
}

/// Writes the transit delay, which is known later than the rest, into a slot at [`Filled::transit_delay_at`].
/// Other offsets overwrite other data; offsets beyond the end are ignored.
pub fn set_transit_delay(raw: &mut [u8], at: usize, delay_ns: u64) {
    if let Some(word) = raw.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *word = delay_word(Some(delay_ns)).to_be_bytes();
    }
}

/// Writes the flow's drops by the queue, known when the packet leaves, at [`Filled::flow_dropped_at`].
pub fn set_flow_dropped(raw: &mut [u8], at: usize, dropped_pkts: u64) {
    if let Some(half) = raw.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *half = (flow_word(Some(dropped_pkts)) as u16).to_be_bytes();
    }
}

#[derive(Clone, Copy)]
struct Place {
    start: usize,
    end: usize,
    trace_type: TraceType,
}

/// The first trace to fill, and the others, which are rare.
type Places = (Option<Place>, Vec<Place>);

fn places(mut headers: Headers<'_>, namespace_id: u16) -> Result<Places> {
    let (mut first, mut others) = (None, Vec::new());
    // There is one such header, before all others.
    let Some(header) = headers.next().transpose()? else { return Ok((first, others)) };
    if header.kind() != Some(Kind::HopByHop) {
        return Ok((first, others));
    }
    for found in HeaderOptions::new(Kind::HopByHop, headers.packet(), &header) {
        let found = found?;
        match found.option {
            Parsed::Trace(trace)
                if headers.packet()[found.at] == IOAM_MUTABLE
                    && !trace.incremental
                    && trace.namespace_id == namespace_id =>
            {
                let place = Place {
                    start: found.at + HEAD_BYTES,
                    end: found.at + 2 + found.data_bytes,
                    trace_type: trace.trace_type,
                };
                match first {
                    None => first = Some(place),
                    Some(_) => others.push(place),
                }
            }
            _ => {}
        }
    }
    Ok((first, others))
}

fn write(raw: &mut [u8], (first, others): Places, node: &Node) -> Result<Filled> {
    // Several are all tried before any is changed; a single one is unchanged if writing fails.
    if !others.is_empty() {
        for place in first.iter().chain(&others) {
            node.write(place.trace_type, &mut vec![0; node.size(place.trace_type)])?;
        }
    }
    let mut outcome = Filled::default();
    let is_own = matches!(node.snapshot, Some(Snapshot::Ccplane(_)));
    for place in first.iter().chain(&others) {
        match trace::fill(&mut raw[place.start..place.end], place.trace_type, node)? {
            None => outcome.overflowed += 1,
            Some(slot_at) => {
                let trace_type = place.trace_type;
                let slot_at = place.start + HEADER_BYTES + slot_at;
                let delay_at = trace_type.offset_of(TraceType::TRANSIT_DELAY).map(|at| slot_at + at);
                outcome.transit_delay_at = outcome.transit_delay_at.or(delay_at);
                let data_at = slot_at + usize::from(trace_type.node_words()) * 4 + SNAPSHOT_HEAD_BYTES;
                let reported = is_own && trace_type.has(TraceType::SNAPSHOT);
                let dropped_at = reported.then_some(data_at + State::FLOW_DROPPED_AT);
                outcome.flow_dropped_at = outcome.flow_dropped_at.or(dropped_at);
                outcome.filled += 1;
            }
        }
    }
    Ok(outcome)
}
