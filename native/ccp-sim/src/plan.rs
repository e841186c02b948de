//! The description of a flow.

use ccp_emu::Error;
use serde::Deserialize;

use crate::Result;

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name, for results.
    #[serde(default)]
    pub name: String,
    pub sender: String,
    pub receiver: String,
    #[serde(default)]
    pub family: Family,
    /// `reno`, `cubic`, `bbr`, one of R-TCP's if attached, or a name registered by an agent.
    pub congestion: String,
    #[serde(default)]
    pub ecn: bool,
    /// Start, by the world's clock; immediately if in the past.
    #[serde(default)]
    pub start_us: u64,
    /// When it is stopped at the latest.
    #[serde(default)]
    pub stop_us: Option<u64>,
    /// Port of the sender; further connections use the next ones. `None`: a free one.
    #[serde(default)]
    pub sport: Option<u16>,
    /// Port of the receiver; further connections use the next ones. `None`: a free one.
    #[serde(default)]
    pub dport: Option<u16>,
    pub app: App,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    #[default]
    Ipv4,
    Ipv6,
}

/// An application, as described in `experiments/traffic/spec.py`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum App {
    /// A bulk transfer, like iperf3's.
    Bulk {
        /// Total of all connections; `None`: until the end of the flow.
        #[serde(default)]
        total_bytes: Option<u64>,
        /// Rate limit of the application, per connection.
        #[serde(default)]
        rate_bytes_per_s: Option<f64>,
        #[serde(default = "one")]
        parallel: u32,
    },
    /// Downloads, one after the other.
    Http {
        objects: Vec<u64>,
        /// Idle time before the second, third, ... object; repeated cyclically.
        #[serde(default)]
        gaps_us: Vec<u64>,
        /// Number of downloads of all objects.
        #[serde(default = "one")]
        repeat: u32,
        /// Number of concurrent clients.
        #[serde(default = "one")]
        connections: u32,
        /// A client's connection is reused for its next download.
        #[serde(default = "yes")]
        persistent: bool,
    },
    /// One connection that alternately sends and is idle. At the end of the list the flow ends.
    OnOff {
        /// Durations of sending and of the idle time after it.
        phases_us: Vec<(u64, u64)>,
        /// Rate of the application while on; `None`: as fast as the socket accepts.
        #[serde(default)]
        rate_bytes_per_s: Option<f64>,
    },
    /// Media over RTP, without congestion control.
    Rtp {
        frames_per_s: f64,
        /// Payload of each packet of a frame.
        frame: Vec<u32>,
        /// Interval of RTCP reports.
        report_us: u64,
    },
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

impl Plan {
    /// A flow over IPv4 that starts immediately and has no end time.
    pub fn new(sender: &str, receiver: &str, congestion: &str, app: App) -> Self {
        Plan {
            name: String::new(),
            sender: sender.to_owned(),
            receiver: receiver.to_owned(),
            family: Family::Ipv4,
            congestion: congestion.to_owned(),
            ecn: false,
            start_us: 0,
            stop_us: None,
            sport: None,
            dport: None,
            app,
        }
    }

    /// Parses a plan from JSON. Errors: `sim.bad_plan`.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let plan: Plan =
            serde_json::from_slice(json).map_err(|e| bad("cannot parse the plan of a flow").why(e))?;
        plan.check()?;
        Ok(plan)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if self.stop_us.is_some_and(|stop_us| stop_us <= self.start_us) {
            return Err(bad("a flow must end after it starts").at("stop_us"));
        }
        if self.sport == Some(0) || self.dport == Some(0) {
            return Err(bad("0 is not a valid port").at("sport, dport"));
        }
        match &self.app {
            App::Bulk { total_bytes, rate_bytes_per_s, parallel } => {
                if *total_bytes == Some(0) || *parallel == 0 || rate_bytes_per_s.is_some_and(|r| !positive(r))
                {
                    return Err(
                        bad("bytes, connections and rate of a bulk transfer must be above 0").at("app")
                    );
                }
            }
            App::Http { objects, repeat, connections, .. } => {
                if objects.is_empty() || objects.contains(&0) || *repeat == 0 || *connections == 0 {
                    return Err(
                        bad("objects, repetitions and connections of downloads must be above 0").at("app")
                    );
                }
            }
            App::OnOff { phases_us, rate_bytes_per_s } => {
                if phases_us.is_empty() || phases_us.iter().any(|(on_us, _)| *on_us == 0) {
                    return Err(bad("an on-off flow needs phases, with times on above 0").at("app"));
                }
                if rate_bytes_per_s.is_some_and(|r| !positive(r)) {
                    return Err(bad("a rate must be above 0").at("app"));
                }
            }
            App::Rtp { frames_per_s, frame, report_us } => {
                if !positive(*frames_per_s) || frame.is_empty() || frame.contains(&0) || *report_us == 0 {
                    return Err(bad("frames, packets and reports of media must be above 0").at("app"));
                }
            }
        }
        Ok(())
    }
}

fn bad(message: &str) -> Error {
    Error::new("sim.bad_plan", message).fix("see experiments/traffic/spec.py")
}
