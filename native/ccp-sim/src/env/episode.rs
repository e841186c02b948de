//! One episode: a world with one path, and the connection that learns.

use ccp_emu::spec::{Buffer, Direction, Link, Loss, Node, Spec};
use ccp_tcp::CaState::{Cwr, Loss as Timeout, Recovery};
use ccp_tcp::{Sender, Sock};
use serde::Deserialize;

use crate::Result;
use crate::control::Control;
use crate::env::bad;
use crate::env::domain::{Capacity, Cross, MTU_BYTES, Path};
use crate::env::interval::{Best, FEATURES, Interval, Monitor, Reward};
use crate::{App, Plan};
use crate::{Options, World};

/// Headers of a segment: IPv4 20, TCP 20, timestamps 12.
const HEADERS_BYTES: u32 = 52;
const MSS_BYTES: f64 = (MTU_BYTES - HEADERS_BYTES) as f64;
/// The path's rate is averaged over so long: a cell sends in bursts, and what it sent is heard of a round trip later.
const LATELY_US: u64 = 500_000;
/// In an outage a path is held against so much of its mean rate: there is nothing to be gained, but a queue to be had.
const OUTAGE_SHARE: f64 = 0.1;
/// Silence is listened to in such parts of an interval.
const LISTEN_SHARE: u64 = 8;
/// Nobody waits longer for a connection.
const SILENCE_NS: u64 = 300_000_000_000;
/// A window is not smaller [segments]: Linux sets none that is.
const CWND_MIN_PKTS: u32 = 2;
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
    /// Of the interval; 0 when an episode begins.
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
    /// Monitoring time period.
    pub mtp_us: f64,
    /// Connections beside the learner's.
    pub path_cross_flows: u32,
    /// The rate follows a trace.
    pub path_traced: u32,
    /// CUBIC does nothing between actions.
    pub steered: u32,
    /// The episode ended.
    pub over: u32,
}

/// An episode that is under way.
pub struct Episode {
    world: World,
    learner: usize,
    path: Path,
    monitor: Monitor,
    /// Window behind the last action [segments], which is no whole number.
    window_pkts: f64,
    start_ns: u64,
    end_ns: u64,
}

impl Episode {
    /// Begins an episode; it runs until the first action is due, one interval behind the first data that arrived.
    ///
    /// # Errors
    ///
    /// None that a path of a checked domain leads to.
    pub fn new(path: Path, heuristic: Heuristic, episode_us: u64) -> Result<(Self, Step)> {
        let options = Options::default();
        let start_ns = 1000 * options.start_us;
        let mut world = World::new(spec(&path), &options)?;
        let congestion = match heuristic {
            _ if path.steered => "steered",
            Heuristic::Cubic => "cubic",
            Heuristic::Reno => "reno",
            Heuristic::Bbr => "bbr",
        };
        let endless = App::Bulk { total_bytes: None, rate_bytes_per_s: None, parallel: 1 };
        let learner = world.add(plan(congestion, 0, endless))?;
        for Cross { start_us, phases_us } in &path.cross {
            let app = if phases_us.is_empty() {
                App::Bulk { total_bytes: None, rate_bytes_per_s: None, parallel: 1 }
            } else {
                App::OnOff { phases_us: phases_us.clone(), rate_bytes_per_s: None }
            };
            world.add(plan("cubic", options.start_us + start_us, app))?;
        }
        let slice_ns = 1000 * path.rtt_us.div_ceil(LISTEN_SHARE);
        while !delivers(&world, learner) {
            if world.now_ns() > start_ns + SILENCE_NS {
                return Err(bad("nothing arrives at the other end of the path").at(format!("{path:?}")));
            }
            world.run_until(world.now_ns() + slice_ns);
        }
        let now_ns = world.now_ns();
        let end_ns = now_ns + 1000 * episode_us;
        let sock = sock_of(&mut world, learner);
        let room_bytes = path.rate_bytes_per_s * path.rtt_us as f64 / 1e6 + path.buffer_bytes as f64;
        sock.snd_cwnd_clamp = (CWND_MAX_RATIO * room_bytes / MSS_BYTES) as u32 + CWND_MIN_PKTS;
        let monitor = Monitor::new(sock, now_ns);
        let mut episode = Episode { world, learner, path, monitor, window_pkts: 0.0, start_ns, end_ns };
        let interval = episode.interval();
        let step = episode.told(&interval, episode.best(&interval), 0.0);
        Ok((episode, step))
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.world.now_ns() >= self.end_ns
    }

