//! UDP datagrams as packets of the emulated network.

use std::time::Duration;

use bytes::BytesMut;
use ccp_emu::{Ecn, Packet};

/// Headers of IPv4 and UDP.
const HEADER_BYTES: u32 = 28;

/// An end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    Sender,
    Receiver,
}

#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub flow: usize,
    /// The end that sent it.
    pub from: End,
    pub ecn: Ecn,
    pub data: BytesMut,
    /// When it was sent.
    pub sent: Duration,
}

impl Packet for Datagram {
    fn len_bytes(&self) -> u32 {
        u32::try_from(self.data.len()).unwrap_or(u32::MAX).saturating_add(HEADER_BYTES)
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn flow_id(&self) -> u64 {
        (self.flow as u64) << 1 | u64::from(self.from == End::Receiver)
    }

    fn hop(&mut self) -> bool {
        true
    }

    fn corrupt(&mut self, choice: u64) {
        let bits = (self.data.len() as u64 * 8).max(1);
        let bit = (choice % bits) as usize;
        if let Some(byte) = self.data.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }
}
