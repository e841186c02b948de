//! One episode: a world with one path, and the connection that learns.

use ccp_emu::spec::{Buffer, Direction, Link, Loss, Node, Spec};
use serde::Deserialize;

use crate::Result;
use crate::env::bad;
use crate::env::domain::{Capacity, Cross, MTU_BYTES, Mode, Path};
use crate::env::driver::{CWND_MIN_PKTS, Driver, delivers};
use crate::env::interval::{Best, FEATURES, Interval};
use crate::env::net::Net;
use crate::env::reasoner::Hyvar;
use crate::{App, Plan};
use crate::{Options, World};

/// Headers of a segment: IPv4 20, TCP 20, timestamps 12.
const HEADERS_BYTES: u32 = 52;
const MSS_BYTES: f64 = (MTU_BYTES - HEADERS_BYTES) as f64;
/// The path's rate is averaged over so long: a cell sends in bursts, and what it sent is heard of a round trip later.
const LATELY_US: u64 = 500_000;
/// In an outage a path is held against so much of its mean rate: there is nothing to be gained, but a queue to be had.
const OUTAGE_SHARE: f64 = 0.1;
/// Whether a connection delivers is asked so many times in a round trip.
const ASKED_PER_RTT: u64 = 8;
/// Nobody waits longer for a connection.
const SILENCE_NS: u64 = 300_000_000_000;
/// No window is larger than so many times what path and buffer hold: a socket's send buffer has an end, too.
const CWND_MAX_RATIO: f64 = 4.0;

/// What moves the window between actions.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Heuristic {
    /// As RFC 9438.
    Cubic,
    /// As RFC 5681.
    Reno,
    /// Its first version.
    Bbr,
}

/// What a step tells. The layout is that of an array's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Step {
    /// Of the interval.
    pub observation: [f32; FEATURES],
    /// 1: an action led to the interval, and its reward is said elsewhere (`experiments/learning/worlds.py`); 0: an
    /// episode begins with it.
    pub reward: f32,
    /// Length of the interval.
    pub interval_us: f64,
    /// Its end, since the start.
    pub now_us: f64,
    /// See [`Interval`].
    pub thr_bytes_per_s: f64,
    /// See [`Interval`].
    pub thr_max_bytes_per_s: f64,
    /// See [`Interval`].
    pub loss_bytes_per_s: f64,
    /// See [`Interval`].
    pub rtt_us: f64,
    /// See [`Interval`].
    pub rtt_min_us: f64,
    /// See [`Interval`].
    pub srtt_us: f64,
    /// See [`Interval`].
    pub cwnd_bytes: f64,
    /// See [`Interval`].
    pub mss_bytes: f64,
    /// Payload that the path could carry lately.
    pub path_bytes_per_s: f64,
    /// RTT without a queue.
    pub path_rtt_us: f64,
    /// What waits in front of the bottleneck at most.
    pub path_buffer_bytes: f64,
    /// Loss at random.
    pub path_loss_ratio: f64,
    /// An equal part of that, of all connections that send now.
    pub fair_bytes_per_s: f64,
    /// Monitoring time period: of the interval that begins.
    pub mtp_us: f64,
    /// Connections beside the learner's that have no policy.
    pub path_cross_flows: u32,
    /// Connections beside the learner's that have its policy.
    pub path_peers: u32,
    /// Connections that send now.
    pub path_flows: u32,
    /// The rate follows a trace.
    pub path_traced: u32,
    /// CUBIC does nothing between actions.
    pub steered: u32,
    /// Case of Hyvar's reasoner that the interval was; 0 where the MTP stays.
    pub case: u32,
    /// The policy has the window alone in the interval that begins.
    pub alone: u32,
    /// The episode ended.
    pub over: u32,
}

/// An episode that is under way.
pub struct Episode {
    world: World,
    path: Path,
    hyvar: Hyvar,
    learner: Driver,
    peers: Peers,
    start_ns: u64,
    end_ns: u64,
}

impl Episode {
    /// Begins an episode; it runs until the first action is due, one interval behind the first data that arrived.
    ///
    /// # Errors
    ///
    /// `learning.bad_domain` if nothing arrives on the path.
    pub fn new(
        path: Path,
        heuristic: Heuristic,
        hyvar: Hyvar,
        net: Option<&Net>,
        episode_us: u64,
    ) -> Result<(Self, Step)> {
        let options = Options::default();
        let start_ns = 1000 * options.start_us;
        let mut world = World::new(spec(&path), &options)?;
        let congestion = match (path.mode, heuristic) {
            (Mode::Steered, _) => "steered",
            (Mode::Adaptive, _) => "hybrid",
            (Mode::Hybrid, Heuristic::Cubic) => "cubic",
            (Mode::Hybrid, Heuristic::Reno) => "reno",
            (Mode::Hybrid, Heuristic::Bbr) => "bbr",
        };
        let learner = world.add(plan(congestion, options.start_us + path.start_us, endless()))?;
        for Cross { start_us, phases_us, bbr } in &path.cross {
            let app = if phases_us.is_empty() {
                endless()
            } else {
                App::OnOff { phases_us: phases_us.clone(), rate_bytes_per_s: None }
            };
            let congestion = if *bbr { "bbr" } else { "cubic" };
            world.add(plan(congestion, options.start_us + start_us, app))?;
        }
        let mut peers = Peers::default();
        for start_us in &path.peers_us {
            peers.waiting.push(world.add(plan(congestion, options.start_us + start_us, endless()))?);
        }
        let slice_ns = 1000 * path.rtt_us.div_ceil(ASKED_PER_RTT);
        while !delivers(&world, learner) {
            if world.now_ns() > start_ns + 1000 * path.start_us + SILENCE_NS {
                return Err(bad("nothing arrives at the other end of the path").at(format!("{path:?}")));
            }
            let until_ns = world.now_ns() + slice_ns;
            peers.run_until(&mut world, until_ns, &path, hyvar, net);
        }
        let end_ns = world.now_ns() + 1000 * episode_us;
        let learner = Driver::new(&mut world, learner, path.mode, hyvar, path.mtp_us, most_pkts(&path));
        let mut episode = Episode { world, path, hyvar, learner, peers, start_ns, end_ns };
        let interval = episode.interval(net);
        let step = episode.told(&interval, 0.0);
        Ok((episode, step))
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.world.now_ns() >= self.end_ns
    }

