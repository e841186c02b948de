//! Headers of IPv6 packets (RFC 8200).

use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use crate::wire::{bad_value, truncated, u16_at};
use crate::{Error, Result};

pub const HEADER_BYTES: usize = 40;
pub const NEXT_HEADER_AT: usize = 6;
const PAYLOAD_LENGTH_AT: usize = 4;

pub const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
pub const FRAGMENT: u8 = 44;
pub const AUTHENTICATION: u8 = 51;
pub const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;
const TCP: u8 = 6;
const UDP: u8 = 17;

const PAD1: u8 = 0;
pub const PAD_N: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// For every node on the path.
    HopByHop,
    Destination,
}

impl Kind {
    pub fn protocol(self) -> u8 {
        match self {
            Kind::HopByHop => HOP_BY_HOP,
            Kind::Destination => DESTINATION,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
    /// Protocol after the extension headers; `None` if they could not be parsed, or in a later fragment.
    pub protocol: Option<u8>,
    pub src_port: Option<u16>,
    pub dst_port: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
pub struct Extension {
    pub protocol: u8,
    pub at: usize,
    pub end: usize,
}

impl Extension {
    /// Its kind, if it has options.
    pub fn kind(&self) -> Option<Kind> {
        match self.protocol {
            HOP_BY_HOP => Some(Kind::HopByHop),
            DESTINATION => Some(Kind::Destination),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Headers<'a> {
    packet: &'a [u8],
    is_whole: bool,
    start: usize,
    next: u8,
    named_at: usize,
    at: usize,
    failed: bool,
    later_fragment: bool,
}

/// Starts parsing a packet. Errors: `ioam.not_ipv6`.
pub fn headers(packet: &[u8]) -> Result<Headers<'_>> {
    let is_ipv6 = packet.len() >= HEADER_BYTES && packet[0] >> 4 == 6;
    let length = u16_at(packet, PAYLOAD_LENGTH_AT).filter(|_| is_ipv6).ok_or_else(not_ipv6)?;
    // No length: a jumbogram, or one that the kernel will segment.
    let end = if length == 0 { packet.len() } else { HEADER_BYTES + usize::from(length) };
    Ok(Headers {
        packet: packet.get(..end).unwrap_or(packet),
        is_whole: end <= packet.len(),
        start: HEADER_BYTES,
        next: packet[NEXT_HEADER_AT],
        named_at: NEXT_HEADER_AT,
        at: HEADER_BYTES,
        failed: false,
        later_fragment: false,
    })
}

/// Starts parsing extension headers separated from their packet; `first` is the type of the first one.
/// Offsets count from there, and the flow is empty.
pub fn detached(extension: &[u8], first: u8) -> Headers<'_> {
    Headers {
        packet: extension,
        is_whole: true,
        start: 0,
        next: first,
        named_at: 0,
        at: 0,
        failed: false,
        later_fragment: false,
    }
}

fn not_ipv6() -> Error {
    Error::new("ioam.not_ipv6", "this is not an IPv6 packet")
        .why("the packet has fewer than 40 bytes, or its version is not 6")
}

impl<'a> Headers<'a> {
    /// The packet without trailing data, such as Ethernet padding.
    pub fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// Whether the packet is complete according to its header.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The protocol after the headers parsed so far, the offset of its number, and its start.
    pub fn upper(&self) -> (u8, usize, usize) {
        (self.next, self.named_at, self.at)
    }

    /// The packet's flow, after all headers were parsed.
    pub fn flow(&self) -> Flow {
        let address = |at: usize| Ipv6Addr::from(std::array::from_fn(|i| self.packet[at + i]));
        let known = !self.failed && !self.later_fragment;
        let port = |at| u16_at(self.packet, at).filter(|_| known && [TCP, UDP].contains(&self.next));
        Flow {
            src: address(8),
            dst: address(24),
            protocol: known.then_some(self.next),
            src_port: port(self.at),
            dst_port: port(self.at + 2),
        }
    }

    fn size(&self) -> Result<usize> {
        let length = || {
            let length = self.packet.get(self.at + 1).copied().map(usize::from);
            length.ok_or_else(|| truncated("Hdr Ext Len", self.at + 1))
        };
        Ok(match self.next {
            FRAGMENT => 8,
            AUTHENTICATION => (length()? + 2) * 4,
            _ => (length()? + 1) * 8,
        })
    }

    fn read(&mut self) -> Result<Extension> {
        if self.next == HOP_BY_HOP && self.at != self.start {
            let why =
                "a Hop-by-Hop Options header follows the IPv6 header, or nothing (RFC 8200, section 4.3)";
            return Err(bad_value("Next Header", self.named_at, why));
        }
        let extension = Extension { protocol: self.next, at: self.at, end: self.at + self.size()? };
        if extension.end > self.packet.len() {
            return Err(truncated("extension header", self.at));
        }
        let fragment_offset = u16_at(self.packet, self.at + 2).unwrap_or(0) >> 3;
        self.later_fragment = extension.protocol == FRAGMENT && fragment_offset != 0;
        self.next = self.packet[self.at];
        self.named_at = self.at;
        self.at = extension.end;
        Ok(extension)
    }
}

impl Iterator for Headers<'_> {
    type Item = Result<Extension>;

    fn next(&mut self) -> Option<Self::Item> {
        let goes_on = matches!(
            self.next,
            HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY | HIP | SHIM6
        );
        // Separated headers end where their bytes do, whatever follows in the packet.
        let ended = self.start == 0 && self.at == self.packet.len();
        if !goes_on || ended || self.failed || self.later_fragment {
            return None;
        }
        let read = self.read();
        self.failed = read.is_err();
        Some(read)
    }
}

/// An option: type, offset, and data.
pub struct Tlv<'a> {
    pub kind: u8,
    pub at: usize,
    pub data: &'a [u8],
}

/// The options of a header without padding.
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    packet: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Tlvs<'a> {
    pub fn new(packet: &'a [u8], header: &Extension) -> Self {
        Tlvs { packet, at: header.at + 2, end: header.end }
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.end {
            let (at, end) = (self.at, self.end);
            let kind = self.packet.get(at).copied()?;
            if kind == PAD1 {
                self.at += 1;
                continue;
            }
            let length = self.packet.get(at + 1).filter(|_| at + 1 < end).copied().map(usize::from);
            let data = length.and_then(|length| self.packet.get(at + 2..at + 2 + length));
            let Some(data) = data.filter(|data| at + 2 + data.len() <= end) else {
                self.at = end;
                return Some(Err(truncated(&format!("option {kind:#04x}"), at)));
            };
            self.at = at + 2 + data.len();
            if kind != PAD_N {
                return Some(Ok(Tlv { kind, at, data }));
            }
        }
        None
    }
}

/// Appends less than 8 bytes of padding (RFC 8200, section 4.2).
pub fn pad(out: &mut Vec<u8>, raw: usize) {
    match raw {
        0 => {}
        1 => out.push(PAD1),
        more => {
            out.extend([PAD_N, (more - 2) as u8]);
            out.resize(out.len() + more - 2, 0);
        }
    }
}

/// Sets the payload length. Errors: `ioam.cannot_write` if the packet is too long.
pub fn set_payload_length(packet: &mut [u8]) -> Result<()> {
    let length = u16::try_from(packet.len() - HEADER_BYTES)
        .map_err(|_| crate::wire::cannot_write("Payload Length", "a packet has at most 65535 bytes"))?;
    packet[PAYLOAD_LENGTH_AT..PAYLOAD_LENGTH_AT + 2].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
