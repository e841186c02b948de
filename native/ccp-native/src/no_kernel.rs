//! What a build without the kernel part says when it is asked for something of it.

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
#[cfg(not(kernel))]
use pyo3::types::PyDict;
use pyo3::types::PyTuple;

use crate::errors;

/// Names that only a build with the kernel part has.
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
    "rehearse",
    "rtcp_agent_summary",
    "rtcp_forget",
    "rtcp_tables",
    "rtcp_try_load",
    "verify",
];

/// What Python calls for a name that the module has not got.
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

/// The error of whoever wants this.
pub fn missing(py: Python<'_>, what: &str) -> PyErr {
    let (why, fix) = reasons();
    let message = format!("this build of ccplane has no kernel part, to which {what} belongs");
    errors::raise_new(py, "load.no_kernel_part", &message, &why, fix)
}

/// Why it is not there, and what to do.
fn reasons() -> (String, &'static str) {
    if cfg!(target_os = "linux") {
        return (
            "it was built without the feature `kernel`".into(),
            "install clang, llvm, libelf and zlib, and run `make setup` again; or use the simulator",
        );
    }
    let why = format!("it loads programs into the kernel of Linux, and this is {}", std::env::consts::OS);
    (why, "use the simulator, or a (virtual) machine with Linux")
}

/// What a machine can do for a build without the kernel part: nothing.
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

/// What loads into this machine's kernel: no part is here to try.
#[cfg(not(kernel))]
#[pyfunction]
fn try_load() -> Vec<(String, Option<Py<PyAny>>)> {
    Vec::new()
}

/// Adds what is said to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(not(kernel))]
    {
        module.add_function(wrap_pyfunction!(probe, module)?)?;
        module.add_function(wrap_pyfunction!(try_load, module)?)?;
    }
    module.add("KERNEL_PART", PyTuple::new(module.py(), KERNEL_PART)?)?;
    // Not `add_function`, which would list it in `__all__`.
    module.setattr("__getattr__", wrap_pyfunction!(get_missing, module)?)
}
