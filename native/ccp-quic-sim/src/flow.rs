//! A flow: a connection with a controller, and what its application sends.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use ccp_emu::{Ecn, Result};

use crate::packet::{Datagram, End};
use crate::record::Record;

/// What the application of a flow sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// Always more.
    Bulk,
    /// This number of bytes, and then the end of the stream.
    Transfer { bytes: u64 },
    /// Messages of equal size, such as frames of a video.
    Messages { bytes: u64, every: Duration },
}

/// A flow of a simulation, made by `quinn::flow` or `noq::flow`.
pub struct Flow {
    pub(crate) name: String,
    pub(crate) traffic: Traffic,
    pub(crate) start: Duration,
    pub(crate) connect: Box<dyn FnOnce(Begin) -> Result<Box<dyn Pair>>>,
}

impl Flow {
    pub(crate) fn new(connect: impl FnOnce(Begin) -> Result<Box<dyn Pair>> + 'static) -> Self {
        let (traffic, start) = (Traffic::Bulk, Duration::ZERO);
        Flow { name: String::new(), traffic, start, connect: Box::new(connect) }
    }

    /// Sets the name in the report; the default is empty.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_string();
        self
    }

    /// Sets what the application sends; the default is [`Traffic::Bulk`].
    #[must_use]
    pub fn traffic(mut self, traffic: Traffic) -> Self {
        self.traffic = traffic;
        self
    }

    /// Connects this long after the start of the simulation.
    #[must_use]
    pub fn start(mut self, after: Duration) -> Self {
        self.start = after;
        self
    }
}

/// What a connection begins with.
pub(crate) struct Begin {
    pub flow: usize,
    pub now: Instant,
    pub seed: [u8; 32],
}

/// Both ends of a connection.
pub(crate) trait Pair {
    /// An end receives a datagram.
    fn receive(&mut self, now: Now, at: End, ecn: Ecn, data: BytesMut, record: &mut Record) -> Result<()>;

    /// Runs timers that are due, lets the applications write and read, and adds what is sent.
    fn advance(
        &mut self,
        now: Now,
        offered: Offered,
        record: &mut Record,
        sent: &mut Vec<Datagram>,
    ) -> Result<()>;

    /// Time of the next timer.
    fn due(&mut self) -> Option<Instant>;

    /// Bytes read by the receiving application.
    fn received_bytes(&self) -> u64;

    /// The receiving application has read the end of the stream.
    fn is_complete(&self) -> bool;
}

/// The time: since the start of the simulation, and as the stack knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub at: Duration,
    pub instant: Instant,
}

/// Bytes that the application has written or wants to write, from the start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Offered {
    Endless,
    Bytes { total: u64, is_end: bool },
}
