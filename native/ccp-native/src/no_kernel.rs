//! Errors of a build without the kernel part.

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
#[cfg(not(kernel))]
use pyo3::types::PyDict;
use pyo3::types::PyTuple;

use crate::errors;

/// Names that exist only in a build with the kernel part.
const KERNEL_PART: &[&str] = &[
    "EbpfDatapath",
    "EbpfView",
    "IntNode",
    "RtcpAttached",
    "SocketSwitch",
    "TcpArrivals",
    "TcpTrace",
    "drop_capabilities",
    "emulate",
    "rtcp_agent_summary",
    "rtcp_forget",
    "rtcp_tables",
    "rtcp_try_load",
    "verify",
];

/// Called by Python for a missing name of the module.
#[pyfunction]
#[pyo3(name = "__getattr__")]
fn get_missing(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    if !KERNEL_PART.contains(&name) {
        return Err(PyAttributeError::new_err(format!(
            "module 'ccplane.base._native' has no attribute '{name}'"
        )));
    }
    Err(missing(py, name))
}

pub fn missing(py: Python<'_>, what: &str) -> PyErr {
    let (why, fix) = reasons();
    let message = format!("{what} needs the kernel part, which this build of ccplane lacks");
    errors::raise_new(py, "load.no_kernel_part", &message, &why, fix)
}

fn reasons() -> (String, &'static str) {
    if cfg!(target_os = "linux") {
        return (
            "it was built without the feature `kernel`".into(),
            "install clang, llvm, libelf and zlib, and run `make setup` again; or use the simulator",
        );
    }
    let why = format!("it loads programs into the Linux kernel, and this system is {}", std::env::consts::OS);
    (why, "use the simulator, or a (virtual) machine with Linux")
}

/// Capabilities of a machine for a build without the kernel part: none.
#[cfg(not(kernel))]
#[pyfunction]
fn probe(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let (why, fix) = reasons();
    let entry = PyDict::new(py);
    entry.set_item("ok", false)?;
    entry.set_item("required", true)?;
    entry.set_item("detail", format!("not in this build: {why}"))?;
    entry.set_item("fix", fix)?;
    let checks = PyDict::new(py);
    checks.set_item("kernel part", entry)?;
    Ok(checks)
}

/// Without the kernel part, no process compares its clock with the kernel's.
#[cfg(not(kernel))]
#[pyfunction]
fn clock_offset_ns() -> i64 {
    0
}

/// Load tests: a build without the kernel part has none.
#[cfg(not(kernel))]
#[pyfunction]
fn try_load() -> Vec<(String, Option<Py<PyAny>>)> {
    Vec::new()
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(not(kernel))]
    {
        module.add_function(wrap_pyfunction!(probe, module)?)?;
        module.add_function(wrap_pyfunction!(try_load, module)?)?;
        module.add_function(wrap_pyfunction!(clock_offset_ns, module)?)?;
    }
    module.add("KERNEL_PART", PyTuple::new(module.py(), KERNEL_PART)?)?;
    // Not `add_function`, which would list it in `__all__`.
    module.setattr("__getattr__", wrap_pyfunction!(get_missing, module)?)
}
