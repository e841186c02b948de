//! Extensions of the simulated datapath, as `extend.h` of `ccp-bpf` defines them for the kernel's.

use ccp_error::Error;
use ccp_record::intf::ccp_flow_info;
use ccp_tcp::Sock;

use super::shared::Shared;
use super::window::Window;

/// An extension, shared by all flows of a world.
pub trait Extension: Send + Sync {
    /// Name by which algorithms refer to it.
    fn name(&self) -> &'static str;

    /// Validates a message; an empty one detaches the flow. Errors: `update.extension`.
    fn check(&self, raw: &[u8]) -> Result<(), Error>;

    /// Attaches to a flow, with a message that `check` accepted; none if the message requests nothing.
    fn begin(&self, flow: &Subject<'_>, raw: &[u8], sock: &Sock) -> Option<Box<dyn Extended>>;
}

/// The flow of a call.
pub struct Subject<'a> {
    pub shared: &'a Shared,
    pub index: usize,
    pub flow_id: u64,
    /// Addresses and settings.
    pub info: &'a ccp_flow_info,
}

impl Subject<'_> {
    pub fn send(&self, now_us: u64, words: &[u64]) {
        self.shared.extension_event(self.index, self.flow_id, now_us, words);
    }
}

/// An extension's state of one flow.
pub trait Extended: Send {
    /// Applies a message that `check` accepted; returns whether the extension stays attached.
    fn message(&mut self, raw: &[u8]) -> bool;

    /// Called at each ACK, before the fold.
    fn ack(&mut self, flow: &Subject<'_>, sock: &mut Sock, window: &mut Window);

    /// Sending restarts after an idle application.
    fn tx_start(&mut self, flow: &Subject<'_>, sock: &mut Sock, window: &mut Window);

    /// The rate it allows the flow; 0: unlimited.
    fn rate_allowed_bytes_per_s(&self) -> u64;

    /// The flow ends, or the extension is detached.
    fn release(&mut self, flow: &Subject<'_>, sock: &Sock);
}
