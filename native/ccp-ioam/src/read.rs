//! Going through a packet.

use crate::Result;
use crate::ipv6::{self, Extension, Headers, Kind, Tlvs};
use crate::option::{self, Parsed};
use crate::wire::{bad_length, truncated};

/// An option, and where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Located<'a> {
    /// In which header.
    pub header: Kind,
    /// Octet of the packet at which it begins.
    pub at: usize,
    /// Octets of its data, behind type and length.
    pub data_bytes: usize,
    /// What it says.
    pub option: Parsed<'a>,
}

/// The telemetry in an IPv6 packet, in order.
///
/// After an error the rest of what it concerns is left out: an option, the options of a header, or all headers.
///
/// # Errors
///
/// `ioam.not_ipv6`.
pub fn options(packet: &[u8]) -> Result<Options<'_>> {
    Ok(Options { headers: ipv6::headers(packet)?, current: None })
}

/// The telemetry in extension headers that were taken out of their packet, of which `first` is the number of the first
/// one; offsets count from its start. As with [`options`], an error leaves the rest of what it concerns out.
pub fn read_headers(extension: &[u8], first: u8) -> ReadHeaders<'_> {
    ReadHeaders(Options { headers: ipv6::detached(extension, first), current: None })
}

/// Iterator of [`read_headers`].
#[derive(Clone, Debug)]
pub struct ReadHeaders<'a>(Options<'a>);

impl<'a> Iterator for ReadHeaders<'a> {
    type Item = Result<Located<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

/// The telemetry in an extension header alone, as sockets hand it over; offsets count from its start.
///
/// # Errors
///
/// `ioam.truncated` or `ioam.bad_length`.
pub fn header_options(kind: Kind, header: &[u8]) -> Result<HeaderOptions<'_>> {
    let length = header.get(1).ok_or_else(|| truncated("Hdr Ext Len", 1))?;
    let end = (usize::from(*length) + 1) * 8;
    if end != header.len() {
        let why = format!("it says {end} octets, {} are there", header.len());
        return Err(bad_length("Hdr Ext Len", 1, why));
    }
    let extension = Extension { protocol: kind.protocol(), at: 0, end };
    Ok(HeaderOptions::new(kind, header, &extension))
}

/// Iterator of [`options`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    headers: Headers<'a>,
    current: Option<HeaderOptions<'a>>,
}

impl Options<'_> {
    /// Whose packet it is, once all options are read.
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

/// Iterator of [`header_options`].
#[derive(Clone, Debug)]
pub struct HeaderOptions<'a> {
    kind: Kind,
    header_at: usize,
    tlvs: Tlvs<'a>,
}

impl<'a> HeaderOptions<'a> {
    /// Of a header of this packet.
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
