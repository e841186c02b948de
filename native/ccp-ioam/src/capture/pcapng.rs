//! pcapng files (draft-ietf-opsawg-pcapng).
//!
//! Only blocks with packets, and those needed to understand them, are looked at. Options are needed of interfaces alone.
//! A malformed block is skipped by its length.

use super::input::{Input, MAX_BYTES, Order, Outcome};
use super::{Frame, Next};

pub const SECTION: u32 = 0x0a0d_0d0a;
pub const INTERFACE: u32 = 1;
pub const OLD_PACKET: u32 = 2;
pub const SIMPLE_PACKET: u32 = 3;
pub const PACKET: u32 = 6;
pub const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Names, statistics, secrets, and processes (macOS): they are about packets, and none is needed here.
const ABOUT_PACKETS: [u32; 4] = [4, 5, 10, 0x8000_0001];
/// Type, length before and length after the body.
pub const FRAMING: u32 = 12;

const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;
const DEFAULT_RESOLUTION: u8 = 6;
const NS_PER_S: i128 = 1_000_000_000;

/// What is wrong in a block.
type Parsed<T> = Result<T, &'static str>;

struct Interface {
    link: u16,
    max_bytes: Option<usize>,
    resolution: u8,
    offset_s: i64,
}

pub struct Reader {
    order: Order,
    /// The header that was read at the start.
    first_section: Option<Parsed<()>>,
    /// `None` for malformed descriptions, so that the others keep their numbers.
    interfaces: Vec<Option<Interface>>,
    block: Vec<u8>,
}

impl Reader {
    /// Reads the header of the first section after its type.
    pub fn open(input: &mut Input) -> Outcome<Self> {
        let mut reader =
            Reader { order: Order::Big, first_section: None, interfaces: Vec::new(), block: Vec::new() };
        let mut length = Vec::new();
        input.read_all(4, &mut length)?;
        reader.first_section = Some(reader.section(&length, input)?);
        Ok(reader)
    }

    pub fn next(&mut self, input: &mut Input) -> Outcome<Next> {
        loop {
            let mut kind = SECTION;
            let found = match self.first_section.take() {
                Some(first) => first.map(|()| None),
                None => {
                    let mut start = Vec::with_capacity(8);
                    if !input.read_next(8, &mut start)? {
                        return Ok(Next::End);
                    }
                    kind = self.order.u32(&start, 0).unwrap_or_default();
                    if kind == SECTION {
                        self.section(&start[4..], input)?.map(|()| None)
                    } else {
                        self.block(kind, &start, input)?
                    }
                }
            };
            match found {
                Ok(None) if is_other(kind) => return Ok(Next::Other),
                Ok(None) => {}
                Ok(Some(frame)) => return Ok(Next::Frame(frame)),
                Err(why) => return Ok(Next::Malformed(format!("{}: {why}", name(kind)))),
            }
        }
    }

    /// Reads a section's header, whose byte order is in the body.
    fn section(&mut self, length: &[u8], input: &mut Input) -> Outcome<Parsed<()>> {
        let mut start = Vec::new();
        input.read_all(4, &mut start)?;
        let is_order = |order: &Order| order.u32(&start, 0) == Some(BYTE_ORDER);
        let Some(order) = [Order::Big, Order::Little].into_iter().find(is_order) else {
            return Err("the byte order of a section is unknown".to_owned());
        };
        self.order = order;
        self.interfaces.clear();
        let total = order.u32(length, 0).unwrap_or_default();
        if total < FRAMING + 4 {
            return Err(too_short(total));
        }
        let complete = self.read_block(total, padded(total - FRAMING) - 4, input)?;
        match order.u16(&self.block, 0) {
            Some(1) | None => Ok(complete),
            Some(other) => Err(format!("version {other} of pcapng is not supported")),
        }
    }

    fn block(&mut self, kind: u32, start: &[u8], input: &mut Input) -> Outcome<Parsed<Option<Frame>>> {
        let total = self.order.u32(start, 4).unwrap_or_default();
        if total < FRAMING {
            return Err(too_short(total));
        }
        let body_bytes = padded(total - FRAMING);
        if is_other(kind) || ABOUT_PACKETS.contains(&kind) {
            input.skip(body_bytes)?;
            return Ok(self.same_length(total, input)?.map(|()| None));
        }
        let complete = self.read_block(total, body_bytes, input)?;
        Ok(match kind {
            INTERFACE => {
                let (interface, wrong) = complete.map_or_else(|why| (None, Some(why)), |()| self.interface());
                self.interfaces.push(interface);
                wrong.map_or(Ok(None), Err)
            }
            _ => complete.and_then(|()| self.packet(kind).map(Some)),
        })
    }

