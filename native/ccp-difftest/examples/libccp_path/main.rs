//! A datapath on libccp: flows of `ccp-tcp` whose windows libccp 1.2 controls, in real time, over a bottleneck in this
//! process: `libccp_path mbit=20 rtt_ms=20`.
//!
//! Arguments: NAME=VALUE, see `Options`. It prints `ready` when the flow begins, and one line of JSON at the end.

mod network;
mod steered;

use std::ffi::CString;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use ccp_difftest as _; // libccp is in it
use ccp_tcp::{Config, Receiver, Sender};

use network::{Bottleneck, Packet};
use steered::Steered;

unsafe extern "C" {
    fn path_start(agent: *const libc::c_char, own: *const libc::c_char, age_us: u64) -> i32;
    fn path_flow(mss_bytes: u32, init_cwnd_bytes: u32, algorithm: *const libc::c_char) -> i32;
    fn path_end();
    fn path_again();
    fn path_receive();
}

struct Options {
    agent: String,
    bind: String,
    mbit: f64,
    rtt_ms: f64,
    buffer_bytes: f64,
    /// Time limit, and limit of acknowledged bytes.
    seconds: f64,
    bytes: u64,
    /// Announce everything to an agent that starts later, which libccp does not do.
    again: bool,
    /// Age of the datapath: `Ack.now` counts from its start, and some agents need a large value.
    age_s: f64,
    /// Interval between progress lines; 0: none.
    every_s: f64,
}

impl Options {
    fn read() -> Self {
        let mut options = Options {
            agent: "/tmp/ccp/portus".into(),
            bind: "/tmp/ccp/libccp".into(),
            mbit: 20.0,
            rtt_ms: 20.0,
            buffer_bytes: 50_000.0,
            seconds: 10.0,
            bytes: u64::MAX,
            again: true,
            age_s: 0.0,
            every_s: 0.0,
        };
        for argument in std::env::args().skip(1) {
            let (name, value) = argument.split_once('=').expect("NAME=VALUE");
            let number = || value.parse::<f64>().expect("a number");
            match name {
                "agent" => options.agent = value.into(),
                "bind" => options.bind = value.into(),
                "mbit" => options.mbit = number(),
                "rtt_ms" => options.rtt_ms = number(),
                "buffer_bytes" => options.buffer_bytes = number(),
                "seconds" => options.seconds = number(),
                "bytes" => options.bytes = number() as u64,
                "again" => options.again = number() != 0.0,
                "age_s" => options.age_s = number(),
                "every_s" => options.every_s = number(),
                other => panic!("there is no option {other}"),
            }
        }
        options
    }
}

struct Flow {
    sender: Sender<Steered>,
    receiver: Receiver,
}

impl Flow {
    fn begin(options: &Options, config: &Config) -> Self {
        let (mss, cwnd) = (config.mss_bytes, config.init_cwnd);
        let algorithm = text("");
        // SAFETY: C copies the name.
        let number = unsafe { path_flow(mss, cwnd * mss, algorithm.as_ptr()) };
        assert!(number >= 0, "there is no room for a flow");
        let handshake_rtt_us = Some((1000.0 * options.rtt_ms) as u32);
        let mut sender = Sender::new(config, Steered::new(number, mss, cwnd), 0, handshake_rtt_us);
        sender.write_endless(0);
        let mut receiver = Receiver::new(config);
        receiver.establish(handshake_rtt_us);
        Self { sender, receiver }
    }

    /// Prints the progress as JSON.
    fn emit(&self, at_ns: u64) {
        let (sock, steered) = (&self.sender.sock, &self.sender.congestion);
        println!(
            "{{\"at_us\": {}, \"acked_bytes\": {}, \"rtt_us\": {}, \"srtt_us\": {}, \"lost\": {}, \"retransmits\": {}, \
             \"timeouts\": {}, \"cwnd_bytes\": {}, \"folds\": {}, \"folds_alone\": {}, \"fold_errors\": {}}}",
            at_ns / 1000,
            sock.bytes_acked,
            sock.rtt_sum_us / sock.rtt_samples.max(1),
            sock.srtt_us,
            sock.lost,
            sock.total_retrans,
            sock.timeouts,
            sock.snd_cwnd * sock.mss_bytes,
            steered.folds,
            steered.folds_alone,
            steered.fold_errors,
        );
    }
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no NUL in it")
}

