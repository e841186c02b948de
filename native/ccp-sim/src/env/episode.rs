//! One episode: a world with one path and the learner's connection.

use ccp_emu::spec::{Buffer, Direction, Link, Loss, Node, Spec};
use serde::Deserialize;

use crate::Result;
use crate::env::bad;
use crate::env::domain::{Capacity, Cross, MTU_BYTES, Path};
use crate::env::driver::{CWND_MIN_PKTS, Driver, Totals, delivers};
use crate::{App, Plan};
use crate::{Options, World};

/// Headers of a segment: IPv4 20, TCP 20, timestamps 12.
const HEADERS_BYTES: u32 = 52;
const MSS_BYTES: f64 = (MTU_BYTES - HEADERS_BYTES) as f64;
/// Averaging time of the path's rate: a cell sends in bursts, which are acknowledged a round trip later.
const LATELY_US: u64 = 500_000;
/// Minimum share of the mean rate in an outage, in which nothing can be gained, but a queue can build up.
const OUTAGE_SHARE: f64 = 0.1;
/// Checks per round trip whether a connection delivers.
const ASKED_PER_RTT: u64 = 8;
/// Maximum wait for a connection.
const SILENCE_NS: u64 = 300_000_000_000;
/// Maximum window relative to path and buffer: a send buffer is limited, too.
const CWND_MAX_RATIO: f64 = 4.0;

/// Congestion control between actions.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Heuristic {
    /// As RFC 9438.
    Cubic,
    /// As RFC 5681.
    Reno,
    /// BBR, version 1.
    Bbr,
}

/// Result of a step. The layout is that of an array's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Step {
    pub interval_us: f64,
    /// Its end, since the start.
    pub now_us: f64,
    /// Counters until then.
    pub totals: Totals,
    /// Payload the path could carry recently.
    pub path_bytes_per_s: f64,
    /// RTT without a queue.
    pub path_rtt_us: f64,
    pub path_buffer_bytes: f64,
    pub path_loss_ratio: f64,
    /// Monitoring time period.
    pub mtp_us: f64,
    /// The world.
    pub flow_id: u32,
    pub path_cross_flows: u32,
    /// The rate follows a trace.
    pub path_traced: u32,
    /// Nothing changes the window between actions.
    pub steered: u32,
    /// The interval follows an action; 0: it begins an episode.
    pub acted: u32,
    pub over: u32,
}

pub struct Episode {
    world: World,
    path: Path,
    learner: Driver,
    start_ns: u64,
    began_ns: u64,
    end_ns: u64,
}

impl Episode {
    /// Begins an episode; it runs until the first action is due, one interval after the first arrived data.
    /// Errors: `learning.bad_domain` if nothing arrives.
    pub fn new(path: Path, heuristic: Heuristic, episode_us: u64) -> Result<(Self, Step)> {
        let options = Options::default();
        let start_ns = 1000 * options.start_us;
        let mut world = World::new(spec(&path), &options)?;
        let congestion = match (path.steered, heuristic) {
            (true, _) => "steered",
            (false, Heuristic::Cubic) => "cubic",
            (false, Heuristic::Reno) => "reno",
            (false, Heuristic::Bbr) => "bbr",
        };
        let learner = world.add(plan(congestion, options.start_us, endless()))?;
        for Cross { start_us, phases_us } in &path.cross {
            let app = if phases_us.is_empty() {
                endless()
            } else {
                App::OnOff { phases_us: phases_us.clone(), rate_bytes_per_s: None }
            };
            world.add(plan("cubic", options.start_us + start_us, app))?;
        }
        let slice_ns = 1000 * path.rtt_us.div_ceil(ASKED_PER_RTT);
        while !delivers(&world, learner) {
            if world.now_ns() > start_ns + SILENCE_NS {
                return Err(bad("nothing arrives at the other end of the path").at(format!("{path:?}")));
            }
            world.run_until(world.now_ns() + slice_ns);
        }
        let began_ns = world.now_ns();
        let end_ns = began_ns + 1000 * episode_us;
        let learner = Driver::new(&mut world, learner, path.mtp_us, max_pkts(&path));
        let mut episode = Episode { world, path, learner, start_ns, began_ns, end_ns };
        let step = episode.interval(false);
        Ok((episode, step))
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.world.now_ns() >= self.end_ns
    }

