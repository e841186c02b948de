//! The congestion control `ccp`: its hooks, as in `ccp.bpf.c` and `flow.h` of `ccp-bpf`.

use std::sync::Arc;

use ccp_ioam::PathEcho;
use ccp_lang::prims::NOTHING;
use ccp_lang::{FoldError, Implicit, Machine};
use ccp_record::{Update, bytes_of, intf};
use ccp_tcp::{CaState, Congestion, MIN_CWND_PKTS, RateSample, Sock};
use intf::{
    CCP_ECN_NONE, CCP_ECN_RFC3168, ccp_close, ccp_counts, ccp_create, ccp_flow, ccp_flow_info, ccp_stats,
};

use super::extend::{Extended, Subject};
use super::fallback::Fallback;
use super::path::Path;
use super::pending::Pending;
use super::primitives::{Counted, Event, Prims};
use super::shared::{Installed, Shared};
use super::window::{Window, update_pacing_rate};

const STATS_INTERVAL_US: u64 = intf::CCP_STATS_INTERVAL_US as u64;

/// A flow an agent can control. Boxed: it contains the registers.
pub struct AgentFlow {
    shared: Shared,
    flow_id: u64,
    info: ccp_flow_info,
    needs_ecn: bool,
    fallback: Fallback,
    pending: Option<Box<Pending>>,
    /// Handle; 0 for none.
    program: u32,
    /// Stamp of the update that set the program.
    stamp: u16,
    /// None also if it was uninstalled before the flow started it.
    installed: Option<Arc<Installed>>,
    machine: Machine,
    prims: Prims,
    counted: Counted,
    /// Boxed: few networks have echoes.
    path: Option<Box<Path>>,
    window: Window,
    /// State of extensions, by index.
    extended: Vec<(usize, Box<dyn Extended>)>,
    /// The rate an extension allows; 0: unlimited.
    rate_allowed_bytes_per_s: u64,
    report_flags: u32,
    acks: u64,
    counts: ccp_counts,
    stats: ccp_stats,
}

impl AgentFlow {
    /// A flow with a unique id: generation << 32 | slot. `needs_ecn`: property of its congestion-control name.
    pub fn new(shared: &Shared, flow_id: u64, info: ccp_flow_info, needs_ecn: bool) -> Self {
        Self {
            shared: shared.clone(),
            flow_id,
            info,
            needs_ecn,
            fallback: Fallback::default(),
            pending: None,
            program: 0,
            stamp: 0,
            installed: None,
            machine: Machine::new(),
            prims: NOTHING,
            counted: Counted::default(),
            path: None,
            window: Window::of(&Sock::new(info.mss, 0)),
            extended: Vec::new(),
            rate_allowed_bytes_per_s: 0,
            report_flags: 0,
            acks: 0,
            counts: ccp_counts::default(),
            stats: ccp_stats::default(),
        }
    }

    pub fn info(&self) -> &ccp_flow_info {
        &self.info
    }

    pub fn flow_id(&self) -> u64 {
        self.flow_id
    }

    /// Puts an update into the mailbox, to apply at the next ACK or timeout, or when sending restarts.
    pub fn update(&mut self, update: &Update<'_>) {
        let pending = self.pending.get_or_insert_default();
        pending.add(update);
        for message in update.messages {
            if let Ok(Some(index)) = self.shared.extension_of(message) {
                pending.add_message(index, message.raw);
            }
        }
    }

    /// The ACK to be processed next carries an echo of the path.
    pub fn receive(&mut self, echo: &PathEcho) {
        self.path.get_or_insert_default().receive(echo);
    }

    /// Ends the flow, with its final report.
    pub fn close(&mut self, sock: &Sock) {
        self.with_extended(|extended, flow, _| extended.release(flow, sock));
        self.extended.clear();
        self.forget_bounds();
        self.refresh_stats(sock);
        let record = self.record(intf::CCP_RECORD_CLOSE, sock.mstamp_us);
        let close = ccp_close { record, stats: self.stats, counts: self.counts };
        self.shared.emit(bytes_of(&close));
        self.shared.count_end();
    }