/// The agent's socket; None if there is none.
fn agent(options: &Options) -> Option<(u64, i64, i64)> {
    let found = std::fs::metadata(&options.agent).ok()?;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

fn main() {
    let options = Options::read();
    let (reference, own) = (text(&options.agent), text(&options.bind));
    // SAFETY: C copies the names.
    let fd = unsafe { path_start(reference.as_ptr(), own.as_ptr(), (options.age_s * 1e6) as u64) };
    assert!(fd >= 0, "the datapath does not start: {fd}");
    let config = Config::default();
    let mut flow = Flow::begin(&options, &config);
    println!("ready");
    let start = Instant::now();
    carry(&options, &mut flow, fd, start);
    // SAFETY: plain calls.
    unsafe { path_end() };
    flow.emit(start.elapsed().as_nanos() as u64);
    let _ = std::fs::remove_file(&options.bind);
}

/// Runs the flow to its end.
fn carry(options: &Options, flow: &mut Flow, fd: RawFd, start: Instant) {
    let (rate_bytes_per_s, delay_ns) = (options.mbit * 125e3, (options.rtt_ms * 0.5e6) as u64);
    let mut network = Bottleneck::new(rate_bytes_per_s, delay_ns, options.buffer_bytes);
    let mut there = agent(options);
    let (mut look_ns, mut report_ns) = (0, if options.every_s > 0.0 { 0 } else { u64::MAX });
    let end_ns = (options.seconds * 1e9) as u64;
    loop {
        let now_ns = start.elapsed().as_nanos() as u64;
        if now_ns >= end_ns || flow.sender.sock.bytes_acked >= options.bytes {
            return;
        }
        if now_ns >= look_ns {
            look_ns = now_ns + 200_000_000;
            let found = agent(options);
            if options.again && found.is_some() && found != there {
                // SAFETY: plain calls.
                unsafe { path_again() };
                there = found;
            }
        }
        if now_ns >= report_ns {
            report_ns = now_ns + (options.every_s * 1e9) as u64;
            flow.emit(now_ns);
        }
        // SAFETY: plain calls.
        unsafe { path_receive() };
        let Flow { sender, receiver } = &mut *flow;
        while let Some((at_ns, packet)) = network.arrived(now_ns) {
            match packet {
                Packet::Data(data) => {
                    for ack in receiver.on_data(at_ns, &data, false) {
                        network.send(at_ns, Packet::Ack(ack));
                    }
                }
                Packet::Ack(ack) => sender.on_ack(now_ns, &ack),
            }
        }
        let mut next_ns = network.next_ns().unwrap_or(look_ns).min(look_ns).min(report_ns);
        if sender.due_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            sender.on_timer(now_ns);
        }
        if receiver.due_ns().is_some_and(|at_ns| at_ns <= now_ns)
            && let Some(ack) = receiver.on_timer(now_ns)
        {
            network.send(now_ns, Packet::Ack(ack));
        }
        while let Some(data) = sender.next_segment(now_ns) {
            network.send(now_ns, Packet::Data(data));
        }
        for due_ns in [sender.due_ns(), receiver.due_ns()].into_iter().flatten() {
            next_ns = next_ns.min(due_ns);
        }
        wait(fd, next_ns.saturating_sub(start.elapsed().as_nanos() as u64));
    }
}

fn wait(fd: RawFd, ns: u64) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // SAFETY: all of it lives for the length of the call.
    unsafe { libc::ppoll(&mut poll, 1, &time, std::ptr::null()) };
}
