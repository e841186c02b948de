//! What a sink does: it takes options out.

use crate::Result;
use crate::ipv6::{self, Extension, Tlvs};
use crate::option::Parsed;

/// The packet without IOAM and without the TCP state; other options stay, aligned as they were.
///
/// # Errors
///
/// What is wrong with the packet; not what is wrong within our options.
pub fn remove(packet: &[u8]) -> Result<Vec<u8>> {
    let mut headers = ipv6::headers(packet)?;
    let whole = headers.is_whole();
    let extensions = headers.by_ref().collect::<Result<Vec<_>>>()?;
    let mut out = headers.packet().to_vec();
    let mut changed = false;
    // From the back to the front, so that what was read stays where it is.
    for extension in extensions.iter().rev().filter(|extension| extension.kind().is_some()) {
        let Some(rest) = without_ours(headers.packet(), extension)? else { continue };
        changed = true;
        let next = out[extension.at];
        if rest.is_empty() {
            out.drain(extension.at..extension.end);
            out[extension.named_at] = next;
        } else {
            out.splice(extension.at..extension.end, rest);
            out[extension.at] = next;
        }
    }
    if changed && whole {
        ipv6::set_payload_length(&mut out)?;
    } else if changed {
        // What is missing at the end stays missing.
        let removed = headers.packet().len() - out.len();
        let length = u16::from_be_bytes([out[4], out[5]]).saturating_sub(removed as u16);
        out[4..6].copy_from_slice(&length.to_be_bytes());
    }
    Ok(out)
}

/// A header without our options, empty if there are no others; `None` if it has none of ours.
fn without_ours(packet: &[u8], header: &Extension) -> Result<Option<Vec<u8>>> {
    let mut out = vec![packet[header.at], 0];
    let (mut ours, mut others) = (false, false);
    for tlv in Tlvs::new(packet, header) {
        let tlv = tlv?;
        if Parsed::read(tlv.kind, tlv.data, tlv.at).is_some() {
            ours = true;
            continue;
        }
        others = true;
        let gap = (tlv.at - header.at + 8 - out.len() % 8) % 8;
        ipv6::pad(&mut out, gap);
        out.extend(&packet[tlv.at..tlv.at + 2 + tlv.data.len()]);
    }
    if !ours {
        return Ok(None);
    }
    if !others {
        return Ok(Some(Vec::new()));
    }
    let gap = out.len().next_multiple_of(8) - out.len();
    ipv6::pad(&mut out, gap);
    out[1] = (out.len() / 8 - 1) as u8;
    Ok(Some(out))
}
