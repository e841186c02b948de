//! Connections controlled by an agent: the BPF programs of `ccp-bpf`, in virtual time.
//!
//! [`AgentFlow`] is the congestion control `ccp`: at each ACK it measures the primitives, runs the flow's
//! fold program in the reference interpreter, applies window and rate, and leaves reports for the agent
//! ([`Shared`]). Without a program or an agent, CUBIC is the fallback.

mod extend;
mod fallback;
mod flow;
mod path;
mod pending;
mod primitives;
mod shared;
#[cfg(test)]
pub(crate) mod test_flow;
mod window;

pub use extend::{Extended, Extension, Subject};
pub use flow::AgentFlow;
pub use shared::Shared;
pub use window::{NO_CWND_CAP, Window};
