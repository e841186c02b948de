//! Extensions of the simulated datapath: what `extend.h` of `ccp-bpf` offers those of the kernel's.

use ccp_error::Error;
use ccp_record::intf::ccp_flow_info;
use ccp_tcp::Sock;

use super::shared::Shared;
use super::window::Window;

/// An extension, one for all flows of a world.
pub trait Extension: Send + Sync {
    /// Algorithms ask for it by this name.
    fn name(&self) -> &'static str;

    /// Refuses a message that it cannot read; an empty one has it leave the flow.
    /// Errors: `update.extension`.
    fn check(&self, octets: &[u8]) -> Result<(), Error>;

    /// Begins with a flow, at a message that `check` has accepted; none if the message asks for nothing.
    fn begin(&self, flow: &Subject<'_>, octets: &[u8], sock: &Sock) -> Option<Box<dyn Extended>>;
}

/// The flow that an extension is called for.
pub struct Subject<'a> {
    /// Takes records.
    pub shared: &'a Shared,
    /// Index of the extension.
    pub index: usize,
    pub flow_id: u64,
    /// Addresses and settings.
    pub info: &'a ccp_flow_info,
}

impl Subject<'_> {
    /// Sends the agent a record of the extension.
    pub fn send(&self, now_us: u64, words: &[u64]) {
        self.shared.tell_of_extension(self.index, self.flow_id, now_us, words);
    }
}

/// What an extension does for a flow.
pub trait Extended: Send {
    /// Takes a message that `check` has accepted; returns whether the extension stays with the flow.
    fn message(&mut self, octets: &[u8]) -> bool;

    /// An ACK has come in; the fold comes after it.
    fn ack(&mut self, flow: &Subject<'_>, sock: &mut Sock, window: &mut Window);

    /// Sending begins again, after the application had nothing.
    fn tx_start(&mut self, flow: &Subject<'_>, sock: &mut Sock, window: &mut Window);

    /// What it lets the flow send; 0: it does not bound it.
    fn rate_allowed_bytes_per_s(&self) -> u64;

    /// The flow ends, or the extension leaves it.
    fn release(&mut self, flow: &Subject<'_>, sock: &Sock);
}
