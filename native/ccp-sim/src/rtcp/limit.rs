//! Keeps a flow within the token bucket that limits its client (R-TCP), at the agent's request: `limit.bpf.c`
//! of `ccp-rtcp`. Window and pacing rate are limited when they are applied, whatever the algorithm requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccp_error::Error;
use ccp_rtcp_core::types::{RTCP_CAP_CWND, RTCP_CAP_RATE, RTCP_OPEN};
use ccp_rtcp_core::{Clients, Connection, EXTENSION, Learned, Message, Options};
use ccp_tcp::{MIN_CWND_PKTS, Sock};

use super::connection::socket;
use crate::agent::{Extended, Extension, NO_CWND_CAP, Subject, Window};
use crate::features::Ends;

/// The extension, with the clients of all flows.
#[derive(Default)]
pub struct RateLimits(Arc<Mutex<Clients>>);

/// Parses a message; none if the C code cannot use its options.
fn wanted(raw: &[u8]) -> Option<Message> {
    Message::from_bytes(raw).filter(|message| message.options.usable())
}

impl Extension for RateLimits {
    fn name(&self) -> &'static str {
        EXTENSION
    }

    fn check(&self, raw: &[u8]) -> Result<(), Error> {
        if Message::from_bytes(raw).is_some() {
            return Ok(());
        }
        let what = format!("the extension `{EXTENSION}` accepts no message of {} bytes", raw.len());
        Err(Error::new("update.extension", what)
            .why(format!("it accepts {}", size_of::<Message>()))
            .fix("send a message as documented by the extension, or nothing to detach the flow"))
    }

    fn begin(&self, flow: &Subject<'_>, raw: &[u8], sock: &Sock) -> Option<Box<dyn Extended>> {
        let Message { caps, options, .. } = wanted(raw).filter(|message| message.caps != 0)?;
        let info = flow.info;
        let ends = Ends { netns: info.netns_inum, daddr: info.daddr, dport: info.dport, ..Ends::default() };
        let clients = self.0.clone();
        let connection = lock(&clients).begin(socket(&ends, sock), &options);
        let mut limit = Limit { kinds: caps, options, clients, connection, ends, known: RTCP_OPEN };
        if sock.packets_out > 0 {
            limit.start(flow, sock); // it is already sending
        }
        Some(Box::new(limit))
    }
}

struct Limit {
    /// `enum rtcp_caps`.
    kinds: u32,
    options: Options,
    clients: Arc<Mutex<Clients>>,
    connection: Connection,
    ends: Ends,
    /// The verdict last sent to the agent.
    known: u32,
}

fn lock(clients: &Mutex<Clients>) -> MutexGuard<'_, Clients> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Extended for Limit {
    fn message(&mut self, raw: &[u8]) -> bool {
        let stays = Message::from_bytes(raw).is_some_and(|message| message.caps != 0);
        if let Some(message) = wanted(raw).filter(|_| stays) {
            self.options = message.options;
            self.kinds = message.caps;
        }
        stays
    }

    fn ack(&mut self, flow: &Subject<'_>, sock: &mut Sock, window: &mut Window) {
        let learned = lock(&self.clients).ack(&mut self.connection, socket(&self.ends, sock), &self.options);
        self.report(flow, learned);
        self.apply(sock, window);
    }

    fn tx_start(&mut self, flow: &Subject<'_>, sock: &mut Sock, window: &mut Window) {
        self.start(flow, sock);
        self.apply(sock, window);
    }

    fn rate_allowed_bytes_per_s(&self) -> u64 {
        self.connection.rate_bytes_per_s()
    }

    fn release(&mut self, _flow: &Subject<'_>, sock: &Sock) {
        let connection = std::mem::take(&mut self.connection);
        lock(&self.clients).leave(connection, socket(&self.ends, sock), &self.options);
    }
}

impl Limit {
    fn start(&mut self, flow: &Subject<'_>, sock: &Sock) {
        let learned =
            lock(&self.clients).start(&mut self.connection, socket(&self.ends, sock), &self.options);
        self.report(flow, learned);
    }

    fn report(&mut self, flow: &Subject<'_>, learned: Option<Learned>) {
        let Some(row) = learned.map(|l| l.row).filter(|row| row.verdict != self.known) else { return };
        self.known = row.verdict;
        flow.send(row.t_us, &row.words());
    }

    /// Limits window and pacing to what this flow may send now.
    fn apply(&self, sock: &mut Sock, window: &mut Window) {
        let is_paced = self.kinds & RTCP_CAP_RATE != 0;
        let floor_pkts = if is_paced { self.options.floor_pkts } else { MIN_CWND_PKTS };
        let max_pkts = self.connection.window_pkts(socket(&self.ends, sock), floor_pkts, is_paced);
        let max_pkts = max_pkts.filter(|_| self.kinds & RTCP_CAP_CWND != 0);
        let mss = u64::from(sock.mss_bytes);
        window.cap_bytes = max_pkts.map_or(NO_CWND_CAP, |pkts| u64::from(pkts) * mss);
        if u64::from(sock.snd_cwnd) * mss > window.cap_bytes {
            window.apply(sock, window.cap_bytes, window.cap_bytes);
        }
        let pace_cap = if is_paced { self.connection.pacing_cap_bytes_per_s(&self.options) } else { 0 };
        if pace_cap != window.pace_cap_bytes_per_s {
            window.pace_cap_bytes_per_s = pace_cap;
            window.apply_rate(sock);
        }
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
pub(super) mod tests;
