//! A flow of `ccp-tcp` whose window is libccp's.

use ccp_tcp::{CaState, Congestion, RateSample, Reno, Sock, pacing_rate_bytes_per_s};

/// `struct ccp_primitives`.
#[repr(C)]
#[derive(Default)]
struct Primitives {
    bytes_acked: u32,
    packets_acked: u32,
    bytes_misordered: u32,
    packets_misordered: u32,
    ecn_bytes: u32,
    ecn_packets: u32,
    lost_pkts_sample: u32,
    was_timeout: bool,
    rtt_sample_us: u64,
    rate_outgoing: u64,
    rate_incoming: u64,
    bytes_in_flight: u32,
    packets_in_flight: u32,
    snd_cwnd: u32,
    snd_rate: u64,
    bytes_pending: u32,
}

/// `struct path_set`.
#[repr(C)]
#[derive(Default)]
struct Set {
    cwnd_bytes: u32,
    rate_bytes_per_s: u32,
}

/// TCP's pacing ratios for a congestion control without own pacing, in slow start and later.
const PACING_PERCENT: (u32, u32) = (200, 120);

unsafe extern "C" {
    fn path_invoke(flow: i32, prims: *const Primitives, set: *mut Set) -> i32;
}

/// A flow that libccp controls; Reno otherwise.
pub struct Steered {
    number: i32,
    alone: bool,
    reno: Reno,
    before: Sock,
    pub folds: u64,
    pub folds_alone: u64,
    pub fold_errors: u64,
}

impl Congestion for Steered {
    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        if self.alone { self.reno.ssthresh(sock) } else { sock.snd_cwnd.max(2) }
    }

    fn has_cong_control(&self) -> bool {
        !self.alone
    }

    fn cong_avoid(&mut self, sock: &mut Sock, acked: u32) {
        self.reno.cong_avoid(sock, acked);
    }

    fn set_state(&mut self, sock: &mut Sock, new: CaState) {
        self.reno.set_state(sock, new);
    }

    fn pkts_acked(&mut self, sock: &mut Sock, _acked: u32, rtt_us: i64) {
        if self.alone {
            self.fold(sock, rtt_us, None); // is there an agent again?
        }
    }

    fn cong_control(&mut self, sock: &mut Sock, sample: &RateSample, _ece: bool) {
        self.fold(sock, sample.rtt_us, Some(sample));
    }
}

impl Steered {
    /// A new flow; its number is libccp's.
    pub fn new(number: i32, mss_bytes: u32, init_cwnd: u32) -> Self {
        Self {
            number,
            alone: true,
            reno: Reno::default(),
            before: Sock::new(mss_bytes, init_cwnd),
            folds: 0,
            folds_alone: 0,
            fold_errors: 0,
        }
    }

    fn fold(&mut self, sock: &mut Sock, rtt_us: i64, sample: Option<&RateSample>) {
        let (mss, before) = (sock.mss_bytes, &self.before);
        let misordered = sock.sacked_out.saturating_sub(before.sacked_out);
        let delivered = sock.delivered - before.delivered;
        let rate = |interval_us: u32| {
            let bytes = sample.map_or(0, |s| s.delivered.max(0) as u64 * u64::from(mss) * 1_000_000);
            bytes.checked_div(u64::from(interval_us)).unwrap_or(0)
        };
        let prims = Primitives {
            bytes_acked: (sock.bytes_acked - before.bytes_acked) as u32,
            packets_acked: delivered.saturating_sub(misordered),
            bytes_misordered: misordered * mss,
            packets_misordered: misordered,
            lost_pkts_sample: sock.lost - before.lost,
            was_timeout: sock.timeouts != before.timeouts,
            rtt_sample_us: u64::try_from(rtt_us).unwrap_or(0),
            rate_outgoing: rate(sample.map_or(0, |s| s.snd_interval_us)),
            rate_incoming: rate(sample.map_or(0, |s| s.rcv_interval_us)),
            bytes_in_flight: sock.packets_in_flight() * mss,
            packets_in_flight: sock.packets_in_flight(),
            snd_cwnd: sock.snd_cwnd * mss,
            snd_rate: if sock.is_paced { sock.pacing_rate_bytes_per_s } else { 0 },
            bytes_pending: (sock.write_seq - sock.snd_una) as u32,
            ..Primitives::default()
        };
        let mut set = Set::default();
        // SAFETY: both structures are laid out as in C.
        let result = unsafe { path_invoke(self.number, &prims, &mut set) };
        self.before = sock.clone();
        self.folds += 1;
        self.alone = result == 1;
        self.folds_alone += u64::from(self.alone);
        self.fold_errors += u64::from(result < 0);
        if set.cwnd_bytes > 0 {
            sock.snd_cwnd = (set.cwnd_bytes / mss).max(2);
        }
        if set.rate_bytes_per_s > 0 {
            sock.pacing_rate_bytes_per_s = u64::from(set.rate_bytes_per_s);
            sock.is_paced = true;
        } else if !sock.is_paced {
            sock.pacing_rate_bytes_per_s = pacing_rate_bytes_per_s(sock, PACING_PERCENT);
        }
    }
}
