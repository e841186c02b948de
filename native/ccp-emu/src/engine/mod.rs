//! The engine: pure computation in virtual time, without a clock or I/O.

mod agenda;
mod bucket;
mod counters;
mod loss;
mod misbehaving;
mod network;
mod pipe;
mod propagation;
mod queue;
mod transmitter;

pub use counters::Counters;
pub use network::{Delivery, Network, Sample, Tapped};

#[cfg(test)]
mod test_packet;