    /// The flow's record in shared memory, without registers.
    pub fn snapshot(&self) -> ccp_flow {
        ccp_flow {
            flow_id: self.flow_id,
            state: intf::CCP_FLOW_ACTIVE,
            fallback: u32::from(self.fallback.steers),
            info: self.info,
            program: self.program,
            cwnd_bytes: self.window.cwnd_bytes,
            rate_bytes_per_s: self.window.rate_bytes_per_s,
            counts: self.counts,
            stats: ccp_stats { acks: self.acks, ..self.stats },
            ..ccp_flow::default()
        }
    }

    fn refresh_stats(&mut self, sock: &Sock) {
        self.stats = ccp_stats {
            acks: self.acks,
            now_us: sock.mstamp_us,
            bytes_acked: sock.bytes_acked,
            bytes_retrans: sock.bytes_retrans,
            cwnd_bytes: u64::from(sock.snd_cwnd) * u64::from(sock.mss_bytes),
            mss_bytes: sock.mss_bytes,
            srtt_us: sock.srtt_us,
            min_rtt_us: sock.min_rtt_us,
            delivered_pkts: sock.delivered,
            lost_pkts: sock.lost,
            retrans_pkts: sock.total_retrans,
            packets_in_flight: sock.packets_in_flight(),
            ca_state: sock.ca_state as u32,
            snd_ssthresh_pkts: sock.snd_ssthresh,
            pacing_rate_bytes_per_s: sock.pacing_rate_bytes_per_s,
            spare: 0,
        };
    }

    fn record(&self, kind: u32, now_us: u64) -> intf::ccp_record {
        intf::ccp_record {
            kind,
            flow_id: self.flow_id,
            now_us,
            cwnd_bytes: self.window.cwnd_bytes,
            rate_bytes_per_s: self.window.rate_bytes_per_s,
            program: self.program as u16,
            stamp: self.stamp,
            flags: self.report_flags as u16,
            ..intf::ccp_record::default()
        }
    }

    /// Registers get the initial values of the program.
    fn start_program(&mut self, handle: u32, now_us: u64) {
        self.program = handle;
        self.installed = self.shared.installed(handle);
        if let Some(installed) = &self.installed {
            self.machine.reset(&installed.program, now_us);
            self.report_flags = 0;
        }
    }

