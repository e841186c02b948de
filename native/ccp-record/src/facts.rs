//! Descriptions from the comments of `ccp-bpf/src/bpf/intf.h`: primitives, totals, the head of reports,
//! counters. Python and the documents are generated from them (`make facts`).

use crate::intf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    pub name: &'static str,
    /// Type in Rust; empty for a constant.
    pub kind: &'static str,
    pub unit: &'static str,
    pub is_bool: bool,
    /// `flag`, a property of a primitive for the compiler, or the enumeration of the value; mostly empty.
    pub tag: &'static str,
    pub doc: &'static str,
}

pub type Counter = fn(&intf::ccp_globals) -> u64;

include!(concat!(env!("OUT_DIR"), "/facts.rs"));

const _: () = assert!(PRIMITIVES.len() == intf::CCP_PRIM_COUNT as usize, "a primitive has no description");

/// Why the fallback has a flow.
pub fn fallback_cause(cause: u32) -> &'static str {
    FALLBACK_CAUSES.get(cause as usize).unwrap_or(&FALLBACK_CAUSES[0]).name
}

pub fn counters(g: &intf::ccp_globals) -> Vec<(&'static str, u64)> {
    let mut counters: Vec<_> = COUNTED.iter().map(|(name, value)| (*name, value(g))).collect();
    counters.extend([
        ("flows_active", g.flows_active),
        ("flows_created", g.generation),
        ("without_slot_limit", g.without_slot[intf::CCP_NO_SLOT_LIMIT as usize]),
        ("without_slot_quota", g.without_slot[intf::CCP_NO_SLOT_QUOTA as usize]),
        ("fallback_entries", g.fallback_entries.iter().sum()),
        ("fallback_entries_silent", g.fallback_entries[intf::CCP_FALLBACK_SILENT as usize]),
        ("fallback_entries_unanswered", g.fallback_entries[intf::CCP_FALLBACK_UNANSWERED as usize]),
        ("fallback_entries_uninstalled", g.fallback_entries[intf::CCP_FALLBACK_UNINSTALLED as usize]),
        ("fallback_entries_no_program", g.fallback_entries[intf::CCP_FALLBACK_NO_PROGRAM as usize]),
        ("fallback_entries_failed", g.fallback_entries[intf::CCP_FALLBACK_FAILED as usize]),
        ("max_flows", u64::from(g.max_flows)),
        ("agent_pid", u64::from(g.agent_pid)),
        ("heartbeat_us", g.heartbeat_us),
    ]);
    counters
}