    /// Multiplies the window by 2 to the power of the action and lets an interval pass; `net` has the peers.
    pub fn step(&mut self, action: f32, net: Option<&Net>) -> Step {
        self.learner.act(&mut self.world, f64::from(action.clamp(-1.0, 1.0)));
        let interval = self.interval(net);
        self.told(&interval, 1.0)
    }

    fn interval(&mut self, net: Option<&Net>) -> Interval {
        loop {
            let until_ns = self.learner.due_ns().min(self.end_ns);
            self.peers.run_until(&mut self.world, until_ns, &self.path, self.hyvar, net);
            let over = self.is_over();
            if let Some(interval) = self.learner.end(&mut self.world, over) {
                return interval;
            }
        }
    }

    /// What the path allowed in the interval and shortly before: what it then sent is acknowledged now.
    fn best(&self, interval: &Interval) -> Best {
        let now_us = (self.world.now_ns() - self.start_ns) / 1000;
        let from_us = now_us.saturating_sub((interval.length_us as u64).max(LATELY_US));
        let bytes_per_s = self.path.mean_bytes_per_s(from_us, now_us);
        let sent_bytes_per_s = bytes_per_s.max(OUTAGE_SHARE * self.path.limit_bytes_per_s());
        Best {
            thr_bytes_per_s: sent_bytes_per_s * MSS_BYTES / f64::from(MTU_BYTES),
            rtt_us: self.path.rtt_us as f64,
        }
    }

    fn told(&self, interval: &Interval, reward: f32) -> Step {
        let best = self.best(interval);
        let flows = self.path.flows((self.world.now_ns() - self.start_ns) / 1000);
        let next = &self.learner.next;
        Step {
            observation: interval.observation(),
            reward,
            interval_us: interval.length_us,
            now_us: (self.world.now_ns() - self.start_ns) as f64 / 1e3,
            thr_bytes_per_s: interval.thr_bytes_per_s,
            thr_max_bytes_per_s: interval.thr_max_bytes_per_s,
            loss_bytes_per_s: interval.loss_bytes_per_s,
            rtt_us: interval.rtt_us,
            rtt_min_us: interval.rtt_min_us,
            srtt_us: interval.srtt_us,
            cwnd_bytes: interval.cwnd_bytes,
            mss_bytes: interval.mss_bytes,
            path_bytes_per_s: best.thr_bytes_per_s,
            path_rtt_us: best.rtt_us,
            path_buffer_bytes: self.path.buffer_bytes as f64,
            path_loss_ratio: self.path.loss_ratio,
            fair_bytes_per_s: best.thr_bytes_per_s / f64::from(flows),
            mtp_us: next.mtp_us,
            path_cross_flows: self.path.cross.len() as u32,
            path_peers: self.path.peers_us.len() as u32,
            path_flows: flows,
            path_traced: u32::from(matches!(self.path.capacity, Capacity::Trace(_))),
            steered: u32::from(self.path.mode == Mode::Steered),
            case: next.case,
            alone: u32::from(next.alone),
            over: u32::from(self.is_over()),
        }
    }
}

/// Connections that have the learner's policy.
#[derive(Default)]
struct Peers {
    /// Those that have delivered nothing yet.
    waiting: Vec<usize>,
    drivers: Vec<Driver>,
}

impl Peers {
    /// Lets time pass; the policy acts for each of them at the end of its intervals. Without one they are left alone.
    fn run_until(&mut self, world: &mut World, until_ns: u64, path: &Path, hyvar: Hyvar, net: Option<&Net>) {
        let slice_ns = 1000 * path.rtt_us.div_ceil(ASKED_PER_RTT);
        loop {
            let asked_ns = if self.waiting.is_empty() { u64::MAX } else { world.now_ns() + slice_ns };
            let due_ns = self.drivers.iter().map(Driver::due_ns).min().unwrap_or(u64::MAX);
            let next_ns = due_ns.min(asked_ns).min(until_ns);
            world.run_until(next_ns);
            let (begun, waiting) = std::mem::take(&mut self.waiting)
                .into_iter()
                .partition::<Vec<_>, _>(|plan| net.is_some() && delivers(world, *plan));
            self.waiting = waiting;
            for plan in begun {
                let most_pkts = most_pkts(path);
                self.drivers.push(Driver::new(world, plan, path.mode, hyvar, path.mtp_us, most_pkts));
            }
            if let Some(net) = net {
                for driver in self.drivers.iter_mut().filter(|driver| driver.due_ns() <= next_ns) {
                    if let Some(interval) = driver.end(world, false) {
                        let action = net.action(&interval.observation());
                        driver.act(world, action);
                    }
                }
            }
            if next_ns >= until_ns {
                return;
            }
        }
    }
}

/// No window is larger [segments].
fn most_pkts(path: &Path) -> u32 {
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

#[cfg(test)]
#[path = "episode_tests.rs"]
mod tests;
