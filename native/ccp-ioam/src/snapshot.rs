//! Opaque state snapshots: node data in a separate schema.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::state::State;
use crate::wire::{cannot_write, truncated, u32_at};

/// Length of length and schema.
pub const HEAD_BYTES: usize = 4;
/// Schema ID of an empty snapshot.
const NO_SCHEMA: u32 = 0xff_ffff;

/// A node's data after the fields of the trace type (RFC 9197, section 4.4.2.13).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "schema", rename_all = "lowercase")]
pub enum Snapshot {
    Ccplane(State),
    /// In a third-party schema.
    Other {
        schema_id: u32,
        #[serde(with = "hex")]
        data: Vec<u8>,
    },
}

impl Snapshot {
    /// Length including its head.
    pub fn size(snapshot: Option<&Snapshot>) -> usize {
        match snapshot {
            None => HEAD_BYTES,
            Some(Snapshot::Ccplane(state)) => HEAD_BYTES + state.size(),
            Some(Snapshot::Other { data, .. }) => HEAD_BYTES + data.len(),
        }
    }

    /// Parses one; returns it with its length. Errors: `ioam.truncated` or `ioam.bad_length`.
    pub fn read(bytes: &[u8], at: usize) -> Result<(Option<Self>, usize)> {
        let head = u32_at(bytes, 0).ok_or_else(|| truncated("Opaque State Snapshot Length", at))?;
        let size = HEAD_BYTES + (head >> 24) as usize * 4;
        let data = bytes.get(HEAD_BYTES..size).ok_or_else(|| truncated("Opaque State Snapshot", at))?;
        let schema_id = head & 0xff_ffff;
        let snapshot = match State::read(schema_id, data, at) {
            Some(state) => Some(Snapshot::Ccplane(state?)),
            None if schema_id == NO_SCHEMA && data.is_empty() => None,
            None => Some(Snapshot::Other { schema_id, data: data.to_vec() }),
        };
        Ok((snapshot, size))
    }

    /// Writes [`Snapshot::size`] bytes. Errors: `ioam.cannot_write`.
    pub fn write(snapshot: Option<&Self>, out: &mut [u8]) -> Result<()> {
        let size = Self::size(snapshot);
        let (head, out) = out
            .get_mut(..size)
            .and_then(|out| out.split_first_chunk_mut::<HEAD_BYTES>())
            .ok_or_else(|| truncated("Opaque State Snapshot", 0))?;
        let schema_id = match snapshot {
            None => NO_SCHEMA,
            Some(Snapshot::Ccplane(state)) => {
                state.write(out)?;
                State::SCHEMA_ID
            }
            Some(Snapshot::Other { schema_id, data }) => {
                if *schema_id >= NO_SCHEMA {
                    return Err(cannot_write("schema_id", format!("{schema_id:#x} is not below 0xffffff")));
                }
                if [State::FIRST_SCHEMA_ID, State::SCHEMA_ID].contains(schema_id) {
                    let why = format!("{schema_id:#08x} is ccplane's schema: set its fields instead");
                    return Err(cannot_write("schema_id", why));
                }
                if data.len() % 4 != 0 || data.len() > 255 * 4 {
                    return Err(cannot_write(
                        "data",
                        format!("its length is {} bytes, not 0, 4, .. 1020", data.len()),
                    ));
                }
                out.copy_from_slice(data);
                *schema_id
            }
        };
        *head = ((size as u32 / 4 - 1) << 24 | schema_id).to_be_bytes();
        Ok(())
    }
}

/// Bytes as hexadecimal digits.
pub mod hex {
    use std::fmt::Write;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        to.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
        match digits {
            Some(digits) if digits.len() % 2 == 0 => {
                Ok(digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
            }
            _ => Err(D::Error::custom(format!("`{text}` is not an even number of hexadecimal digits"))),
        }
    }
}