    /// Multiplies the window by 2 to the power of the action, and runs an interval.
    pub fn step(&mut self, action: f32) -> Step {
        self.learner.act(&mut self.world, f64::from(action.clamp(-1.0, 1.0)));
        self.interval(true)
    }

    fn interval(&mut self, acted: bool) -> Step {
        loop {
            self.world.run_until(self.learner.due_ns().min(self.end_ns));
            let over = self.is_over();
            if let Some(totals) = self.learner.end(&mut self.world, over) {
                return self.reported(totals, acted);
            }
        }
    }

    /// Payload allowed by the path in the interval and shortly before, which is acknowledged now.
    fn path_bytes_per_s(&self, interval_us: f64) -> f64 {
        let now_us = (self.world.now_ns() - self.start_ns) / 1000;
        let from_us = now_us.saturating_sub((interval_us as u64).max(LATELY_US));
        let bytes_per_s = self.path.mean_bytes_per_s(from_us, now_us);
        let sent_bytes_per_s = bytes_per_s.max(OUTAGE_SHARE * self.path.limit_bytes_per_s());
        sent_bytes_per_s * MSS_BYTES / f64::from(MTU_BYTES)
    }

    fn reported(&mut self, totals: Totals, acted: bool) -> Step {
        let now_ns = self.world.now_ns();
        let interval_us = (now_ns - self.began_ns) as f64 / 1e3;
        self.began_ns = now_ns;
        Step {
            flow_id: 0,
            interval_us,
            now_us: (now_ns - self.start_ns) as f64 / 1e3,
            totals,
            path_bytes_per_s: self.path_bytes_per_s(interval_us),
            path_rtt_us: self.path.rtt_us as f64,
            path_buffer_bytes: self.path.buffer_bytes as f64,
            path_loss_ratio: self.path.loss_ratio,
            mtp_us: self.path.mtp_us as f64,
            path_cross_flows: self.path.cross.len() as u32,
            path_traced: u32::from(matches!(self.path.capacity, Capacity::Trace(_))),
            steered: u32::from(self.path.steered),
            acted: u32::from(acted),
            over: u32::from(self.is_over()),
        }
    }
}

/// Maximum window [segments].
fn max_pkts(path: &Path) -> u32 {
    let room_bytes = path.rate_bytes_per_s * path.rtt_us as f64 / 1e6 + path.buffer_bytes as f64;
    (CWND_MAX_RATIO * room_bytes / MSS_BYTES) as u32 + CWND_MIN_PKTS
}

fn endless() -> App {
    App::Bulk { total_bytes: None, rate_bytes_per_s: None, parallel: 1 }
}

fn plan(congestion: &str, start_us: u64, app: App) -> Plan {
    Plan { start_us, ..Plan::new("sender", "receiver", congestion, app) }
}

fn spec(path: &Path) -> Spec {
    let (rate_bytes_per_s, trace_ms) = match &path.capacity {
        Capacity::Rate(rate) => (Some(*rate), None),
        Capacity::Trace(times_ms) => (None, Some(times_ms.clone())),
    };
    let there = Direction {
        rate_bytes_per_s,
        trace_ms,
        delay_us: path.rtt_us / 2,
        buffer: Some(Buffer::Bytes(path.buffer_bytes)),
        queue: path.queue,
        token_bucket: path.policer,
        loss: (path.loss_ratio > 0.0).then_some(Loss::Bernoulli { ratio: path.loss_ratio }),
        ..Direction::default()
    };
    let back = Direction { delay_us: path.rtt_us - path.rtt_us / 2, ..Direction::default() };
    let node = |name: &str, last: u8| Node {
        name: name.into(),
        addresses: vec![[10, 0, 0, last].into()],
        tun: None,
        misbehaves: None,
    };
    let link = |name: &str, from, to, direction| Link { name: name.into(), from, to, direction };
    Spec {
        seed: path.seed,
        mtu_bytes: MTU_BYTES,
        nodes: vec![node("sender", 1), node("receiver", 2)],
        links: vec![link("path>", 0, 1, there), link("path<", 1, 0, back)],
        routes: vec![vec![-1, 0], vec![1, -1]],
        sample_interval_us: 100_000,
        samples_path: None,
        pcap: None,
        int: None,
    }
}
