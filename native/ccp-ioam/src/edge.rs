//! Edge-to-edge options: data from the source to the sink (RFC 9197, section 4.6).

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::wire::{bad_length, bad_value, cannot_write, known, truncated, u16_at, u32_at, u64_at};

/// The option. `None`: not requested by the type, or unknown to the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EdgeToEdge {
    pub namespace_id: u16,
    /// IOAM-E2E-Type: the fields present.
    pub e2e_type: u16,
    /// Number of the packet within its group; all values are valid numbers.
    pub sequence: Option<u64>,
    /// Time at which the packet entered the domain: seconds.
    pub timestamp_s: Option<u32>,
    /// Fraction of the second, in the unit of the domain's timestamp format.
    pub timestamp_fraction: Option<u32>,
}

impl EdgeToEdge {
    pub const SEQUENCE_64: u16 = 0x8000;
    pub const SEQUENCE_32: u16 = 0x4000;
    pub const TIMESTAMP_S: u16 = 0x2000;
    pub const TIMESTAMP_FRACTION: u16 = 0x1000;
    const UNDEFINED: u16 = 0x0fff;
    const SEQUENCES: u16 = Self::SEQUENCE_64 | Self::SEQUENCE_32;

    /// Parses it from Namespace-ID on, at byte `at` of the packet. Errors: `ioam.truncated`,
    /// `ioam.bad_length` or `ioam.bad_value`.
    pub fn read(body: &[u8], at: usize) -> Result<Self> {
        let cut = || truncated("IOAM edge-to-edge option", at);
        let namespace_id = u16_at(body, 0).ok_or_else(cut)?;
        let e2e_type = u16_at(body, 2).ok_or_else(cut)?;
        let mut read = EdgeToEdge { namespace_id, e2e_type, ..EdgeToEdge::default() };
        let mut offset = 4;
        match e2e_type & Self::SEQUENCES {
            Self::SEQUENCES => {
                return Err(bad_value(
                    "IOAM-E2E-Type",
                    at + 2,
                    "it has sequence numbers of 32 and of 64 bits",
                ));
            }
            Self::SEQUENCE_64 => {
                read.sequence = Some(u64_at(body, offset).ok_or_else(cut)?);
                offset += 8;
            }
            Self::SEQUENCE_32 => {
                read.sequence = Some(u32_at(body, offset).ok_or_else(cut)?.into());
                offset += 4;
            }
            _ => {}
        }
        let mut word = |field| -> Result<Option<u32>> {
            if e2e_type & field == 0 {
                return Ok(None);
            }
            let value = u32_at(body, offset).ok_or_else(cut)?;
            offset += 4;
            Ok(known(value, u32::MAX))
        };
        read.timestamp_s = word(Self::TIMESTAMP_S)?;
        read.timestamp_fraction = word(Self::TIMESTAMP_FRACTION)?;
        // Fields of undefined bits are ignored; they would follow.
        if offset != body.len() && e2e_type & Self::UNDEFINED == 0 {
            let why =
                format!("IOAM-E2E-Type {e2e_type:#06x} takes {offset} bytes, but there are {}", body.len());
            return Err(bad_length("Opt Data Len", at - 3, why));
        }
        Ok(read)
    }

    /// Appends it from Namespace-ID on. Errors: `ioam.cannot_write`.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.e2e_type & Self::UNDEFINED != 0 || self.e2e_type & Self::SEQUENCES == Self::SEQUENCES {
            let why = format!("{:#06x} has undefined bits, or both kinds of sequence numbers", self.e2e_type);
            return Err(cannot_write("e2e_type", why));
        }
        out.extend(self.namespace_id.to_be_bytes());
        out.extend(self.e2e_type.to_be_bytes());
        let sequence = || self.sequence.ok_or_else(|| cannot_write("sequence", "e2e_type requires it"));
        if self.e2e_type & Self::SEQUENCE_64 != 0 {
            out.extend(sequence()?.to_be_bytes());
        } else if self.e2e_type & Self::SEQUENCE_32 != 0 {
            let sequence = u32::try_from(sequence()?).map_err(|e| cannot_write("sequence", e))?;
            out.extend(sequence.to_be_bytes());
        }
        for (name, field, value) in [
            ("timestamp_s", Self::TIMESTAMP_S, self.timestamp_s),
            ("timestamp_fraction", Self::TIMESTAMP_FRACTION, self.timestamp_fraction),
        ] {
            if value == Some(u32::MAX) {
                return Err(cannot_write(name, "the value with all bits set means unknown"));
            }
            if self.e2e_type & field != 0 {
                out.extend(value.unwrap_or(u32::MAX).to_be_bytes());
            }
        }
        Ok(())
    }
}
