//! Keeps a flow within the token bucket that limits its client (R-TCP), if the agent asks for that: `limit.h` of `ccp-bpf`.
//! Whoever steers the flow asks for more at will; window and pacing rate are bounded where they are applied.

use ccp_record::{Caps, bytes_of, intf};
use ccp_rtcp_core::Options;
use ccp_tcp::{MIN_CWND_PKTS, Sock};
use intf::{ccp_limit_change, rtcp_row};

use super::clients::{Key, Member};
use super::shared::Shared;
use super::window::{NO_CWND_CAP, Window};

/// What is known of a flow's limit.
pub(super) struct Limit {
    /// `enum ccp_caps`.
    kinds: u32,
    options: Options,
    member: Member,
    /// The verdict that the agent knows.
    told: u32,
    flow_id: u64,
}

/// Millionths of a number.
fn share(number: u64, ppm: u32) -> u64 {
    (u128::from(number) * u128::from(ppm) / 1_000_000) as u64
}

impl Limit {
    /// None if the C code has no room for these options.
    pub fn join(
        shared: &Shared,
        flow_id: u64,
        info: &intf::ccp_flow_info,
        caps: &Caps,
        sock: &Sock,
    ) -> Option<Self> {
        let options = options_of(caps)?;
        let key = Key { netns: info.netns_inum, address: info.daddr };
        let member = shared.clients().join(key, sock, &options);
        let mut limit = Self { kinds: caps.kinds, options, member, told: intf::RTCP_OPEN, flow_id };
        if sock.packets_out > 0 {
            // It sends already.
            let row = shared.clients().start(&mut limit.member, sock, &limit.options);
            limit.tell(shared, row);
        }
        Some(limit)
    }

    /// Goes on with other caps.
    pub fn change(&mut self, caps: &Caps) {
        if let Some(options) = options_of(caps) {
            self.options = options;
            self.kinds = caps.kinds;
        }
    }

    pub fn leave(self, shared: &Shared, now_us: u64) {
        shared.clients().leave(self.member, now_us);
    }

    /// An ACK has come in.
    pub fn on_ack(&mut self, shared: &Shared, sock: &mut Sock, window: &mut Window) {
        let row = shared.clients().ack(&mut self.member, sock, &self.options);
        self.tell(shared, row);
        self.apply(sock, window);
    }

    /// Sending begins anew.
    pub fn on_start(&mut self, shared: &Shared, sock: &mut Sock, window: &mut Window) {
        let row = shared.clients().start(&mut self.member, sock, &self.options);
        self.tell(shared, row);
        self.apply(sock, window);
    }

    /// What the client's limit lets this flow send; 0: it is not capped.
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.member.rate_bytes_per_s
    }

    fn tell(&mut self, shared: &Shared, row: Option<rtcp_row>) {
        let Some(row) = row.filter(|row| row.verdict != self.told) else { return };
        self.told = row.verdict;
        let record = intf::ccp_record {
            kind: intf::CCP_RECORD_LIMIT,
            flow_id: self.flow_id,
            now_us: row.t_us,
            ..intf::ccp_record::default()
        };
        shared.tell(bytes_of(&ccp_limit_change { record, row }));
    }

    /// Bounds window and pacing to what the client's limit lets this flow send now.
    fn apply(&self, sock: &mut Sock, window: &mut Window) {
        let is_paced = self.kinds & intf::CCP_CAP_RATE != 0;
        let rate = self.member.rate_bytes_per_s;
        let mss = u64::from(sock.mss_bytes);
        let most_pkts = self.most_pkts(sock, is_paced).filter(|_| self.kinds & intf::CCP_CAP_CWND != 0);
        window.most_bytes = most_pkts.map_or(NO_CWND_CAP, |pkts| pkts * mss);
        if u64::from(sock.snd_cwnd) * mss > window.most_bytes {
            window.apply(sock, window.most_bytes, window.most_bytes);
        }
        let pace_most = if is_paced { share(rate, self.options.margin_ratio_ppm) } else { 0 };
        if pace_most != window.pace_most_bytes_per_s {
            window.pace_most_bytes_per_s = pace_most;
            window.apply_rate(sock);
        }
    }

    /// The window that the rate fills. Pacing alone bounds whom it can while a verdict is on its way: that needs a loss,
    /// and a small window has none.
    fn most_pkts(&self, sock: &Sock, is_paced: bool) -> Option<u64> {
        let rate = self.member.rate_bytes_per_s;
        if rate == 0 || (is_paced && !self.member.is_limited) {
            return None;
        }
        let floor_pkts = if is_paced { self.options.floor_pkts } else { MIN_CWND_PKTS };
        let bytes = (u128::from(rate) * u128::from(sock.srtt_us) / 1_000_000) as u64;
        Some(bytes.div_ceil(u64::from(sock.mss_bytes)).max(u64::from(floor_pkts)))
    }
}

/// The options in the type of the host's core.
fn options_of(caps: &Caps) -> Option<Options> {
    let o = &caps.options;
    let options = Options {
        loss_window_min_rtts_ppm: o.loss_window_min_rtts_ppm,
        loss_ratio_ppm: o.loss_ratio_ppm,
        n_candidates: o.n_candidates,
        reduction_ratio_ppm: o.reduction_ratio_ppm,
        convergence_min_rtts_ppm: o.convergence_min_rtts_ppm,
        tolerance_ratio_ppm: o.tolerance_ratio_ppm,
        excess_buckets_ppm: o.excess_buckets_ppm,
        excess_buckets_anew_ppm: o.excess_buckets_anew_ppm,
        excess_rates_ppm: o.excess_rates_ppm,
        probe_every_rounds: o.probe_every_rounds,
        probe_rounds: o.probe_rounds,
        probe_gain_ratio_ppm: o.probe_gain_ratio_ppm,
        margin_ratio_ppm: o.margin_ratio_ppm,
        floor_pkts: o.floor_pkts,
        pace_cubic: o.pace_cubic,
        observe: o.observe,
        kept_us: o.kept_us,
    };
    options.usable().then_some(options)
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
