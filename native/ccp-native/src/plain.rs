//! `PlainCubic`: the kernel's CUBIC as a congestion control in BPF, for benchmarks.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::errors;

/// The congestion control, registered while it is open.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct PlainCubic {
    #[pyo3(get)]
    name: &'static str,
    registered: Mutex<Option<ccp_bpf::PlainCubic>>,
}

#[pymethods]
impl PlainCubic {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let registered = py.detach(ccp_bpf::PlainCubic::new).map_err(|e| errors::raise(py, &e))?;
        Ok(PlainCubic { name: registered.name(), registered: Mutex::new(Some(registered)) })
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.registered.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}
