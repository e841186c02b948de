//! The rules of nodes shared with the BPF programs: C compiled for both (`ccp-node/src/bpf/rules.h`).
#![allow(unsafe_code)]

use ccp_ioam::Numbers;

#[allow(non_camel_case_types, non_upper_case_globals, dead_code, missing_docs, unreachable_pub)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
mod types {
    include!(concat!(env!("OUT_DIR"), "/types.rs"));
}

#[cfg(test)]
pub use types::node_noted as Noted;
pub use types::{LOST_BY_CONGESTION, LOST_BY_LINK, LOST_UNKNOWN, NODE_MISSING as MISSING};
pub use types::{
    node_count as Count, node_report as Reported, path_found as Found, path_known as Known,
    path_loss as Cause,
};

unsafe extern "C" {
    fn node_host_numbers(count: *mut Count, numbers: *const types::numbers);
    fn node_host_plain(count: *mut Count, pkts: u32);
    #[cfg(test)]
    fn node_host_note(noted: *mut Noted, packet: u64);
    #[cfg(test)]
    fn node_host_take_note(noted: *mut Noted, packet: u64) -> bool;
    #[cfg(test)]
    fn node_host_forget(noted: *mut Noted);
    fn node_host_path(
        known: *mut Known,
        numbers: *const types::numbers,
        missing: u16,
        hop_limit: u32,
        nodes: *const Reported,
        count: u32,
        found: *mut Found,
    ) -> bool;
}

fn shared(numbers: Numbers) -> types::numbers {
    types::numbers { first: numbers.first, pkts: numbers.pkts }
}

impl Count {
    pub fn came(&mut self, numbers: Numbers) {
        // SAFETY: both outlive the call.
        unsafe { node_host_numbers(self, &shared(numbers)) }
    }

    pub fn plain(&mut self, pkts: u32) {
        // SAFETY: it outlives the call.
        unsafe { node_host_plain(self, pkts) }
    }
}

impl Known {
    /// A packet passed these nodes, the last of the path first, and the sink misses `missing` packets of its
    /// flow; `None` if a later packet arrived before.
    pub fn packet(
        &mut self,
        numbers: Numbers,
        missing: u16,
        hop_limit: u32,
        nodes: &[Reported],
    ) -> Option<Found> {
        let mut found = Found::default();
        // SAFETY: all of it outlives the call, and the number of nodes is right.
        let is_newest = unsafe {
            node_host_path(
                self,
                &shared(numbers),
                missing,
                hop_limit,
                nodes.as_ptr(),
                nodes.len() as u32,
                &mut found,
            )
        };
        is_newest.then_some(found)
    }
}

#[cfg(test)]
impl Noted {
    pub fn note(&mut self, packet: u64) {
        // SAFETY: it outlives the call.
        unsafe { node_host_note(self, packet) }
    }

    pub fn take_note(&mut self, packet: u64) -> bool {
        // SAFETY: it outlives the call.
        unsafe { node_host_take_note(self, packet) }
    }

    pub fn forget(&mut self) {
        // SAFETY: it outlives the call.
        unsafe { node_host_forget(self) }
    }
}
