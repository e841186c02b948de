//! A source: inserts options into packets.

use crate::ipv6::{self, AUTHENTICATION, DESTINATION, Extension, FRAGMENT, HEADER_BYTES, HOP_BY_HOP};
use crate::option::IoamOption;
use crate::wire::{cannot_write, truncated};
use crate::{Error, Result};

const MAX_HEADER_BYTES: usize = 256 * 8;
/// Usual maximum length of headers.
const ROOM_BYTES: usize = 320;

/// Extension headers; empty if there are no options for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Hop-by-Hop Options, with traces.
    pub hop_by_hop: Vec<u8>,
    /// Destination Options, with the rest.
    pub destination: Vec<u8>,
}

/// Builds extension headers with these options, followed by `next_header`. Errors: `ioam.cannot_write`.
pub fn build(options: &[IoamOption], next_header: u8) -> Result<Headers> {
    let (hop_by_hop, destination) = sorted(options);
    let destination = wrap(next_header, &[], &destination)?;
    let next_header = if destination.is_empty() { next_header } else { DESTINATION };
    Ok(Headers { hop_by_hop: wrap(next_header, &[], &hop_by_hop)?, destination })
}

/// Inserts options into a packet: traces into the Hop-by-Hop Options header, the rest into the Destination
/// Options header before the payload; existing headers are extended. Errors: `ioam.cannot_insert`,
/// `ioam.cannot_write`, or an error of the packet.
pub fn insert(packet: &[u8], options: &[IoamOption]) -> Result<Vec<u8>> {
    let mut headers = ipv6::headers(packet)?;
    if !headers.is_whole() {
        return Err(truncated("packet", packet.len()));
    }
    let mut extensions = Vec::new();
    for extension in headers.by_ref() {
        let extension = extension?;
        if [FRAGMENT, AUTHENTICATION].contains(&extension.protocol) {
            return Err(cannot_insert("it is a fragment, or its headers are authenticated"));
        }
        extensions.push(extension);
    }
    let before = headers.packet();
    if before.len() > HEADER_BYTES && before[4..6] == [0, 0] {
        return Err(cannot_insert("it is a jumbogram: its header has no length"));
    }
    let (hop_by_hop, destination) = sorted(options);
    let mut out = Vec::with_capacity(before.len() + ROOM_BYTES);
    out.extend(before);
    let (upper, named_at, at) = headers.upper();
    // From back to front, so that parsed offsets stay valid.
    if !destination.is_empty() {
        match extensions.last().filter(|last| last.protocol == DESTINATION) {
            Some(last) => take_in(&mut out, last, &destination)?,
            None => put(&mut out, named_at, at, (upper, DESTINATION), &destination)?,
        }
    }
    if !hop_by_hop.is_empty() {
        match extensions.first().filter(|first| first.protocol == HOP_BY_HOP) {
            Some(first) => take_in(&mut out, first, &hop_by_hop)?,
            None => {
                let next = out[ipv6::NEXT_HEADER_AT];
                put(&mut out, ipv6::NEXT_HEADER_AT, HEADER_BYTES, (next, HOP_BY_HOP), &hop_by_hop)?;
            }
        }
    }
    ipv6::set_payload_length(&mut out)?;
    Ok(out)
}

fn sorted(options: &[IoamOption]) -> (Vec<&IoamOption>, Vec<&IoamOption>) {
    options.iter().partition(|option| option.is_hop_by_hop())
}

/// A new header at this place, linked from the previous one.
fn put(
    packet: &mut Vec<u8>,
    named_at: usize,
    at: usize,
    next_own: (u8, u8),
    options: &[&IoamOption],
) -> Result<()> {
    let header = wrap(next_own.0, &[], options)?;
    packet.splice(at..at, header);
    packet[named_at] = next_own.1;
    Ok(())
}

fn take_in(packet: &mut Vec<u8>, header: &Extension, options: &[&IoamOption]) -> Result<()> {
    let longer = wrap(packet[header.at], &packet[header.at + 2..header.end], options)?;
    packet.splice(header.at..header.end, longer);
    Ok(())
}

/// Wraps options in a header, if there are any; `before` is the content of an existing one.
fn wrap(next_header: u8, before: &[u8], options: &[&IoamOption]) -> Result<Vec<u8>> {
    if options.is_empty() {
        return Ok(Vec::new());
    }
    let mut out = Vec::with_capacity(before.len() + ROOM_BYTES);
    out.extend([next_header, 0]);
    out.extend(before);
    for option in options {
        option.append(&mut out)?;
    }
    let missing = out.len().next_multiple_of(8) - out.len();
    ipv6::pad(&mut out, missing);
    if out.len() > MAX_HEADER_BYTES {
        return Err(cannot_write(
            "Hdr Ext Len",
            format!("{} bytes of options; the maximum is 2048", out.len()),
        ));
    }
    out[1] = (out.len() / 8 - 1) as u8;
    Ok(out)
}

fn cannot_insert(why: &str) -> Error {
    Error::new("ioam.cannot_insert", "options cannot be inserted into this packet")
        .why(why)
        .fix("send it as it is")
}
