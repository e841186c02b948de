//! Capture files: pcap and pcapng.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};
use serde::Serialize;

use crate::link::{Content, content};
use crate::record::{Problem, Record, decode};
use crate::{Error, Result};

const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const NS_PER_S: u128 = 1_000_000_000;
const DEFAULT_RESOLUTION: u8 = 6;

enum Source {
    Pcap(PcapReader<BufReader<File>>),
    PcapNg(PcapNgReader<BufReader<File>>),
}

/// What was read, and why reading ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub packets: u64,
    pub ipv6: u64,
    /// Packets with a valid option.
    pub with_options: u64,
    /// Packets with a malformed option or header.
    pub malformed: u64,
    /// Packets of links with unknown frames.
    pub unknown_link: u64,
    /// Why reading ended before the end of the file.
    pub broken: Option<Problem>,
}

pub struct Capture {
    path: PathBuf,
    source: Option<Source>,
    summary: Summary,
}

struct Frame {
    time_ns: Option<u64>,
    bytes: u32,
    link: DataLink,
    data: Vec<u8>,
}

impl Capture {
    /// Errors: `ioam.cannot_read` or `ioam.no_capture`.
    pub fn open(path: &Path) -> Result<Self> {
        let cannot_read = |e: std::io::Error| {
            Error::new("ioam.cannot_read", "cannot read a capture").at(path.display().to_string()).why(e)
        };
        let mut file = BufReader::new(File::open(path).map_err(cannot_read)?);
        let mut magic = Vec::new();
        file.by_ref().take(4).read_to_end(&mut magic).map_err(cannot_read)?;
        file.rewind().map_err(cannot_read)?;
        let source = if magic == PCAPNG {
            PcapNgReader::new(file).map(Source::PcapNg)
        } else {
            PcapReader::new(file).map(Source::Pcap)
        };
        let source = source.map_err(|e| {
            Error::new("ioam.no_capture", "this is not a readable capture")
                .at(path.display().to_string())
                .why(describe(&e))
                .fix("give a file in pcap or pcapng format, as written by tcpdump -w or dumpcap")
        })?;
        Ok(Capture { path: path.to_owned(), source: Some(source), summary: Summary::default() })
    }

    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    pub fn is_finished(&self) -> bool {
        self.source.is_none()
    }

    /// Reads `packets` packets, and returns those with telemetry or errors in it.
    pub fn read(&mut self, packets: usize) -> Vec<Record> {
        let mut records = Vec::new();
        for _ in 0..packets {
            let Some(source) = &mut self.source else { break };
            match next_frame(source) {
                Some(Ok(frame)) => records.extend(self.look_at(&frame)),
                Some(Err(e)) => {
                    let broken = Error::new("ioam.broken_file", "cannot read the capture to its end")
                        .at(format!("{}, after packet {}", self.path.display(), self.summary.packets))
                        .why(describe(&e))
                        .fix("the packets before this place are valid; capture again if the rest is needed");
                    self.summary.broken = Some(broken.into());
                    self.source = None;
                }
                None => self.source = None,
            }
        }
        records
    }

    fn look_at(&mut self, frame: &Frame) -> Option<Record> {
        let summary = &mut self.summary;
        summary.packets += 1;
        let packet = match content(frame.link, &frame.data) {
            Content::Ipv6(packet) => packet,
            Content::Other => return None,
            Content::UnknownLink => {
                summary.unknown_link += 1;
                return None;
            }
        };
        summary.ipv6 += 1;
        let decoded = decode(packet).ok()?;
        if decoded.options.is_empty() && decoded.errors.is_empty() {
            return None;
        }
        summary.with_options += u64::from(!decoded.options.is_empty());
        summary.malformed += u64::from(!decoded.errors.is_empty());
        Some(Record {
            packet: summary.packets,
            time_ns: frame.time_ns,
            bytes: frame.bytes,
            captured_bytes: frame.data.len() as u32,
            decoded,
        })
    }
}

fn next_frame(source: &mut Source) -> Option<std::result::Result<Frame, PcapError>> {
    match source {
        Source::Pcap(reader) => {
            let header = reader.header();
            let unit = if header.ts_resolution == TsResolution::NanoSecond { 1 } else { 1000 };
            // Not the checked reader, which rejects packets longer than the file's limit although they are
            // truncated to it.
            reader.next_raw_packet().map(|packet| {
                packet.map(|packet| Frame {
                    time_ns: Some(
                        u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_frac) * unit,
                    ),
                    bytes: packet.orig_len,
                    link: header.datalink,
                    data: packet.data.into_owned(),
                })
            })
        }
        Source::PcapNg(reader) => loop {
            let (interface, time, bytes, data) = match reader.next_block()? {
                Err(e) => return Some(Err(e)),
                Ok(Block::EnhancedPacket(block)) => {
                    // The reader assumes nanoseconds, whatever the interface's unit is.
                    let ticks = block.timestamp.as_nanos();
                    (block.interface_id, Some(ticks), block.original_len, block.data.into_owned())
                }
                Ok(Block::SimplePacket(block)) => (0, None, block.original_len, block.data.into_owned()),
                Ok(_) => continue,
            };
            let Some(interface) = reader.interfaces().get(interface as usize) else {
                return Some(Err(PcapError::InvalidInterfaceId(interface)));
            };
            let time_ns = time.and_then(|ticks| to_ns(ticks, interface));
            return Some(Ok(Frame { time_ns, bytes, link: interface.linktype, data }));
        },
    }
}

/// A packet's time by the clock of its interface; `None` if out of range.
fn to_ns(ticks: u128, interface: &InterfaceDescriptionBlock<'_>) -> Option<u64> {
    let (mut resolution, mut offset_s) = (DEFAULT_RESOLUTION, 0);
    for option in &interface.options {
        match option {
            InterfaceDescriptionOption::IfTsResol(value) => resolution = *value,
            InterfaceDescriptionOption::IfTsOffset(value) => offset_s = u128::from(*value),
            _ => {}
        }
    }
    let base = if resolution & 0x80 == 0 { 10u128 } else { 2 };
    let ticks_per_s = base.checked_pow(u32::from(resolution & 0x7f))?;
    let ns = ticks.checked_mul(NS_PER_S)? / ticks_per_s;
    u64::try_from(ns + offset_s * NS_PER_S).ok()
}

fn describe(e: &PcapError) -> String {
    match e {
        PcapError::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => {
            "the file ends in the middle of a packet, or a length in it is wrong".to_owned()
        }
        PcapError::IoError(e) => e.to_string(),
        PcapError::IncompleteBuffer => "a block is shorter than what it contains".to_owned(),
        other => other.to_string(),
    }
}
