//! What a flow is to do, as data.

use ccp_emu::Error;
use serde::Deserialize;

use crate::Result;

/// A flow: who sends to whom, what, and under which congestion control.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name, for results.
    #[serde(default)]
    pub name: String,
    /// Name of the host that sends the data.
    pub sender: String,
    /// Name of the host that gets it.
    pub receiver: String,
    /// Of addresses.
    #[serde(default)]
    pub family: Family,
    /// `reno`, `cubic`, `bbr`, one of R-TCP's where that is attached, or a name that an agent has registered.
    pub congestion: String,
    /// Its connections ask for ECN.
    #[serde(default)]
    pub ecn: bool,
    /// When it starts, by the world's clock; at once, if that is over.
    #[serde(default)]
    pub start_us: u64,
    /// When it is stopped at the latest.
    #[serde(default)]
    pub stop_us: Option<u64>,
    /// Port of the sender; those of further connections that it opens follow. One that is free, if `None`.
    #[serde(default)]
    pub sport: Option<u16>,
    /// Port of the receiver; those of further connections that it opens follow. One that is free, if `None`.
    #[serde(default)]
    pub dport: Option<u16>,
    /// What the application does.
    pub app: App,
}

/// Family of addresses.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// What an application does, as `experiments/traffic/spec.py` describes it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum App {
    /// A bulk transfer, as by iperf3.
    Bulk {
        /// How much all connections send together; until the end of the flow, if `None`.
        #[serde(default)]
        total_bytes: Option<u64>,
        /// Limit of the application's rate, each connection.
        #[serde(default)]
        rate_bytes_per_s: Option<f64>,
        /// Number of connections.
        #[serde(default = "one")]
        parallel: u32,
    },
    /// Downloads, one after the other.
    Http {
        /// Size of each object.
        objects: Vec<u64>,
        /// How long nothing is asked for before the second, third, ... object; from its start again at its end.
        #[serde(default)]
        gaps_us: Vec<u64>,
        /// How often all objects are downloaded.
        #[serde(default = "one")]
        repeat: u32,
        /// How many clients do all of that at once.
        #[serde(default = "one")]
        connections: u32,
        /// A client's connection stays open for its next download; else each has a new one.
        #[serde(default = "yes")]
        persistent: bool,
    },
    /// One connection that sends for a while, is idle for a while, and so on. At the end of the list the flow is over.
    OnOff {
        /// How long it sends, and how long it is then idle.
        phases_us: Vec<(u64, u64)>,
        /// How fast the application writes while on; as fast as the socket takes it, if `None`.
        #[serde(default)]
        rate_bytes_per_s: Option<f64>,
    },
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

impl Plan {
    /// A flow over IPv4 that starts at once and has all the time.
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

    /// Reads a plan from JSON.
    /// Errors: `sim.bad_plan` if it is no such JSON, or describes what cannot be.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let plan: Plan =
            serde_json::from_slice(json).map_err(|e| bad("the plan of a flow cannot be read").why(e))?;
        plan.check()?;
        Ok(plan)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if self.stop_us.is_some_and(|stop_us| stop_us <= self.start_us) {
            return Err(bad("a flow ends after it starts").at("stop_us"));
        }
        if self.sport == Some(0) || self.dport == Some(0) {
            return Err(bad("0 is no port").at("sport, dport"));
        }
        match &self.app {
            App::Bulk { total_bytes, rate_bytes_per_s, parallel } => {
                if *total_bytes == Some(0) || *parallel == 0 || rate_bytes_per_s.is_some_and(|r| !positive(r))
                {
                    return Err(bad("a bulk transfer has bytes, connections and a rate above 0").at("app"));
                }
            }
            App::Http { objects, repeat, connections, .. } => {
                if objects.is_empty() || objects.contains(&0) || *repeat == 0 || *connections == 0 {
                    return Err(bad("downloads have objects, repetitions and connections above 0").at("app"));
                }
            }
            App::OnOff { phases_us, rate_bytes_per_s } => {
                if phases_us.is_empty() || phases_us.iter().any(|(on_us, _)| *on_us == 0) {
                    return Err(
                        bad("a flow that is on and off has phases, and is on for longer than 0").at("app")
                    );
                }
                if rate_bytes_per_s.is_some_and(|r| !positive(r)) {
                    return Err(bad("a rate is above 0").at("app"));
                }
            }
        }
        Ok(())
    }
}

fn bad(message: &str) -> Error {
    Error::new("sim.bad_plan", message).fix("see experiments/traffic/spec.py for what is possible")
}