    /// Multiplies the window by 2 to the power of the action and lets an interval pass. As in Hyvar's fold program, CUBIC
    /// repairs losses undisturbed, and a window that is not used up does not grow.
    pub fn step(&mut self, action: f32, reward: &Reward) -> Step {
        self.act(f64::from(action.clamp(-1.0, 1.0)));
        let interval = self.interval();
        let best = self.best(&interval);
        self.told(&interval, best, reward.of(&interval, best))
    }

    fn act(&mut self, action: f64) {
        // CUBIC alone is what it is compared with: it must not notice.
        if action == 0.0 {
            return;
        }
        let sender = sender_of(&mut self.world, self.learner);
        let sock = &mut sender.sock;
        // What an action adds may be less than a segment; the next one adds to it, as long as nobody else moved the
        // window meanwhile.
        let is_own = self.window_pkts.floor() == f64::from(sock.snd_cwnd);
        let before_pkts = if is_own { self.window_pkts } else { f64::from(sock.snd_cwnd) };
        let (lowers, in_slow_start) = (action < 0.0, sock.in_slow_start());
        let repairs = !self.path.steered && matches!(sock.ca_state, Recovery | Cwr | Timeout);
        if repairs || !(lowers || sock.cwnd_limited()) {
            return;
        }
        let limits = (f64::from(CWND_MIN_PKTS), f64::from(sock.snd_cwnd_clamp));
        self.window_pkts = (before_pkts * action.exp2()).clamp(limits.0, limits.1);
        sock.snd_cwnd = self.window_pkts as u32;
        if lowers || !in_slow_start {
            // A smaller window ends slow start, and never begins one.
            sock.snd_ssthresh = sock.snd_cwnd;
        }
        if let Control::Cubic(cubic) = &mut sender.congestion {
            cubic.restart(sock.snd_cwnd, lowers);
        }
        self.world.kick(self.learner, 0);
    }

    fn interval(&mut self) -> Interval {
        let mtp_ns = 1000 * self.path.mtp_us;
        let mut until_ns = self.monitor.began_ns() + mtp_ns;
        loop {
            self.world.run_until(until_ns.min(self.end_ns));
            let now_ns = self.world.now_ns();
            let sock = sock_of(&mut self.world, self.learner);
            if now_ns >= self.end_ns || self.monitor.heard(sock) {
                return self.monitor.end(sock, now_ns);
            }
            until_ns = now_ns + mtp_ns.div_ceil(LISTEN_SHARE);
        }
    }

    /// What the path allowed in the interval and shortly before: what it then sent is acknowledged now.
    fn best(&self, interval: &Interval) -> Best {
        let now_us = (self.world.now_ns() - self.start_ns) / 1000;
        let from_us = now_us.saturating_sub((interval.length_us as u64).max(LATELY_US));
        let bytes_per_s = self.path.mean_bytes_per_s(from_us, now_us);
        let sent_bytes_per_s = bytes_per_s.max(OUTAGE_SHARE * self.path.rate_bytes_per_s);
        Best {
            thr_bytes_per_s: sent_bytes_per_s * MSS_BYTES / f64::from(MTU_BYTES),
            rtt_us: self.path.rtt_us as f64,
        }
    }

    fn told(&self, interval: &Interval, best: Best, reward: f64) -> Step {
        Step {
            observation: interval.observation(),
            reward: reward as f32,
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
            mtp_us: self.path.mtp_us as f64,
            path_cross_flows: self.path.cross.len() as u32,
            path_traced: u32::from(matches!(self.path.capacity, Capacity::Trace(_))),
            steered: u32::from(self.path.steered),
            over: u32::from(self.is_over()),
        }
    }
}

fn delivers(world: &World, learner: usize) -> bool {
    world.sender(learner, 0).is_some_and(|sender| sender.sock.delivered > 0)
}

/// The learner's sender. An episode begins when there is one, and it never ends its transfer.
fn sender_of(world: &mut World, learner: usize) -> &mut Sender<Control> {
    world.sender_mut(learner, 0).expect("the learner's connection is there")
}

fn sock_of(world: &mut World, learner: usize) -> &mut Sock {
    &mut sender_of(world, learner).sock
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
