//! `datapath._native`: the compiler of the CCP language and the eBPF datapath, for Python.

mod arrivals;
mod broker;
mod datapath;
mod emulator;
mod errors;
mod flows;
mod ioam;
mod node;
mod program;
mod report;
mod rows;
mod rtcp;
mod rtcp_attached;
mod switch;
mod trace;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What this machine can do, in the order in which to look at it.
#[pyfunction]
fn probe(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let checks = PyDict::new(py);
    for check in ccp_bpf::probe::probe() {
        let entry = PyDict::new(py);
        entry.set_item("ok", check.ok)?;
        entry.set_item("required", check.required)?;
        entry.set_item("detail", check.detail)?;
        entry.set_item("fix", if check.ok { "" } else { check.fix })?;
        checks.set_item(check.name, entry)?;
    }
    Ok(checks)
}

/// Gives up every capability of the calling thread but those to keep, or those that a running agent needs; returns
/// those left.
#[pyfunction]
#[pyo3(signature = (keep = None))]
fn drop_capabilities(py: Python<'_>, keep: Option<Vec<String>>) -> PyResult<Vec<String>> {
    ccp_bpf::probe::drop_capabilities(keep.as_deref()).map_err(|e| errors::raise(py, &e))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(program::compile, module)?)?;
    module.add_function(wrap_pyfunction!(program::verify, module)?)?;
    module.add_function(wrap_pyfunction!(probe, module)?)?;
    module.add_function(wrap_pyfunction!(drop_capabilities, module)?)?;
    module.add_function(wrap_pyfunction!(emulator::emulate, module)?)?;
    module.add_function(wrap_pyfunction!(broker::serve_broker, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_decode, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_decode_header, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_insert, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_build, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_remove, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_fill, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::int_overhead_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(ioam::ioam_work, module)?)?;
    module.add_function(wrap_pyfunction!(rtcp::rtcp_replay, module)?)?;
    module.add_function(wrap_pyfunction!(rtcp::rtcp_work, module)?)?;
    module.add_function(wrap_pyfunction!(rtcp_attached::rtcp_clients, module)?)?;
    module.add_class::<program::Program>()?;
    module.add_class::<program::Interpreter>()?;
    module.add_class::<report::Report>()?;
    module.add_class::<report::Batch>()?;
    module.add_class::<flows::FlowInfo>()?;
    module.add_class::<flows::FlowStats>()?;
    module.add_class::<flows::Created>()?;
    module.add_class::<flows::Closed>()?;
    module.add_class::<flows::LimitChange>()?;
    module.add_class::<datapath::EbpfDatapath>()?;
    module.add_class::<datapath::EbpfView>()?;
    module.add_class::<trace::TcpTrace>()?;
    module.add_class::<arrivals::TcpArrivals>()?;
    module.add_class::<ioam::IoamCapture>()?;
    module.add_class::<node::IntNode>()?;
    module.add_class::<rtcp_attached::RtcpAttached>()?;
    module.add_class::<switch::SocketSwitch>()?;
    Ok(())
}