    /// Reads a body of this length, and the repeated length after it.
    fn read_block(&mut self, total: u32, body_bytes: u64, input: &mut Input) -> Outcome<Parsed<()>> {
        if body_bytes > MAX_BYTES {
            self.block.clear();
            input.skip(body_bytes)?;
            self.same_length(total, input).map(|_| Err("it is longer than any packet"))
        } else {
            input.read_all(body_bytes, &mut self.block)?;
            self.same_length(total, input)
        }
    }

    fn same_length(&self, total: u32, input: &mut Input) -> Outcome<Parsed<()>> {
        let mut end = Vec::with_capacity(4);
        input.read_all(4, &mut end)?;
        let is_same = self.order.u32(&end, 0) == Some(total);
        Ok(if is_same { Ok(()) } else { Err("its two lengths differ") })
    }

    /// Parses an interface's description: what could be read of it, and what is wrong.
    fn interface(&self) -> (Option<Interface>, Option<&'static str>) {
        let fixed = (self.order.u16(&self.block, 0), self.order.u32(&self.block, 4));
        let (Some(link), Some(limit)) = fixed else { return (None, Some("it is too short")) };
        let max_bytes = (limit > 0).then_some(limit as usize);
        let mut interface = Interface { link, max_bytes, resolution: DEFAULT_RESOLUTION, offset_s: 0 };
        let mut wrong = None;
        let mut at = 8;
        while at < self.block.len() {
            let header = (self.order.u16(&self.block, at), self.order.u16(&self.block, at + 2));
            let (Some(code), Some(length)) = header else { break };
            let length = usize::from(length);
            let Some(value) = self.block.get(at + 4..at + 4 + length) else {
                wrong = Some("an option is longer than the block");
                break;
            };
            match (code, value) {
                (0, _) => break,
                (RESOLUTION, &[resolution]) => interface.resolution = resolution,
                (OFFSET, value) if length == 8 => {
                    interface.offset_s = self.order.i64(value, 0).unwrap_or_default()
                }
                (RESOLUTION | OFFSET, _) => wrong = Some("an option about times has a wrong length"),
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        (Some(interface), wrong)
    }

    fn packet(&self, kind: u32) -> Parsed<Frame> {
        let word = |at| self.order.u32(&self.block, at).ok_or("it is too short");
        let (interface, data_at) = match kind {
            SIMPLE_PACKET => (0, 4),
            OLD_PACKET => (u32::from(self.order.u16(&self.block, 0).ok_or("it is too short")?), 20),
            _ => (word(0)?, 20),
        };
        let interface = self.interfaces.get(interface as usize).ok_or("no interface has its number")?;
        let interface = interface.as_ref().ok_or("its interface is malformed")?;
        let (time_ns, captured, bytes) = if kind == SIMPLE_PACKET {
            let bytes = word(0)?;
            (None, (bytes as usize).min(interface.max_bytes.unwrap_or(usize::MAX)), bytes)
        } else {
            let ticks = u64::from(word(4)?) << 32 | u64::from(word(8)?);
            (to_ns(ticks, interface), word(12)? as usize, word(16)?)
        };
        let data = self.block.get(data_at..).and_then(|rest| rest.get(..captured));
        let data = data.ok_or("its packet is longer than the block")?.to_vec();
        Ok(Frame { time_ns, bytes, link: interface.link, data })
    }
}

/// A packet's time by the clock of its interface; `None` if out of range.
fn to_ns(ticks: u64, interface: &Interface) -> Option<u64> {
    let base = if interface.resolution & 0x80 == 0 { 10i128 } else { 2 };
    let ticks_per_s = base.checked_pow(u32::from(interface.resolution & 0x7f))?;
    let ns = i128::from(ticks).checked_mul(NS_PER_S)? / ticks_per_s;
    u64::try_from(ns + i128::from(interface.offset_s) * NS_PER_S).ok()
}

/// Bodies are padded to whole words, and some writers do not count the padding.
fn padded(bytes: u32) -> u64 {
    u64::from(bytes).next_multiple_of(4)
}

fn is_other(kind: u32) -> bool {
    ![SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET].contains(&kind) && !ABOUT_PACKETS.contains(&kind)
}

fn too_short(total: u32) -> String {
    format!("a block of {total} bytes is shorter than its own lengths")
}

fn name(kind: u32) -> String {
    match kind {
        SECTION => "a section header".to_owned(),
        INTERFACE => "an interface description".to_owned(),
        OLD_PACKET | SIMPLE_PACKET | PACKET => "a packet's block".to_owned(),
        other => format!("a block of type {other:#x}"),
    }
}
