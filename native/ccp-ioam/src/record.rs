//! What was found, on its own: as JSON for Python.

use serde::Serialize;

use crate::ipv6::{Flow, Kind};
use crate::option::IoamOption;
use crate::read::{Located, header_options, options};
use crate::{Error, Result};

/// An option, and where it lies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// In which header.
    pub header: Kind,
    /// Octet of the packet at which it begins.
    pub offset: usize,
    /// What it says.
    pub option: IoamOption,
}

/// What is wrong.
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

/// What an extension header carries.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Contents {
    /// The telemetry in it.
    pub options: Vec<Placed>,
    /// What could not be read.
    pub errors: Vec<Problem>,
}

/// What a packet carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decoded {
    /// Whose it is.
    pub flow: Flow,
    /// The telemetry in it.
    pub options: Vec<Placed>,
    /// What could not be read.
    pub errors: Vec<Problem>,
}

/// A packet of a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// Its number in the file, from 1.
    pub packet: u64,
    /// When it was captured, since 1970 [ns].
    pub time_ns: Option<u64>,
    /// Octets that it had.
    pub bytes: u32,
    /// Octets of it in the file.
    pub captured_bytes: u32,
    /// What it carries.
    #[serde(flatten)]
    pub decoded: Decoded,
}

/// Reads all that a packet carries, and all that is wrong with it.
///
/// # Errors
///
/// `ioam.not_ipv6`.
pub fn decode(packet: &[u8]) -> Result<Decoded> {
    let mut found = options(packet)?;
    let Contents { options, errors } = gather(found.by_ref());
    Ok(Decoded { flow: found.flow(), options, errors })
}

/// Reads all that an extension header carries, and all that is wrong with it.
///
/// # Errors
///
/// Those of [`header_options`].
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
