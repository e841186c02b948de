//! Numbers in network byte order, and errors about them.

use std::fmt::Display;

use crate::Error;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Reads two bytes; `None` beyond the end.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_be_bytes)
}

/// A number, unless it has all bits set, which means unknown.
pub fn known<T: PartialEq>(value: T, all_ones: T) -> Option<T> {
    (value != all_ones).then_some(value)
}

/// The data ends within a field.
pub fn truncated(field: &str, at: usize) -> Error {
    Error::new("ioam.truncated", "the packet is truncated")
        .at(place(field, at))
        .why("the packet ends within the field")
}

/// A length contradicts its context.
pub fn bad_length(field: &str, at: usize, why: impl Display) -> Error {
    Error::new("ioam.bad_length", "invalid length").at(place(field, at)).why(why)
}

/// A field has an invalid value.
pub fn bad_value(field: &str, at: usize, why: impl Display) -> Error {
    Error::new("ioam.bad_value", "invalid value").at(place(field, at)).why(why)
}

pub fn cannot_write(field: &str, why: impl Display) -> Error {
    Error::new("ioam.cannot_write", "this telemetry cannot be written").at(field).why(why)
}

fn place(field: &str, at: usize) -> String {
    format!("{field}, byte {at} of the packet")
}
