//! Numbers in network byte order, and complaints about them.

use std::fmt::Display;

use crate::Error;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Reads two octets; `None` past the end, as all of these.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// Reads four octets.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

/// Reads eight octets.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_be_bytes)
}

/// A number, unless it has all bits set, which means that the node could not tell.
pub fn known<T: PartialEq>(value: T, all_ones: T) -> Option<T> {
    (value != all_ones).then_some(value)
}

/// The field ends behind the octets that there are.
pub fn truncated(field: &str, at: usize) -> Error {
    Error::new("ioam.truncated", "the packet is cut off")
        .at(place(field, at))
        .why("the octets end before the field does")
}

/// A length disagrees with what surrounds it.
pub fn bad_length(field: &str, at: usize, why: impl Display) -> Error {
    Error::new("ioam.bad_length", "a length is wrong").at(place(field, at)).why(why)
}

/// A field has a value that it must not have.
pub fn bad_value(field: &str, at: usize, why: impl Display) -> Error {
    Error::new("ioam.bad_value", "a value is wrong").at(place(field, at)).why(why)
}

/// What was given to be written cannot be written.
pub fn cannot_write(field: &str, why: impl Display) -> Error {
    Error::new("ioam.cannot_write", "this is no telemetry that can be written").at(field).why(why)
}

fn place(field: &str, at: usize) -> String {
    format!("{field}, octet {at} of the packet")
}