    fn with_extended(&mut self, mut call: impl FnMut(&mut dyn Extended, &Subject<'_>, &mut Window)) {
        let Self { shared, flow_id, info, extended, window, .. } = self;
        for (index, one) in extended {
            let flow = Subject { shared, index: *index, flow_id: *flow_id, info };
            call(one.as_mut(), &flow, window);
            self.rate_allowed_bytes_per_s = one.rate_allowed_bytes_per_s();
        }
    }

    /// Passes a message to an extension, which attaches, continues or detaches.
    fn take_message(&mut self, sock: &mut Sock, index: usize, raw: &[u8]) {
        let flow = Subject { shared: &self.shared, index, flow_id: self.flow_id, info: &self.info };
        let Some(place) = self.extended.iter().position(|(known, _)| *known == index) else {
            let begins = self.shared.extension(index).and_then(|one| one.begin(&flow, raw, sock));
            self.extended.extend(begins.map(|one| (index, one)));
            return;
        };
        if !self.extended[place].1.message(raw) {
            self.extended.remove(place).1.release(&flow, sock);
            self.forget_bounds();
            self.window.apply_rate(sock);
        }
    }

    /// Removes all bounds, until an extension sets them again.
    fn forget_bounds(&mut self) {
        self.window.forget_caps();
        self.rate_allowed_bytes_per_s = 0;
    }

    fn take_pending(&mut self, sock: &mut Sock, pending: &Pending) {
        if let Some(program) = pending.program {
            self.start_program(program, sock.mstamp_us);
            self.stamp = pending.stamp;
            let is_silence = self.fallback.steers && self.counts.fallback_cause == intf::CCP_FALLBACK_SILENT;
            if program == 0 && (pending.stamp != 0 || !is_silence) {
                self.counts.fallback_cause = intf::CCP_FALLBACK_NO_PROGRAM + u32::from(pending.stamp);
            }
        }
        for (index, value) in pending.controls() {
            self.machine.control[index] = value;
        }
        for (index, raw) in &pending.messages {
            self.take_message(sock, *index, raw);
        }
        if let Some(cwnd_bytes) = pending.cwnd_bytes.filter(|bytes| *bytes > 0) {
            self.window.apply(sock, cwnd_bytes, self.shared.max_cwnd_bytes());
        }
        if let Some(rate) = pending.rate_bytes_per_s {
            self.window.set_rate(sock, rate);
        }
        self.counts.mail_applied += 1;
        self.counts.mail_applied_us = sock.mstamp_us;
    }

    fn enter_fallback(&mut self, sock: &mut Sock) {
        self.fallback.enter(sock);
        self.window.stop_pacing(sock);
    }

    /// Whether the algorithm controls the flow: otherwise (no program, or no agent) the fallback does. The
    /// algorithm gets initialized registers after the fallback had control.
    fn has_agent(&mut self, sock: &mut Sock) -> bool {
        let is_silent = self.shared.is_silent();
        if self.fallback.steers && !is_silent {
            self.start_program(self.program, sock.mstamp_us);
        }
        if let Some(pending) = self.pending.take() {
            self.take_pending(sock, &pending);
        }
        if self.program == 0 || is_silent {
            if !self.fallback.steers {
                self.enter_fallback(sock);
                self.window.rate_bytes_per_s = 0;
                self.forget_bounds();
                if is_silent {
                    self.counts.fallback_cause = intf::CCP_FALLBACK_SILENT;
                }
                self.counts.fallback_entries += 1;
                (self.counts.fallback_entered_us, self.counts.fallback_left_us) = (sock.mstamp_us, 0);
                self.shared.count_fallback_entry(self.counts.fallback_cause);
            }
            return false;
        }
        if self.fallback.steers {
            self.fallback.steers = false;
            self.counts.fallback_left_us = sock.mstamp_us;
            self.counted = Counted::start(sock);
        }
        true
    }

    fn fold(&mut self, sock: &mut Sock, sample: Option<&RateSample>, ece: bool, state: CaState) {
        let Some(installed) = self.installed.take().filter(|i| !i.is_gone()) else {
            // Uninstalled while in use: the fallback takes over at the next ACK.
            self.program = 0;
            self.counts.fallback_cause = intf::CCP_FALLBACK_UNINSTALLED;
            return;
        };
        let program = &installed.program;
        let event = Event {
            sample,
            ece,
            state,
            used: program.prims_used,
            rate_allowed_bytes_per_s: self.rate_allowed_bytes_per_s,
        };
        self.counted.load(&mut self.prims, sock, &event);
        if let Some(path) = &mut self.path {
            path.load(&mut self.prims, sock.mstamp_us, sock.mss_bytes);
        }
        self.window.refresh(sock);
        self.machine.imp[Implicit::Cwnd as usize] = self.window.cwnd_bytes;
        self.machine.imp[Implicit::Rate as usize] = self.window.rate_bytes_per_s;
        match self.machine.invoke(program, &self.prims, sock.mstamp_us) {
            Ok(folded) => self.finish(sock, &installed, folded.report),
            Err(error) => self.complain(error),
        }
        self.installed = Some(installed);
    }

    /// As libccp: registers stay unchanged, and nothing is applied or reported.
    fn complain(&mut self, error: FoldError) {
        self.counts.last_fold_error = error as u32;
        self.counts.fold_errors += 1;
        self.report_flags |= intf::CCP_REPORT_FOLD_ERROR;
        self.shared.count_fold_error();
    }

    fn finish(&mut self, sock: &mut Sock, installed: &Installed, reports: bool) {
        let cwnd_bytes = self.machine.imp[Implicit::Cwnd as usize];
        let rate = self.machine.imp[Implicit::Rate as usize];
        let above = cwnd_bytes.wrapping_sub(self.window.floor_bytes);
        if !reports && above < u64::from(sock.mss_bytes) {
            self.window.cwnd_bytes = cwnd_bytes;
        } else if cwnd_bytes > 0 {
            self.window.apply(sock, cwnd_bytes, self.shared.max_cwnd_bytes());
        }
        if rate != self.window.rate_bytes_per_s {
            self.window.set_rate(sock, rate);
        }
        if reports {
            self.send_report(installed, sock.mstamp_us);
        }
    }

    /// Sends the report registers to the agent, and resets the volatile ones.
    fn send_report(&mut self, installed: &Installed, now_us: u64) {
        let mut head = self.record(intf::CCP_RECORD_REPORT, now_us);
        let fields = self.machine.take_report(&installed.program);
        head.program_uid = installed.program.uid;
        head.n_fields = fields.len() as u16;
        self.shared.report_fields(&head, &fields);
        self.counts.reports += 1;
        self.report_flags = 0;
    }
}

impl Congestion for AgentFlow {
    fn init(&mut self, sock: &mut Sock) {
        self.window = Window::of(sock);
        self.counted = Counted::start(sock);
        self.info.mss = sock.mss_bytes;
        self.info.init_cwnd_bytes = sock.snd_cwnd * sock.mss_bytes;
        let ecn_mode = if sock.ecn_ok { CCP_ECN_RFC3168 } else { CCP_ECN_NONE };
        self.info.ecn_mode = ecn_mode as u16;
        self.info.created_us = sock.mstamp_us;
        self.refresh_stats(sock);
        self.enter_fallback(sock);
        self.counts.fallback_entered_us = sock.mstamp_us;
        self.shared.count_begin();
        let record = self.record(intf::CCP_RECORD_CREATE, sock.mstamp_us);
        self.shared.emit(bytes_of(&ccp_create { record, info: self.info }));
    }

