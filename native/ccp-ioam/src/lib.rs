//! In-band telemetry in IPv6 packets: IOAM options of RFC 9197 and RFC 9486.
//!
//! [`options`] parses a packet, [`insert`] and [`remove`] add and remove options, and [`fill`] is a transit node.
//! [`Capture`] reads files. Input is never trusted: nothing is read outside the packet, and an [`Error`] names the field
//! and its offset. `docs/ioam.md` describes the formats.

#![forbid(unsafe_code)]

mod capture;
mod edge;
mod fill;
mod insert;
mod ipv6;
mod link;
mod node;
mod numbers;
mod option;
mod path_echo;
mod read;
mod record;
mod remove;
mod snapshot;
mod state;
mod tcp_state;
mod trace;
mod trace_type;
mod wire;

pub use capture::{Capture, Summary, write as capture_writer};
pub use ccp_error::Error;
pub use edge::EdgeToEdge;
pub use fill::{Filled, fill, fill_headers, set_flow_dropped, set_transit_delay};
pub use insert::{Headers as NewHeaders, build, insert};
pub use ipv6::{Flow, Kind};
pub use node::Node;
pub use numbers::Numbers;
pub use option::{IoamOption, Parsed};
pub use path_echo::PathEcho;
pub use read::{HeaderOptions, Located, Options, ReadHeaders, header_options, options, read_headers};
pub use record::{Contents, Decoded, Placed, Problem, Record, decode, decode_header};
pub use remove::{remove, remove_headers};
pub use snapshot::Snapshot;
pub use state::State;
pub use tcp_state::TcpState;
pub use trace::{Nodes, Trace, TraceOption};
pub use trace_type::TraceType;

pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
