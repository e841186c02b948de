//! Connections that an agent steers: what the BPF programs of `ccp-bpf` do for a flow, in virtual time.
//!
//! [`AgentFlow`] is the congestion control `ccp`: at each ACK it measures the primitives, runs the flow's fold program in
//! the reference interpreter, applies window and rate, and puts reports where the agent finds them ([`Shared`]). Without
//! a program, or without an agent, CUBIC steers.

mod flow;
mod law;
mod letter;
mod limit;
mod path;
mod primitives;
mod shared;
#[cfg(test)]
mod test_flow;
mod window;

pub use flow::AgentFlow;
pub use limit::{EXTENSIONS, check_letter, no_extension};
pub use shared::Shared;
#[cfg(test)]
pub(crate) use test_flow::test_letter;