    /// The algorithm sets the window itself; this only ends slow start.
    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        if self.fallback.steers {
            self.fallback.ssthresh(sock)
        } else {
            (sock.snd_cwnd >> 1).max(MIN_CWND_PKTS)
        }
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    fn cong_control(&mut self, sock: &mut Sock, sample: &RateSample, ece: bool) {
        self.acks += 1;
        if sock.mstamp_us - self.stats.now_us > STATS_INTERVAL_US {
            self.refresh_stats(sock);
        }
        if !self.has_agent(sock) {
            self.counted.delivered = sock.delivered; // set_state() detects local congestion by it
            self.fallback.on_ack(sock, sample);
            update_pacing_rate(sock);
            return;
        }
        self.with_extended(|extended, flow, window| extended.ack(flow, sock, window));
        if self.window.rate_bytes_per_s == 0 && self.window.pace_cap_bytes_per_s == 0 {
            update_pacing_rate(sock);
        }
        self.fold(sock, Some(sample), ece, sock.ca_state);
    }

    fn set_state(&mut self, sock: &mut Sock, new: CaState) {
        // A queue of this host rejected a segment: the sender enters CWR while it transmits. If an ACK with
        // ECE is the reason, `delivered` has just been increased, and no fold has seen it yet.
        if new == CaState::Cwr && sock.delivered == self.counted.delivered {
            self.counted.local_congestion += 1;
            self.counts.local_congestion += 1;
        }
        self.counts.timeouts += u32::from(new == CaState::Loss);
        if self.has_agent(sock) {
            if new == CaState::Loss {
                self.report_flags |= intf::CCP_REPORT_TIMEOUT;
                self.fold(sock, None, false, new);
            }
            return;
        }
        self.fallback.cubic.set_state(sock, new);
    }

    fn tx_start(&mut self, sock: &mut Sock) {
        let is_steered = self.has_agent(sock);
        // If the algorithm paces, the window is not sent as a burst: it stays.
        if !is_steered || self.window.rate_bytes_per_s == 0 {
            sock.restart_after_idle();
        }
        if !is_steered {
            self.fallback.cubic.tx_start(sock);
        } else if sock.app_limited > 0 {
            self.with_extended(|extended, flow, window| extended.tx_start(flow, sock, window));
        }
    }

    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        self.fallback.undone = true;
        sock.snd_cwnd.max(sock.prior_cwnd)
    }

    fn needs_ecn(&self) -> bool {
        self.needs_ecn
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
