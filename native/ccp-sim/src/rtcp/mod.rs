//! R-TCP's congestion controls for ordinary sockets, as `rtcp.bpf.c` of `ccp-rtcp` registers them with the kernel: CUBIC and
//! BBR as they are, bounded by what R-TCP finds of their clients.

mod bbr;
mod connection;
mod cubic;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccp_error::Error;
use ccp_rtcp_core::{Ack, Clients, Options, Row};

pub use bbr::RtcpBbr;
pub(crate) use connection::Ends;
pub use cubic::RtcpCubic;

/// What connections can choose while R-TCP is attached.
pub const NAMES: [&str; 2] = ["rtcp_cubic", "rtcp_bbr"];

/// R-TCP, attached: a handle on it; each of its connections has one.
#[derive(Clone)]
pub(crate) struct Attached(Arc<Inner>);

struct Inner {
    options: Options,
    /// Each ACK makes a row.
    records: bool,
    known: Mutex<Known>,
}

/// What all connections have in common.
#[derive(Default)]
struct Known {
    clients: Clients,
    rows: Vec<Row>,
    acks: Vec<Ack>,
}

impl Attached {
    /// # Errors
    ///
    /// `rtcp.bad_options`: the detector has no room for so many candidates.
    pub fn new(options: Options, records: bool) -> Result<Self, Error> {
        if !options.usable() {
            return Err(Error::new("rtcp.bad_options", "these are no options of the detector")
                .fix("give it what `ccp_algs.rtcp.Options.to_bytes` returns"));
        }
        Ok(Self(Arc::new(Inner { options, records, known: Mutex::default() })))
    }

    fn options(&self) -> &Options {
        &self.0.options
    }

    fn records(&self) -> bool {
        self.0.records
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Verdicts on clients since the last call.
    pub fn take_rows(&self) -> Vec<Row> {
        std::mem::take(&mut self.known().rows)
    }

    /// ACKs since the last call.
    pub fn take_acks(&self) -> Vec<Ack> {
        std::mem::take(&mut self.known().acks)
    }
}

#[cfg(test)]
mod tests;
