//! The kernel part: loads programs into this machine's kernel, and observes it.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{arrivals, datapath, emulator, errors, node, program, switch, trace, trials};

/// Capabilities of this machine, in the order in which to check them.
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

/// Drops every capability of the calling thread except the given ones, or those that a running agent needs;
/// returns the remaining ones.
#[pyfunction]
#[pyo3(signature = (keep = None))]
fn drop_capabilities(py: Python<'_>, keep: Option<Vec<String>>) -> PyResult<Vec<String>> {
    ccp_bpf::probe::drop_capabilities(keep.as_deref()).map_err(|e| errors::raise(py, &e))
}

/// This process's CLOCK_MONOTONIC minus the kernel's [ns]; not 0 only in a time namespace.
#[pyfunction]
fn clock_offset_ns() -> i64 {
    ccp_bpf::clock::offset_ns()
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(program::verify, module)?)?;
    module.add_function(wrap_pyfunction!(probe, module)?)?;
    module.add_function(wrap_pyfunction!(clock_offset_ns, module)?)?;
    module.add_function(wrap_pyfunction!(trials::try_load, module)?)?;
    module.add_function(wrap_pyfunction!(drop_capabilities, module)?)?;
    module.add_function(wrap_pyfunction!(emulator::emulate, module)?)?;
    module.add_class::<datapath::EbpfDatapath>()?;
    module.add_class::<datapath::EbpfView>()?;
    module.add_class::<trace::TcpTrace>()?;
    module.add_class::<arrivals::TcpArrivals>()?;
    module.add_class::<node::IntNode>()?;
    module.add_class::<switch::SocketSwitch>()?;
    Ok(())
}
