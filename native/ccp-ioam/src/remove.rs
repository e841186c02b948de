//! A sink: removes options.

use crate::Result;
use crate::ipv6::{self, Extension, HEADER_BYTES, Headers, NEXT_HEADER_AT, Tlvs};
use crate::option::Parsed;

/// Removes IOAM and TCP-state options; other options keep their alignment. Errors: those of the packet, not
/// those within the removed options.
pub fn remove(packet: &[u8]) -> Result<Vec<u8>> {
    let mut headers = ipv6::headers(packet)?;
    let packet = headers.packet();
    let (rest, first) = without_own(&mut headers)?;
    let mut out = Vec::with_capacity(packet.len());
    out.extend(&packet[..HEADER_BYTES]);
    out[NEXT_HEADER_AT] = first;
    out.extend(rest);
    let (_, _, end) = headers.upper();
    out.extend(&packet[end..]);
    let removed = packet.len() - out.len();
    if removed > 0 && headers.is_whole() {
        ipv6::set_payload_length(&mut out)?;
    } else if removed > 0 {
        // A truncated end stays truncated.
        let length = u16::from_be_bytes([out[4], out[5]]).saturating_sub(removed as u16);
        out[4..6].copy_from_slice(&length.to_be_bytes());
    }
    Ok(out)
}

/// Like [`remove`], for extension headers separated from their packet; `first` is the type of the first one.
/// Also returns the type of the new first header. Allocates nothing if nothing is left. Errors: those of the
/// headers, not those within the removed options.
pub fn remove_headers(extension: &[u8], first: u8) -> Result<(Vec<u8>, u8)> {
    without_own(&mut ipv6::detached(extension, first))
}

fn without_own(headers: &mut Headers<'_>) -> Result<(Vec<u8>, u8)> {
    let packet = headers.packet();
    let mut out = Vec::new();
    let (mut first, mut last_at) = (headers.upper().0, None);
    let mut name = |out: &mut Vec<u8>, last_at: Option<usize>, number: u8| match last_at {
        Some(at) => out[at] = number,
        None => first = number,
    };
    for extension in headers.by_ref() {
        let extension = extension?;
        let start = out.len();
        keep(packet, &extension, &mut out)?;
        if out.len() > start {
            name(&mut out, last_at, extension.protocol);
            last_at = Some(start);
        }
    }
    name(&mut out, last_at, headers.upper().0);
    Ok((out, first))
}

/// Appends a header without ccplane's options; nothing if it has no others.
fn keep(packet: &[u8], header: &Extension, out: &mut Vec<u8>) -> Result<()> {
    let (mut own, mut others) = (false, false);
    if header.kind().is_some() {
        for tlv in Tlvs::new(packet, header) {
            let tlv = tlv?;
            *if Parsed::read(tlv.kind, tlv.data, tlv.at).is_some() { &mut own } else { &mut others } = true;
        }
    }
    if !own {
        out.extend(&packet[header.at..header.end]);
    } else if others {
        keep_others(packet, header, out)?;
    }
    Ok(())
}

fn keep_others(packet: &[u8], header: &Extension, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.extend([packet[header.at], 0]);
    for tlv in Tlvs::new(packet, header) {
        let tlv = tlv?;
        if Parsed::read(tlv.kind, tlv.data, tlv.at).is_none() {
            let gap = (tlv.at - header.at + 8 - (out.len() - start) % 8) % 8;
            ipv6::pad(out, gap);
            out.extend(&packet[tlv.at..tlv.at + 2 + tlv.data.len()]);
        }
    }
    let size = out.len() - start;
    ipv6::pad(out, size.next_multiple_of(8) - size);
    out[start + 1] = (size.div_ceil(8) - 1) as u8;
    Ok(())
}
