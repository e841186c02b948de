//! IPv6 options with telemetry.

use serde::{Deserialize, Serialize};

use crate::edge::EdgeToEdge;
use crate::ipv6;
use crate::path_echo::PathEcho;
use crate::snapshot::hex;
use crate::tcp_state::TcpState;
use crate::trace::{Trace, TraceOption};
use crate::wire::{bad_value, cannot_write, truncated};
use crate::{Error, Result};

/// IOAM whose data does not change on the path (RFC 9486, section 6).
pub const IOAM: u8 = 0x11;
/// IOAM whose data changes on the path.
pub const IOAM_MUTABLE: u8 = 0x31;
/// For experiments; unknown ones are skipped, data does not change on the path (RFC 4727, section 3.2).
pub const EXPERIMENT: u8 = 0x1e;

const PREALLOCATED: u8 = 0;
const INCREMENTAL: u8 = 1;
const EDGE_TO_EDGE: u8 = 3;
/// Before an IOAM option type's data: type, length, reserved, IOAM option type.
pub const HEAD_BYTES: usize = 4;

#[derive(Clone, Copy, Debug)]
pub enum Parsed<'a> {
    Trace(Trace<'a>),
    EdgeToEdge(EdgeToEdge),
    TcpState(TcpState),
    PathEcho(PathEcho),
    /// Another IOAM option type, such as proof of transit (2) or direct export (4).
    Other(u8, &'a [u8]),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum IoamOption {
    Trace(TraceOption),
    EdgeToEdge(EdgeToEdge),
    TcpState(TcpState),
    PathEcho(PathEcho),
    Other {
        ioam_type: u8,
        #[serde(with = "hex")]
        data: Vec<u8>,
    },
}

impl<'a> Parsed<'a> {
    /// Parses an option of this type, at `at`; `None` if it is a third-party option.
    pub fn read(kind: u8, data: &'a [u8], at: usize) -> Option<Result<Self>> {
        match kind {
            IOAM | IOAM_MUTABLE => Some(Self::read_ioam(data, at)),
            EXPERIMENT if PathEcho::is(data) => Some(PathEcho::read(data, at + 2).map(Parsed::PathEcho)),
            EXPERIMENT => Some(TcpState::read(data, at + 2)?.map(Parsed::TcpState)),
            _ => None,
        }
    }

    fn read_ioam(data: &'a [u8], at: usize) -> Result<Self> {
        let [_, ioam_type, body @ ..] = data else { return Err(truncated("IOAM-Opt-Type", at + 3)) };
        let at = at + HEAD_BYTES;
        Ok(match *ioam_type {
            PREALLOCATED => Parsed::Trace(Trace::read(body, at, false)?),
            INCREMENTAL => Parsed::Trace(Trace::read(body, at, true)?),
            EDGE_TO_EDGE => Parsed::EdgeToEdge(EdgeToEdge::read(body, at)?),
            other => Parsed::Other(other, body),
        })
    }

    /// An owned copy. Errors: those of a node's data.
    pub fn to_option(&self) -> Result<IoamOption> {
        Ok(match *self {
            Parsed::Trace(trace) => IoamOption::Trace(trace.to_option()?),
            Parsed::EdgeToEdge(edge) => IoamOption::EdgeToEdge(edge),
            Parsed::TcpState(state) => IoamOption::TcpState(state),
            Parsed::PathEcho(echo) => IoamOption::PathEcho(echo),
            Parsed::Other(ioam_type, data) => IoamOption::Other { ioam_type, data: data.to_vec() },
        })
    }
}

impl IoamOption {
    /// Whether it belongs into the header for every node (RFC 9486, section 3), not only for the destination.
    pub fn is_hop_by_hop(&self) -> bool {
        matches!(self, IoamOption::Trace(_))
    }

    /// Appends it to a header, with padding if necessary. Errors: `ioam.cannot_write`.
    pub fn append(&self, header: &mut Vec<u8>) -> Result<()> {
        // For a super-packet it takes the place of padding.
        let of_super_packet = matches!(self, IoamOption::TcpState(TcpState { first_sequence: Some(_), .. }));
        let missing = if of_super_packet { 0 } else { header.len().next_multiple_of(4) - header.len() };
        ipv6::pad(header, missing);
        self.write(header)
    }

    /// Appends it. Errors: `ioam.cannot_write`.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        match self {
            IoamOption::Trace(trace) => {
                out.extend([IOAM_MUTABLE, 0, 0, PREALLOCATED]);
                trace.write(out)?;
            }
            IoamOption::EdgeToEdge(edge) => {
                out.extend([IOAM, 0, 0, EDGE_TO_EDGE]);
                edge.write(out)?;
            }
            IoamOption::TcpState(state) => {
                out.extend([EXPERIMENT, 0]);
                state.write(out)?;
            }
            IoamOption::PathEcho(echo) => {
                out.extend([EXPERIMENT, 0]);
                echo.write(out)?;
            }
            IoamOption::Other { ioam_type, .. } => {
                return Err(cannot_write("kind", format!("IOAM option type {ioam_type} cannot be written")));
            }
        }
        out[start + 1] = (out.len() - start - 2) as u8;
        Ok(())
    }
}

/// Alignment of options of this type in their header (RFC 9486, section 3).
pub fn alignment(kind: u8) -> usize {
    if kind == EXPERIMENT { 1 } else { 4 }
}

pub fn misaligned(at: usize) -> Error {
    bad_value("Option Type", at, "IOAM options must begin at a multiple of four bytes (RFC 9486, section 3)")
}
