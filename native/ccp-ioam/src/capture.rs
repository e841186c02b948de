//! Capture files: pcap and pcapng.

mod input;
mod pcap;
mod pcapng;
pub mod write;

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;

use serde::Serialize;

use crate::link::{Content, content};
use crate::record::{Problem, Record, decode};
use crate::{Error, Result};
use input::{Input, Outcome};

/// The path of standard input.
const STDIN: &str = "-";

enum Source {
    Pcap(pcap::Reader),
    PcapNg(pcapng::Reader),
}

impl Source {
    fn open(input: &mut Input) -> Outcome<Self> {
        let mut magic = Vec::new();
        input.read(4, &mut magic)?;
        if magic == pcapng::SECTION.to_be_bytes() {
            pcapng::Reader::open(input).map(Source::PcapNg)
        } else {
            pcap::Reader::open(&magic, input).map(Source::Pcap)
        }
    }

    fn next(&mut self, input: &mut Input) -> Outcome<Next> {
        match self {
            Source::Pcap(reader) => reader.next(input),
            Source::PcapNg(reader) => reader.next(input),
        }
    }
}

/// What follows in a file.
enum Next {
    Frame(Frame),
    /// A block that is neither a packet nor about packets, which was skipped.
    Other,
    /// A malformed block, which was skipped.
    Malformed(String),
    End,
}

struct Frame {
    time_ns: Option<u64>,
    bytes: u32,
    link: u16,
    data: Vec<u8>,
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
    /// Blocks of other kinds, such as custom blocks.
    pub other_blocks: u64,
    /// Malformed blocks, which were skipped.
    pub malformed_blocks: u64,
    /// What is wrong with the first malformed block.
    pub malformed_block: Option<Problem>,
    /// Why reading ended before the end of the file.
    pub broken: Option<Problem>,
}

pub struct Capture {
    name: String,
    input: Input,
    source: Option<Source>,
    summary: Summary,
}

impl Capture {
    /// Opens a file, or standard input if the path is `-`. Errors: `ioam.cannot_read` or `ioam.no_capture`.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = if path == Path::new(STDIN) {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(path)
        };
        let file = opened.map_err(|e| {
            Error::new("ioam.cannot_read", "cannot read a capture").at(path.display().to_string()).why(e)
        })?;
        let name =
            if path == Path::new(STDIN) { "standard input".to_owned() } else { path.display().to_string() };
        Self::read_from(name, Box::new(file))
    }

    /// Reads a capture that is not in a file; the name is for errors. Errors: `ioam.no_capture`.
    pub fn read_from(name: String, source: Box<dyn Read + Send>) -> Result<Self> {
        let mut input = Input::new(source);
        let source = Source::open(&mut input).map_err(|why| {
            Error::new("ioam.no_capture", "this is not a readable capture")
                .at(name.clone())
                .why(why)
                .fix("give a file in pcap or pcapng format, as written by tcpdump -w or dumpcap")
        })?;
        Ok(Capture { name, input, source: Some(source), summary: Summary::default() })
    }

    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    pub fn is_finished(&self) -> bool {
        self.source.is_none()
    }

    /// Reads up to `packets` packets, and returns those with telemetry or errors in it.
    ///
    /// It waits for a pipe at most once, and returns early if a signal arrives meanwhile.
    pub fn read(&mut self, packets: usize) -> Vec<Record> {
        let mut records = Vec::new();
        if self.input.may_wait() && self.input.wait().is_err_and(|e| e.kind() == ErrorKind::Interrupted) {
            return records;
        }
        for done in 0..packets {
            if done > 0 && self.input.may_wait() {
                break;
            }
            let Some(source) = &mut self.source else { break };
            match source.next(&mut self.input) {
                Ok(Next::Frame(frame)) => records.extend(self.look_at(&frame)),
                Ok(Next::Other) => self.summary.other_blocks += 1,
                Ok(Next::Malformed(why)) => {
                    self.summary.malformed_blocks += 1;
                    if self.summary.malformed_block.is_none() {
                        let fix = "the other blocks are valid; repair the program that wrote the file";
                        self.summary.malformed_block = Some(self.problem(
                            "ioam.bad_block",
                            "a block of the capture is malformed",
                            why,
                            fix,
                        ));
                    }
                }
                Err(why) => {
                    let fix = "the packets before this place are valid; capture again if the rest is needed";
                    self.summary.broken = Some(self.problem(
                        "ioam.broken_file",
                        "cannot read the capture to its end",
                        why,
                        fix,
                    ));
                    self.source = None;
                }
                Ok(Next::End) => self.source = None,
            }
        }
        records
    }

    fn problem(&self, slug: &'static str, what: &str, why: String, fix: &str) -> Problem {
        let place = format!("{}, after packet {}", self.name, self.summary.packets);
        Error::new(slug, what).at(place).why(why).fix(fix).into()
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
