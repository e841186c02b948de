//! Flows as Python sees them.

use std::net::Ipv6Addr;

use ::ccp_record::intf::{CCP_ECN_ACCECN, CCP_ECN_NONE, CCP_ECN_RFC3168, ccp_close, ccp_flow, ccp_flow_info};
use ::ccp_record::{COUNTERS, FALLBACK_CAUSES, Fact, PRIMITIVES, REPORT_FLAGS, REPORT_HEAD, TOTALS};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// What is known about a flow from its start.
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
    ecn_mode: &'static str,
}

/// Text of an address; IPv4-mapped ones as IPv4.
fn address(bytes: [u8; 16]) -> String {
    let v6 = Ipv6Addr::from(bytes);
    v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string())
}

fn ecn_mode(info: &ccp_flow_info) -> &'static str {
    match u32::from(info.ecn_mode) {
        CCP_ECN_RFC3168 => "rfc3168",
        CCP_ECN_ACCECN => "accecn",
        _ => "none",
    }
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
            ecn_ok: u32::from(info.ecn_mode) != CCP_ECN_NONE,
            ecn_mode: ecn_mode(info),
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

/// Totals and state of one flow, as described in `intf.h` for `ccp_flow`, `ccp_stats` and `ccp_counts`.
mod stats {
    use super::*;

    include!(concat!(env!("OUT_DIR"), "/flow_stats.rs"));
}

pub use stats::FlowStats;

impl FlowStats {
    /// For an ended flow, from its final record.
    pub fn of_close(close: &ccp_close) -> Self {
        let record = &close.record;
        FlowStats::of_flow(&ccp_flow {
            flow_id: record.flow_id,
            fallback: u32::from(record.program == 0),
            program: u32::from(record.program),
            rate_bytes_per_s: record.rate_bytes_per_s,
            stats: close.stats,
            counts: close.counts,
            ..Default::default()
        })
    }
}

/// Descriptions from the comments of `intf.h`: `(name, type, unit, tag, doc)` by subject.
#[pyfunction]
pub fn facts<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let subjects: [(&str, &[Fact]); 6] = [
        ("primitives", &PRIMITIVES),
        ("totals", &TOTALS),
        ("report_head", &REPORT_HEAD),
        ("report_flags", &REPORT_FLAGS),
        ("fallback_causes", &FALLBACK_CAUSES),
        ("counters", &COUNTERS),
    ];
    let facts = PyDict::new(py);
    for (subject, rows) in subjects {
        let rows: Vec<_> = rows.iter().map(|f| (f.name, f.kind, f.unit, f.tag, f.doc)).collect();
        facts.set_item(subject, rows)?;
    }
    Ok(facts)
}

/// A socket chose one of ccplane's congestion controls.
#[pyclass(frozen, get_all, module = "ccplane.base._native")]
pub struct Created {
    pub info: Py<FlowInfo>,
    pub flow_id: u64,
    /// Time of the announcement, which the kernel repeats until the agent answers.
    pub now_us: u64,
}

#[pymethods]
impl Created {
    #[classattr]
    const EVENT_KIND: u8 = 1;
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
    const EVENT_KIND: u8 = 2;
}

/// A message of an extension of the datapath about a flow.
#[pyclass(frozen, get_all, module = "ccplane.base._native")]
pub struct Reported {
    pub flow_id: u64,
    pub now_us: u64,
    pub extension: String,
    pub raw: Py<PyBytes>,
}

#[pymethods]
impl Reported {
    #[classattr]
    const EVENT_KIND: u8 = 3;
}
