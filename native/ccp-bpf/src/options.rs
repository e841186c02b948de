//! Options for loading the datapath.

use std::path::PathBuf;

use crate::holders::Quotas;
use crate::{Error, Result, intf};

/// Minimum timeout [ms]: a shorter one would take flows from a healthy agent.
const MIN_TIMEOUT_MS: u64 = 40;

#[derive(Clone, Debug)]
pub struct Options {
    /// Directory in a BPF file system.
    pub pin_dir: PathBuf,
    pub max_flows: u32,
    /// Size of the ring buffer of reports [bytes]: a power of two, a multiple of the page size.
    pub ring_bytes: u32,
    /// Age of the heartbeat at which flows go to the fallback [ms].
    pub heartbeat_timeout_ms: u64,
    /// Time without an answer to its report after which a flow goes to the fallback [ms].
    pub report_timeout_ms: u64,
    /// Maximum window [bytes].
    pub max_cwnd_bytes: u64,
    /// Make a running agent end and hand its flows over.
    pub take_over: bool,
    /// Maximum flows per user and per cgroup.
    pub quotas: Quotas,
    /// Flows silent for this long lose their slots when slots are scarce [ms].
    pub reap_after_ms: u64,
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |what: String, fix: &str| Err(Error::new("load.option", what).fix(fix));
        if !(1..=intf::CCP_MAX_FLOWS).contains(&self.max_flows) {
            return bad(format!("max_flows is out of range: {}", self.max_flows), "choose 1 to 65536");
        }
        let quotas = [("user", self.quotas.per_user), ("cgroup", self.quotas.per_cgroup)];
        for (whose, quota) in quotas.into_iter().filter_map(|(whose, quota)| Some((whose, quota?))) {
            if !(1..=intf::CCP_MAX_FLOWS).contains(&quota) {
                return bad(
                    format!("max_flows_per_{whose} is out of range: {quota}"),
                    "choose 1 to 65536, or omit it for no quota",
                );
            }
        }
        if !self.ring_bytes.is_power_of_two() || self.ring_bytes < 4096 {
            return bad(
                format!("ring_bytes is out of range: {}", self.ring_bytes),
                "choose a power of two of at least 4096",
            );
        }
        let timeouts = [("heartbeat", self.heartbeat_timeout_ms), ("report", self.report_timeout_ms)];
        if let Some((what, timeout_ms)) = timeouts.into_iter().find(|(_, ms)| *ms < MIN_TIMEOUT_MS) {
            return bad(format!("{what}_timeout_ms is out of range: {timeout_ms}"), "choose at least 40");
        }
        Ok(())
    }
}
