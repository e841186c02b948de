//! Flows as Python sees them.

use std::net::Ipv6Addr;

use ::ccp_record::intf::{self, ccp_close, ccp_counts, ccp_flow, ccp_flow_info, ccp_record, ccp_stats};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What is known of a flow from its start.
#[pyclass(frozen, get_all, module = "ccplane.base._native")]
#[derive(Clone, Debug)]
pub struct FlowInfo {
    flow_id: u64,
    src_addr: String,
    src_port: u16,
    dst_addr: String,
    dst_port: u16,
    /// AF_INET or AF_INET6 of the socket.
    family: u16,
    mss_bytes: u32,
    init_cwnd_bytes: u32,
    cc_name: String,
    netns_inum: u32,
    cgroup_id: u64,
    created_us: u64,
    sock_cookie: u64,
    ecn_ok: bool,
}

/// Text of an address; a mapped one as IPv4.
fn address(bytes: [u8; 16]) -> String {
    let v6 = Ipv6Addr::from(bytes);
    v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string())
}

impl FlowInfo {
    pub fn new(flow_id: u64, info: &ccp_flow_info, cc_name: String) -> Self {
        FlowInfo {
            flow_id,
            src_addr: address(info.saddr),
            src_port: info.sport,
            dst_addr: address(info.daddr),
            dst_port: info.dport,
            family: info.family,
            mss_bytes: info.mss,
            init_cwnd_bytes: info.init_cwnd_bytes,
            cc_name,
            netns_inum: info.netns_inum,
            cgroup_id: info.cgroup_id,
            created_us: info.created_us,
            sock_cookie: info.sock_cookie,
            ecn_ok: info.ecn_ok != 0,
        }
    }
}

#[pymethods]
impl FlowInfo {
    fn __repr__(&self) -> String {
        format!(
            "FlowInfo({:#x}, {} [{}]:{} -> [{}]:{})",
            self.flow_id, self.cc_name, self.src_addr, self.src_port, self.dst_addr, self.dst_port
        )
    }
}

/// Why the fallback law has a flow, as Python has it.
fn law_cause(cause: u32) -> &'static str {
    match cause {
        intf::CCP_LAW_SILENT => "silent",
        intf::CCP_LAW_UNINSTALLED => "uninstalled",
        intf::CCP_LAW_NO_PROGRAM => "no_program",
        intf::CCP_LAW_FAILED => "failed",
        _ => "new",
    }
}

/// Totals and state of one flow.
#[pyclass(frozen, get_all, module = "ccplane.base._native")]
#[derive(Clone, Debug)]
pub struct FlowStats {
    flow_id: u64,
    cwnd_bytes: u64,
    rate_bytes_per_s: u64,
    /// Whether the fallback law steers.
    law: bool,
    program: u32,
    mss_bytes: u32,
    srtt_us: u32,
    min_rtt_us: u32,
    delivered_pkts: u32,
    lost_pkts: u32,
    retrans_pkts: u32,
    packets_in_flight: u32,
    bytes_acked: u64,
    bytes_retrans: u64,
    ca_state: u32,
    snd_ssthresh_pkts: u32,
    pacing_rate_bytes_per_s: u64,
    acks: u64,
    reports: u64,
    reports_missed: u64,
    fold_errors: u32,
    last_fold_error: u32,
    law_entries: u32,
    law_cause: &'static str,
    law_entered_us: u64,
    law_left_us: u64,
    local_congestion: u32,
    timeouts: u32,
    mail_applied: u32,
    mail_applied_us: u64,
    now_us: u64,
}

impl FlowStats {
    fn new(record: &ccp_record, law: bool, mail_applied_us: u64, s: &ccp_stats, c: &ccp_counts) -> Self {
        FlowStats {
            flow_id: record.flow_id,
            cwnd_bytes: u64::from(s.snd_cwnd_pkts) * u64::from(s.mss_bytes),
            rate_bytes_per_s: record.rate_bytes_per_s,
            law,
            program: u32::from(record.program),
            mss_bytes: s.mss_bytes,
            srtt_us: s.srtt_us,
            min_rtt_us: s.min_rtt_us,
            delivered_pkts: s.delivered_pkts,
            lost_pkts: s.lost_pkts,
            retrans_pkts: s.retrans_pkts,
            packets_in_flight: s.packets_in_flight,
            bytes_acked: s.bytes_acked,
            bytes_retrans: s.bytes_retrans,
            ca_state: s.ca_state,
            snd_ssthresh_pkts: s.snd_ssthresh_pkts,
            pacing_rate_bytes_per_s: s.pacing_rate_bytes_per_s,
            acks: s.acks,
            reports: c.reports,
            reports_missed: c.reports_missed,
            fold_errors: c.fold_errors,
            last_fold_error: c.last_fold_error,
            law_entries: c.law_entries,
            law_cause: law_cause(c.law_cause),
            law_entered_us: c.law_entered_us,
            law_left_us: c.law_left_us,
            local_congestion: c.local_congestion,
            timeouts: c.timeouts,
            mail_applied: c.mail_applied,
            mail_applied_us,
            now_us: s.now_us,
        }
    }

    /// Of a flow that lives.
    pub fn of_flow(flow: &ccp_flow) -> Self {
        let record = ccp_record {
            flow_id: flow.flow_id,
            rate_bytes_per_s: flow.rate_bytes_per_s,
            program: flow.program as u16,
            ..Default::default()
        };
        FlowStats::new(&record, flow.law != 0, flow.mail_applied_us, &flow.stats, &flow.counts)
    }

    /// Of a flow that ended: its exit report.
    pub fn of_close(close: &ccp_close) -> Self {
        FlowStats::new(&close.record, close.record.program == 0, 0, &close.stats, &close.counts)
    }
}

/// A socket chose one of our congestion controls.
#[pyclass(frozen, get_all, module = "ccplane.base._native")]
pub struct Created {
    pub info: Py<FlowInfo>,
}

#[pymethods]
impl Created {
    #[classattr]
    const EVENT_KIND: &'static str = "created";
}

/// A flow ended, or its socket chose another congestion control.
#[pyclass(frozen, get_all, module = "ccplane.base._native")]
pub struct Closed {
    pub flow_id: u64,
    pub stats: Py<FlowStats>,
}

#[pymethods]
impl Closed {
    #[classattr]
    const EVENT_KIND: &'static str = "closed";
}

/// An extension of the datapath tells something of a flow.
#[pyclass(frozen, get_all, module = "ccplane.base._native")]
pub struct Told {
    pub flow_id: u64,
    pub now_us: u64,
    pub extension: String,
    pub octets: Py<PyBytes>,
}

#[pymethods]
impl Told {
    #[classattr]
    const EVENT_KIND: &'static str = "told";
}
