//! A datapath that somebody else could have built: flows of `ccp-tcp` over one bottleneck, in real time, with libccp 1.2
//! in charge of their windows.
//!
//! Arguments: NAME=VALUE, see `Options`. It says `ready` when flows begin, and at the end one line a flow, as JSON.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use ccp_difftest as _; // libccp is in it
use ccp_tcp::{
    Ack, CaState, Config, Congestion, Data, RateSample, Receiver, Reno, Sender, Sock, pacing_rate_bytes_per_s,
};

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

/// What TCP paces at without a congestion control that does, in slow start and later, as part of the window an RTT.
const PACING_PERCENT: (u32, u32) = (200, 120);

unsafe extern "C" {
    fn path_start(agent: *const libc::c_char, own: *const libc::c_char, age_us: u64) -> i32;
    fn path_flow(mss_bytes: u32, init_cwnd_bytes: u32, algorithm: *const libc::c_char) -> i32;
    fn path_end();
    fn path_again();
    fn path_receive();
    fn path_invoke(flow: i32, prims: *const Primitives, set: *mut Set) -> i32;
}

struct Options {
    agent: String,
    bind: String,
    flows: usize,
    algorithm: String,
    mbit: f64,
    rtt_ms: f64,
    buffer_bytes: u64,
    /// Ends then at the latest, and when every flow has had so many bytes acknowledged.
    seconds: f64,
    bytes: u64,
    /// Every so many packets one is lost; 0: none but what the buffer has no room for.
    lose_every: u64,
    /// The datapath is that old: programs count `Ack.now` from when it began, and some agents want it old.
    age_s: f64,
    /// So often it says how far each flow is; 0: never.
    every_s: f64,
    /// Tell an agent that comes later of everything, which libccp does not by itself.
    again: bool,
}

impl Options {
    fn read() -> Self {
        let mut options = Options {
            agent: "/tmp/ccp/portus".into(),
            bind: "/tmp/ccp/libccp".into(),
            flows: 1,
            algorithm: String::new(),
            mbit: 20.0,
            rtt_ms: 20.0,
            buffer_bytes: 50_000,
            seconds: 10.0,
            bytes: u64::MAX,
            lose_every: 0,
            age_s: 0.0,
            every_s: 0.0,
            again: true,
        };
        for argument in std::env::args().skip(1) {
            let (name, value) = argument.split_once('=').expect("NAME=VALUE");
            let number = || value.parse::<f64>().expect("a number");
            match name {
                "agent" => options.agent = value.into(),
                "bind" => options.bind = value.into(),
                "flows" => options.flows = number() as usize,
                "algorithm" => options.algorithm = value.into(),
                "mbit" => options.mbit = number(),
                "rtt_ms" => options.rtt_ms = number(),
                "buffer_bytes" => options.buffer_bytes = number() as u64,
                "seconds" => options.seconds = number(),
                "bytes" => options.bytes = number() as u64,
                "lose_every" => options.lose_every = number() as u64,
                "age_s" => options.age_s = number(),
                "every_s" => options.every_s = number(),
                "again" => options.again = number() != 0.0,
                other => panic!("no option is called {other}"),
            }
        }
        options
    }
}

/// A flow that libccp steers; Reno, while nobody does.
struct Steered {
    number: i32,
    alone: bool,
    reno: Reno,
    before: Sock,
    folds: u64,
    folds_alone: u64,
    fold_errors: u64,
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
            self.fold(sock, rtt_us, None); // is somebody there again?
        }
    }

    fn cong_control(&mut self, sock: &mut Sock, sample: &RateSample, _ece: bool) {
        self.fold(sock, sample.rtt_us, Some(sample));
    }
}

impl Steered {
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

enum Packet {
    Data(usize, Data),
    Ack(usize, Ack),
}

/// The bottleneck, and what is on its way, by the time of its arrival.
struct Link {
    options: Options,
    free_ns: u64,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    packets: std::collections::HashMap<u64, Packet>,
    n_sent: u64,
    dropped: u64,
}

impl Link {
    fn put(&mut self, at_ns: u64, packet: Packet) {
        self.n_sent += 1;
        self.due.push(Reverse((at_ns, self.n_sent)));
        self.packets.insert(self.n_sent, packet);
    }

    fn delay_ns(&self) -> u64 {
        (self.options.rtt_ms * 0.5e6) as u64
    }

    fn send(&mut self, now_ns: u64, flow: usize, data: Data) {
        let bytes_per_s = self.options.mbit * 125e3;
        let wire_bytes = f64::from(data.len_bytes) + 52.0;
        let begin_ns = self.free_ns.max(now_ns);
        let queue_bytes = (begin_ns - now_ns) as f64 * 1e-9 * bytes_per_s;
        let is_lost =
            self.options.lose_every > 0 && (self.n_sent + 1).is_multiple_of(self.options.lose_every);
        if is_lost || queue_bytes + wire_bytes > self.options.buffer_bytes as f64 {
            self.n_sent += u64::from(is_lost); // or the next one would be lost, too
            self.dropped += 1;
            return;
        }
        self.free_ns = begin_ns + (wire_bytes / bytes_per_s * 1e9) as u64;
        self.put(self.free_ns + self.delay_ns(), Packet::Data(flow, data));
    }

