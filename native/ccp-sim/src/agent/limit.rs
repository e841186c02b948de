//! Keeps a flow within the token bucket that limits its client (R-TCP), if the agent asks for that: `limit.bpf.c` of
//! `ccp-rtcp`.
//! Whoever steers the flow asks for more at will; window and pacing rate are bounded where they are applied.

use ccp_error::Error;
use ccp_record::intf;
use ccp_rtcp_core::types::{RTCP_CAP_CWND, RTCP_CAP_RATE, RTCP_OPEN};
use ccp_rtcp_core::{Connection, EXTENSION, Learned, Letter, Options};
use ccp_tcp::{MIN_CWND_PKTS, Sock};

use super::shared::Shared;
use super::window::{NO_CWND_CAP, Window};
use crate::rtcp::Ends;

/// Names of the extensions of the datapath, by index.
pub const EXTENSIONS: [&str; 1] = [EXTENSION];
const INDEX: u32 = 0;

/// Refuses a letter to an extension that there is not, or that it could not read.
///
/// # Errors
///
/// `load.extension`, `update.extension`.
pub fn check_letter(letter: &ccp_record::Letter<'_>) -> Result<(), Error> {
    let (name, octets) = (letter.extension, letter.octets);
    if name != EXTENSION && !octets.is_empty() {
        return Err(no_extension(name));
    }
    if name == EXTENSION && Letter::from_bytes(octets).is_none() {
        let what = format!("{} octets are no letter to the extension `{name}`", octets.len());
        return Err(Error::new("update.extension", what)
            .why(format!("it takes {}", size_of::<Letter>()))
            .fix("give it what its documentation says, or nothing to have it leave the flow"));
    }
    Ok(())
}

/// The error where an extension is asked for that only the kernel has.
#[must_use]
pub fn no_extension(name: &str) -> Error {
    Error::new("load.extension", format!("the simulator has no extension `{name}`"))
        .fix(format!("there is {}", EXTENSIONS.join(", ")))
}

/// What is known of a flow's limit.
pub(super) struct Limit {
    /// `enum rtcp_caps`.
    kinds: u32,
    options: Options,
    connection: Connection,
    ends: Ends,
    /// The verdict that the agent knows.
    told: u32,
    flow_id: u64,
}

impl Limit {
    /// None if the C code has no room for these options.
    pub fn join(
        shared: &Shared,
        flow_id: u64,
        info: &intf::ccp_flow_info,
        letter: &Letter,
        sock: &Sock,
    ) -> Option<Self> {
        let options = letter.options.usable().then_some(letter.options)?;
        let ends = Ends { netns: info.netns_inum, daddr: info.daddr, dport: info.dport, ..Ends::default() };
        let connection = shared.clients().begin(ends.socket(sock), &options);
        let mut limit = Self { kinds: letter.caps, options, connection, ends, told: RTCP_OPEN, flow_id };
        if sock.packets_out > 0 {
            // It sends already.
            limit.start(shared, sock);
        }
        Some(limit)
    }

    /// Goes on with other caps.
    pub fn change(&mut self, letter: &Letter) {
        if letter.options.usable() {
            self.options = letter.options;
            self.kinds = letter.caps;
        }
    }

    pub fn leave(self, shared: &Shared, sock: &Sock) {
        shared.clients().leave(self.connection, self.ends.socket(sock), &self.options);
    }

    /// An ACK has come in.
    pub fn on_ack(&mut self, shared: &Shared, sock: &mut Sock, window: &mut Window) {
        let learned = shared.clients().ack(&mut self.connection, self.ends.socket(sock), &self.options);
        self.tell(shared, learned);
        self.apply(sock, window);
    }

    /// Sending begins anew.
    pub fn on_start(&mut self, shared: &Shared, sock: &mut Sock, window: &mut Window) {
        self.start(shared, sock);
        self.apply(sock, window);
    }

    fn start(&mut self, shared: &Shared, sock: &Sock) {
        let learned = shared.clients().start(&mut self.connection, self.ends.socket(sock), &self.options);
        self.tell(shared, learned);
    }

    /// What the client's limit lets this flow send; 0: it is not capped.
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.connection.rate_bytes_per_s()
    }

    fn tell(&mut self, shared: &Shared, learned: Option<Learned>) {
        let Some(row) = learned.map(|l| l.row).filter(|row| row.verdict != self.told) else { return };
        self.told = row.verdict;
        let record = intf::ccp_record {
            kind: intf::CCP_RECORD_EXTENSION,
            program: INDEX as u16,
            flow_id: self.flow_id,
            now_us: row.t_us,
            n_fields: row.words().len() as u16,
            ..intf::ccp_record::default()
        };
        shared.tell_fields(&record, &row.words());
    }

    /// Bounds window and pacing to what the client's limit lets this flow send now.
    fn apply(&self, sock: &mut Sock, window: &mut Window) {
        let is_paced = self.kinds & RTCP_CAP_RATE != 0;
        let floor_pkts = if is_paced { self.options.floor_pkts } else { MIN_CWND_PKTS };
        let most_pkts = self.connection.window_pkts(self.ends.socket(sock), floor_pkts, is_paced);
        let most_pkts = most_pkts.filter(|_| self.kinds & RTCP_CAP_CWND != 0);
        let mss = u64::from(sock.mss_bytes);
        window.most_bytes = most_pkts.map_or(NO_CWND_CAP, |pkts| u64::from(pkts) * mss);
        if u64::from(sock.snd_cwnd) * mss > window.most_bytes {
            window.apply(sock, window.most_bytes, window.most_bytes);
        }
        let pace_most = if is_paced { self.connection.pacing_cap_bytes_per_s(&self.options) } else { 0 };
        if pace_most != window.pace_most_bytes_per_s {
            window.pace_most_bytes_per_s = pace_most;
            window.apply_rate(sock);
        }
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
