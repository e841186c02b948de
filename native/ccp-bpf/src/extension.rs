//! Extensions of the datapath: BPF objects of their own, loaded when an algorithm asks for one.

use crate::intf;

/// A program that the core calls.
pub(crate) struct Hook {
    /// Member of `tcp_congestion_ops` in which the core calls it.
    pub member: &'static str,
    /// The core's table of programs for that member.
    pub table: &'static str,
    /// The extension's program.
    pub program: &'static str,
}

/// An extension that comes with ccplane.
pub(crate) struct Extension {
    /// The name by which algorithms ask for it.
    pub name: &'static str,
    /// `enum ccp_extension`.
    pub index: u32,
    /// Its `struct_ops` map, which is never registered.
    pub ops: &'static str,
    pub object: &'static [u8],
    /// Its own maps.
    pub maps: &'static [&'static str],
    pub hooks: &'static [Hook],
}

const fn hook(member: &'static str, table: &'static str, program: &'static str) -> Hook {
    Hook { member, table, program }
}

/// R-TCP: flows are kept within the token bucket that limits their client.
pub(crate) const RATE_LIMITS: Extension = Extension {
    name: ccp_record::RATE_LIMITS,
    index: intf::CCP_EXTENSION_RATE_LIMITS,
    ops: "ccp_limit",
    object: include_bytes!(env!("CCP_LIMIT_OBJECT")),
    maps: &["limits", "limit_mail", "limit_clients", "limit_blank"],
    hooks: &[
        hook("cong_control", "extensions_on_ack", "limit_on_ack"),
        hook("cwnd_event", "extensions_on_cwnd_event", "limit_on_cwnd_event"),
        hook("cwnd_event_tx_start", "extensions_on_cwnd_event_tx_start", "limit_on_cwnd_event_tx_start"),
        hook("release", "extensions_on_release", "limit_on_release"),
    ],
};

/// All of them.
pub(crate) const EXTENSIONS: [&Extension; 1] = [&RATE_LIMITS];