    fn answer(&mut self, now_ns: u64, flow: usize, ack: Ack) {
        self.put(now_ns + self.delay_ns(), Packet::Ack(flow, ack));
    }
}

/// Which socket the agent's is; None if there is none.
fn agent(options: &Options) -> Option<(u64, i64, i64)> {
    let found = std::fs::metadata(&options.agent).ok()?;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

fn main() {
    let options = Options::read();
    let text = |text: &str| CString::new(text).expect("no NUL in it");
    let (theirs, own) = (text(&options.agent), text(&options.bind));
    // SAFETY: C copies the names.
    let fd = unsafe { path_start(theirs.as_ptr(), own.as_ptr(), (options.age_s * 1e6) as u64) };
    assert!(fd >= 0, "the datapath does not start: {fd}");
    let config = Config::default();
    let algorithm = text(&options.algorithm);
    let mut flows: Vec<(Sender<Steered>, Receiver)> = (0..options.flows)
        .map(|_| {
            let (mss, cwnd) = (config.mss_bytes, config.init_cwnd);
            // SAFETY: C copies the name.
            let number = unsafe { path_flow(mss, cwnd * mss, algorithm.as_ptr()) };
            assert!(number >= 0, "there is no room for another flow");
            let steered = Steered {
                number,
                alone: true,
                reno: Reno::default(),
                before: Sock::new(mss, cwnd),
                folds: 0,
                folds_alone: 0,
                fold_errors: 0,
            };
            let handshake_rtt_us = Some((1000.0 * options.rtt_ms) as u32);
            let mut receiver = Receiver::new(&config);
            receiver.establish(handshake_rtt_us);
            (Sender::new(&config, steered, 0, handshake_rtt_us), receiver)
        })
        .collect();
    println!("ready");
    let start = Instant::now();
    let mut there = agent(&options);
    let mut look_ns = 0;
    let mut tell_ns = if options.every_s > 0.0 { 0 } else { u64::MAX };
    let mut link = Link {
        options,
        free_ns: 0,
        due: BinaryHeap::new(),
        packets: std::collections::HashMap::new(),
        n_sent: 0,
        dropped: 0,
    };
    let end_ns = (link.options.seconds * 1e9) as u64;
    for (sender, _) in &mut flows {
        sender.write_endless(0);
    }
    loop {
        let now_ns = start.elapsed().as_nanos() as u64;
        if now_ns >= end_ns || flows.iter().all(|(sender, _)| sender.sock.bytes_acked >= link.options.bytes) {
            break;
        }
        if now_ns >= tell_ns {
            tell_ns += (link.options.every_s * 1e9) as u64;
            for (sender, _) in &flows {
                println!("{}", said(now_ns, sender));
            }
        }
        if now_ns >= look_ns {
            look_ns = now_ns + 200_000_000;
            let found = agent(&link.options);
            if link.options.again && found.is_some() && found != there {
                // SAFETY: plain calls.
                unsafe { path_again() };
                there = found;
            }
        }
        // SAFETY: plain calls.
        unsafe { path_receive() };
        let mut next_ns = look_ns;
        while let Some(Reverse((at_ns, number))) = link.due.peek().copied() {
            if at_ns > now_ns {
                next_ns = next_ns.min(at_ns);
                break;
            }
            link.due.pop();
            match link.packets.remove(&number).expect("it was put there") {
                Packet::Data(i, data) => {
                    for ack in flows[i].1.on_data(at_ns, &data, false) {
                        link.answer(at_ns, i, ack);
                    }
                }
                Packet::Ack(i, ack) => flows[i].0.on_ack(now_ns, &ack),
            }
        }
        for (i, (sender, receiver)) in flows.iter_mut().enumerate() {
            if sender.due_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                sender.on_timer(now_ns);
            }
            if receiver.due_ns().is_some_and(|at_ns| at_ns <= now_ns)
                && let Some(ack) = receiver.on_timer(now_ns)
            {
                link.answer(now_ns, i, ack);
            }
            while let Some(data) = sender.next_segment(now_ns) {
                link.send(now_ns, i, data);
            }
            for due_ns in [sender.due_ns(), receiver.due_ns()].into_iter().flatten() {
                next_ns = next_ns.min(due_ns);
            }
        }
        wait(fd, next_ns.saturating_sub(start.elapsed().as_nanos() as u64));
    }
    // SAFETY: plain calls.
    unsafe { path_end() };
    for (sender, _) in &flows {
        println!("{}", said(start.elapsed().as_nanos() as u64, sender));
    }
    let _ = std::fs::remove_file(&link.options.bind);
}

/// How far a flow is, as JSON.
fn said(at_ns: u64, sender: &Sender<Steered>) -> String {
    let (sock, steered) = (&sender.sock, &sender.congestion);
    format!(
        "{{\"at_us\": {}, \"acked_bytes\": {}, \"rtt_us\": {}, \"srtt_us\": {}, \"lost\": {}, \"retransmits\": {}, \"timeouts\": {}, \
         \"cwnd\": {}, \"folds\": {}, \"folds_alone\": {}, \"fold_errors\": {}}}",
        at_ns / 1000,
        sock.bytes_acked,
        sock.rtt_sum_us / sock.rtt_samples.max(1),
        sock.srtt_us,
        sock.lost,
        sock.total_retrans,
        sock.timeouts,
        sock.snd_cwnd,
        steered.folds,
        steered.folds_alone,
        steered.fold_errors,
    )
}

/// Waits so long, or until the agent says something.
fn wait(fd: i32, ns: u64) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // SAFETY: all of it lives for the length of the call.
    unsafe { libc::ppoll(&mut poll, 1, &time, std::ptr::null()) };
}
