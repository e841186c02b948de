//! In-band telemetry of flows: [`Source`] makes the extension headers of packets, [`Meter`] measures what a node says
//! of a link, [`Sink`] makes of what packets brought a [`Summary`] of each flow and interval, which [`Lines`] writes.
//!
//! Times come in as numbers, packets as octets: there are no clocks, and nothing is opened here. The format is that of
//! `ccp-ioam`; what is measured how is told in `docs/inband.md`.

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
