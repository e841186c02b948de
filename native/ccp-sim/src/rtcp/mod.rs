//! R-TCP's congestion controls for ordinary sockets, as registered with the kernel by `rtcp.bpf.c` of
//! `ccp-rtcp`: CUBIC and BBR, limited by R-TCP's findings about their clients.

mod bbr;
mod connection;
mod cubic;
mod limit;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccp_error::Error;
use ccp_rtcp_core::{Ack, Clients, Options, Row};

use bbr::RtcpBbr;
use cubic::RtcpCubic;
pub use limit::RateLimits;

use crate::World;
use crate::features::{Ends, Offer, Offered};

/// Congestion controls on offer while R-TCP is attached.
pub const NAMES: [&str; 2] = ["rtcp_cubic", "rtcp_bbr"];

/// A handle on attached R-TCP; each of its connections has one.
#[derive(Clone)]
pub struct Attached(Arc<Inner>);

struct Inner {
    options: Options,
    records: bool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    clients: Clients,
    rows: Vec<Row>,
    acks: Vec<Ack>,
}

impl Attached {
    /// Offers `rtcp_cubic` and `rtcp_bbr` to the flows of a world. `records`: each of their ACKs produces a
    /// row. Errors: `rtcp.bad_options`: too many candidates; `rtcp.name_taken`: already attached.
    pub fn attach(world: &mut World, options: Options, records: bool) -> Result<Self, Error> {
        if world.offers(NAMES[0]) {
            return Err(Error::new("rtcp.name_taken", "R-TCP is already attached")
                .why("R-TCP can be attached to a world only once")
                .fix("attach R-TCP once, with the options of all flows"));
        }
        if !options.usable() {
            return Err(Error::new("rtcp.bad_options", "invalid options of the detector")
                .fix("pass the result of `ccp_algs.rtcp.Options.to_bytes`"));
        }
        let attached = Self(Arc::new(Inner { options, records, known: Mutex::default() }));
        world.offer(Box::new(attached.clone()));
        Ok(attached)
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

    #[must_use]
    pub fn take_rows(&self) -> Vec<Row> {
        std::mem::take(&mut self.known().rows)
    }

    #[must_use]
    pub fn take_acks(&self) -> Vec<Ack> {
        std::mem::take(&mut self.known().acks)
    }
}

impl Offer for Attached {
    fn control(&self, name: &str, ends: Ends) -> Option<Box<dyn Offered>> {
        let [cubic, bbr] = NAMES;
        match name {
            name if name == cubic => Some(Box::new(RtcpCubic::new(self, ends))),
            name if name == bbr => Some(Box::new(RtcpBbr::new(self, ends))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
