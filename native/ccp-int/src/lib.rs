//! In-band telemetry of flows: [`Source`] makes the extension headers of packets, [`Meter`] measures a link for a node,
//! [`Sink`] derives a [`Summary`] per flow and interval from received packets, and [`Lines`] writes it.
//!
//! Times are passed in as numbers and packets as bytes: there are no clocks and no I/O. The format is that of
//! `ccp-ioam`; `docs/inband.md` explains the measurements.

#![deny(unsafe_code)]

mod counts;
mod flow;
mod gaps;
mod lines;
mod meter;
mod nodes;
mod recent;
mod rules;
mod sink;
mod source;
mod spec;

pub use counts::{FlowCount, FlowCounts};
pub use flow::{FlowKey, Protocol};
pub use lines::Lines;
pub use meter::{FLOW_WINDOW_NS, Meter, RATE_TIME_NS};
pub use nodes::{NodeInfo, NodeTable, Unit};
pub use sink::{Came, FlowId, Hop, LossCause, RecordRow, Sink, SinkSpec, Summary};
pub use source::Source;
pub use spec::SourceSpec;

pub use ccp_ioam::{Error, Result};

#[cfg(test)]
mod tests;
