//! Writes pcapng files with one interface: raw IP packets, times in nanoseconds.

use super::pcapng::{BYTE_ORDER, FRAMING, INTERFACE, PACKET, SECTION};
use crate::link;

const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const NANOSECONDS: u8 = 9;

/// The start of a file, with the name of its interface.
pub fn header(interface: &str) -> Vec<u8> {
    let version = [1u16.to_be_bytes(), 0u16.to_be_bytes()].concat();
    let section = [&BYTE_ORDER.to_be_bytes()[..], &version, &u64::MAX.to_be_bytes()].concat();
    let link = u32::from(link::RAW) << 16;
    let fixed = [link.to_be_bytes(), 0u32.to_be_bytes()].concat();
    // A name that is too long for an option is left out.
    let name =
        u16::try_from(interface.len()).map_or(Vec::new(), |bytes| option(NAME, bytes, interface.as_bytes()));
    let description = [fixed, name, option(RESOLUTION, 1, &[NANOSECONDS]), option(0, 0, &[])].concat();
    [block(SECTION, &section), block(INTERFACE, &description)].concat()
}

/// A packet.
pub fn packet(time_ns: u64, bytes: u32, data: &[u8]) -> Vec<u8> {
    let words = [0, (time_ns >> 32) as u32, time_ns as u32, data.len() as u32, bytes];
    let fixed: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    block(PACKET, &[&fixed[..], data].concat())
}

fn option(code: u16, bytes: u16, value: &[u8]) -> Vec<u8> {
    let mut option = [&code.to_be_bytes()[..], &bytes.to_be_bytes(), value].concat();
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let total = (padded as u32 + FRAMING).to_be_bytes();
    let mut block = [&kind.to_be_bytes()[..], &total, body].concat();
    block.resize(8 + padded, 0);
    block.extend(total);
    block
}
