//! Parsing a packet.

use crate::Result;
use crate::ipv6::{self, Extension, Headers, Kind, Tlvs};
use crate::option::{self, Parsed};
use crate::wire::{bad_length, truncated};

#[derive(Clone, Copy, Debug)]
pub struct Located<'a> {
    pub header: Kind,
    pub at: usize,
    pub data_bytes: usize,
    pub option: Parsed<'a>,
}

/// The telemetry in an IPv6 packet, in order. An error ends the part that it concerns: an option, the options
/// of a header, or all headers. Errors: `ioam.not_ipv6`.
pub fn options(packet: &[u8]) -> Result<Options<'_>> {
    Ok(Options { headers: ipv6::headers(packet)?, current: None })
}

/// Like [`options`], for extension headers separated from their packet; `first` is the type of the first one,
/// and offsets count from its start.
pub fn read_headers(extension: &[u8], first: u8) -> ReadHeaders<'_> {
    ReadHeaders(Options { headers: ipv6::detached(extension, first), current: None })
}

#[derive(Clone, Debug)]
pub struct ReadHeaders<'a>(Options<'a>);

impl<'a> Iterator for ReadHeaders<'a> {
    type Item = Result<Located<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

/// The telemetry in a single extension header, as sockets return it; offsets count from its start. Errors:
/// `ioam.truncated` or `ioam.bad_length`.
pub fn header_options(kind: Kind, header: &[u8]) -> Result<HeaderOptions<'_>> {
    let length = header.get(1).ok_or_else(|| truncated("Hdr Ext Len", 1))?;
    let end = (usize::from(*length) + 1) * 8;
    if end != header.len() {
        let why = format!("its length is {end} bytes, but there are {}", header.len());
        return Err(bad_length("Hdr Ext Len", 1, why));
    }
    let extension = Extension { protocol: kind.protocol(), at: 0, end };
    Ok(HeaderOptions::new(kind, header, &extension))
}

#[derive(Clone, Debug)]
pub struct Options<'a> {
    headers: Headers<'a>,
    current: Option<HeaderOptions<'a>>,
}

impl Options<'_> {
    /// The packet's flow, after all options were read.
    pub fn flow(&self) -> ipv6::Flow {
        self.headers.flow()
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Located<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.current.as_mut().and_then(Iterator::next) {
                return Some(found);
            }
            let extension = match self.headers.next()? {
                Ok(extension) => extension,
                Err(e) => return Some(Err(e)),
            };
            let packet = self.headers.packet();
            self.current = extension.kind().map(|kind| HeaderOptions::new(kind, packet, &extension));
        }
    }
}

#[derive(Clone, Debug)]
pub struct HeaderOptions<'a> {
    kind: Kind,
    header_at: usize,
    tlvs: Tlvs<'a>,
}

impl<'a> HeaderOptions<'a> {
    pub(crate) fn new(kind: Kind, packet: &'a [u8], header: &Extension) -> Self {
        HeaderOptions { kind, header_at: header.at, tlvs: Tlvs::new(packet, header) }
    }
}

impl<'a> Iterator for HeaderOptions<'a> {
    type Item = Result<Located<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        for tlv in self.tlvs.by_ref() {
            let tlv = match tlv {
                Ok(tlv) => tlv,
                Err(e) => return Some(Err(e)),
            };
            let Some(option) = Parsed::read(tlv.kind, tlv.data, tlv.at) else { continue };
            if !(tlv.at - self.header_at).is_multiple_of(option::alignment(tlv.kind)) {
                return Some(Err(option::misaligned(tlv.at)));
            }
            let (header, at, data_bytes) = (self.kind, tlv.at, tlv.data.len());
            return Some(option.map(|option| Located { header, at, data_bytes, option }));
        }
        None
    }
}
