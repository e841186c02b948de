//! Parsed telemetry as JSON for Python.

use serde::Serialize;

use crate::ipv6::{Flow, Kind};
use crate::option::IoamOption;
use crate::read::{Located, header_options, options};
use crate::{Error, Result};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    pub header: Kind,
    pub offset: usize,
    pub option: IoamOption,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    slug: &'static str,
    message: String,
    #[serde(rename = "where")]
    place: String,
    why: String,
    fix: String,
}

impl From<Error> for Problem {
    fn from(e: Error) -> Self {
        Problem { slug: e.slug, message: e.message, place: e.place, why: e.why, fix: e.fix }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Contents {
    pub options: Vec<Placed>,
    pub errors: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decoded {
    pub flow: Flow,
    pub options: Vec<Placed>,
    pub errors: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// Number in the file, from 1.
    pub packet: u64,
    /// Capture time since 1970 [ns].
    pub time_ns: Option<u64>,
    /// Original length [bytes].
    pub bytes: u32,
    /// Captured length [bytes].
    pub captured_bytes: u32,
    #[serde(flatten)]
    pub decoded: Decoded,
}

/// Parses a packet's telemetry, collecting all errors. Errors: `ioam.not_ipv6`.
pub fn decode(packet: &[u8]) -> Result<Decoded> {
    let mut found = options(packet)?;
    let Contents { options, errors } = gather(found.by_ref());
    Ok(Decoded { flow: found.flow(), options, errors })
}

/// Parses an extension header's telemetry, collecting all errors. Errors: those of [`header_options`].
pub fn decode_header(kind: Kind, header: &[u8]) -> Result<Contents> {
    header_options(kind, header).map(gather)
}

fn gather<'a>(found: impl Iterator<Item = Result<Located<'a>>>) -> Contents {
    let mut contents = Contents::default();
    for one in found {
        let placed = one.and_then(|one| {
            Ok(Placed { header: one.header, offset: one.at, option: one.option.to_option()? })
        });
        match placed {
            Ok(placed) => contents.options.push(placed),
            Err(e) => contents.errors.push(e.into()),
        }
    }
    contents
}
