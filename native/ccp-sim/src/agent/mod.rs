//! Connections that an agent steers: what the BPF programs of `ccp-bpf` do for a flow, in virtual time.
//!
//! [`AgentFlow`] is the congestion control `ccp`: at each ACK it measures the primitives, runs the flow's fold program in
//! the reference interpreter, applies window and rate, and puts reports where the agent finds them ([`Shared`]). Without
//! a program, or without an agent, CUBIC steers.

mod extend;
mod flow;
mod law;
mod letter;
mod path;
mod primitives;
mod shared;
#[cfg(test)]
pub(crate) mod test_flow;
mod window;

pub use extend::{Extended, Extension, Subject};
pub use flow::AgentFlow;
pub use shared::{Counters, Shared};
pub use window::{NO_CWND_CAP, Window};
