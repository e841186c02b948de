//! TCP headers of packets. The network of a misbehaving receiver changes acknowledgments.

use ccp_int::{FlowKey, Protocol};

use super::checksum::{fold, set_word, sum, word};
use super::datagram::{IpPacket, pseudo_sum};
use crate::packet::Packet;

/// Offsets in a header (RFC 9293, section 3.1).
const SEQUENCE_AT: usize = 4;
const ACK_AT: usize = 8;
pub(super) const DATA_OFFSET_AT: usize = 12;
pub(super) const FLAGS_AT: usize = 13;
const CHECKSUM_AT: usize = 16;
pub(super) const OPTIONS_AT: usize = 20;

/// Flags.
pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;
pub(super) const URG: u8 = 0x20;
const ECE: u8 = 0x40;
pub(super) const CWR: u8 = 0x80;

/// Kinds of options (RFC 9293, section 3.2; RFC 2018).
pub(super) const END: u8 = 0;
pub(super) const NOP: u8 = 1;
const SACK: u8 = 5;

/// A TCP header that is completely in a packet's head.
pub(super) struct Tcp {
    pub flow: FlowKey,
    /// Offsets of the header and its end in the packet.
    pub start: usize,
    pub end: usize,
    pub flags: u8,
    payload_bytes: usize,
}

/// Sequence number of a header that begins at this offset.
pub(super) fn sequence(head: &[u8], start: usize) -> u32 {
    number(head, start + SEQUENCE_AT)
}

/// Number acknowledged by a header that begins at this offset.
pub(super) fn acknowledged(head: &[u8], start: usize) -> u32 {
    number(head, start + ACK_AT)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

impl IpPacket {
    fn tcp(&self) -> Option<Tcp> {
        let flow = self.flow().filter(|flow| flow.protocol == Protocol::Tcp)?;
        let (start, head) = (self.ip_bytes(), self.head());
        let end = start + usize::from(head.get(start + DATA_OFFSET_AT)? >> 4) * 4;
        let total = head.len() + self.tail().len();
        let is_whole = end >= start + OPTIONS_AT && end <= head.len();
        is_whole.then(|| Tcp { flow, start, end, flags: head[start + FLAGS_AT], payload_bytes: total - end })
    }

    /// Flow, first sequence number, and the one after the last.
    pub(super) fn sent(&self) -> Option<(FlowKey, u32, u32)> {
        let tcp = self.tcp().filter(|tcp| tcp.flags & (SYN | RST) == 0)?;
        let length = tcp.payload_bytes as u32 + u32::from(tcp.flags & FIN);
        let first = sequence(self.head(), tcp.start);
        (length > 0).then(|| (tcp.flow, first, first.wrapping_add(length)))
    }

    /// Flow of the acknowledged data, and the number.
    pub(super) fn acked(&self) -> Option<(FlowKey, u32)> {
        let tcp = self.pure_ack()?;
        Some((tcp.flow.reversed(), acknowledged(self.head(), tcp.start)))
    }

    /// The header of an ACK without data that neither opens nor closes a connection.
    pub(super) fn pure_ack(&self) -> Option<Tcp> {
        self.tcp().filter(|tcp| tcp.payload_bytes == 0 && tcp.flags & (FIN | SYN | RST | ACK) == ACK)
    }

    /// Changes the number of an ACK; removes SACK ranges below it.
    pub(super) fn set_acked(&mut self, number: u32) {
        let Some(Tcp { start, end, .. }) = self.pure_ack() else { return };
        let head = self.head_mut();
        head[start + ACK_AT..start + ACK_AT + 4].copy_from_slice(&number.to_be_bytes());
        remove_sacks_below(&mut head[start + OPTIONS_AT..end], number);
        self.restore_checksum(start);
    }

    /// Clears ECE.
    pub(super) fn clear_ece(&mut self) {
        let Some(Tcp { start, .. }) = self.pure_ack() else { return };
        self.head_mut()[start + FLAGS_AT] &= !ECE;
        self.restore_checksum(start);
    }

    /// Computes the checksum of a packet without payload, if it is not computed later.
    fn restore_checksum(&mut self, start: usize) {
        if self.partial().is_some() {
            return;
        }
        set_word(self.head_mut(), start + CHECKSUM_AT, 0);
        let head = self.head();
        let pseudo = pseudo_sum(head, head.len() - start, CHECKSUM_AT as u16);
        let complement = !fold(u64::from(pseudo) + u64::from(sum(&head[start..])));
        set_word(self.head_mut(), start + CHECKSUM_AT, complement);
    }
}

/// Overwrites the SACK option with padding if any of its ranges begins below this number.
fn remove_sacks_below(options: &mut [u8], below: u32) {
    let mut at = 0;
    while let Some(kind) = options.get(at).copied().filter(|kind| *kind != END) {
        let length = match options.get(at + 1) {
            _ if kind == NOP => 1,
            Some(length) if *length >= 2 => usize::from(*length),
            _ => return,
        };
        let Some(option) = options.get_mut(at..at + length) else { return };
        let is_below = |range: &[u8]| (below.wrapping_sub(number(range, 0)) as i32) > 0;
        if kind == SACK && option[2..].chunks_exact(8).any(is_below) {
            option.fill(NOP);
        }
        at += length;
    }
}

#[cfg(test)]
#[path = "tcp_tests.rs"]
mod tests;
