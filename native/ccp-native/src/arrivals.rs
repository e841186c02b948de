//! `TcpArrivals`: what arrives on TCP sockets, counted in the kernel, as NumPy arrays.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ccp_trace::{Arrivals, Watched, bin_bounds_us};
use pyo3::prelude::*;

use crate::errors;
use crate::tcp_rows::arrivals;

const MINIMUM_US: u64 = 15_000_000;
const MAX_FLOWS: u32 = 16_384;

/// Segments, CE marks, retransmissions and one-way delays of one namespace's TCP sockets, counted by the kernel.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct TcpArrivals {
    arrivals: Mutex<Option<Arrivals>>,
}

impl TcpArrivals {
    fn lock(&self) -> MutexGuard<'_, Option<Arrivals>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl TcpArrivals {
    #[new]
    #[pyo3(signature = (netns_inode, minimum_us = MINIMUM_US, max_flows = MAX_FLOWS))]
    fn new(py: Python<'_>, netns_inode: u32, minimum_us: u64, max_flows: u32) -> PyResult<Self> {
        let watched = Watched { netns_inode, minimum_us, max_flows };
        let arrivals = py.detach(|| Arrivals::attach(&watched)).map_err(|e| errors::raise(py, &e))?;
        Ok(TcpArrivals { arrivals: Mutex::new(Some(arrivals)) })
    }

    #[staticmethod]
    fn bin_bounds_us() -> Vec<u64> {
        bin_bounds_us()
    }

    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = py.detach(|| self.lock().as_mut().map(Arrivals::drain)).ok_or_else(|| closed(py))?;
        arrivals(py, &rows.map_err(|e| errors::raise(py, &e))?)
    }

    #[getter]
    fn dropped(&self, py: Python<'_>) -> PyResult<u64> {
        let dropped = self.lock().as_ref().map(Arrivals::dropped).ok_or_else(|| closed(py))?;
        dropped.map_err(|e| errors::raise(py, &e))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.lock().take()));
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.close(py);
    }
}

fn closed(py: Python<'_>) -> PyErr {
    let fix = "read it before close(), or inside the `with` block";
    errors::raise_new(
        py,
        "trace.closed",
        "the counter of arrivals is closed",
        "its counts were discarded",
        fix,
    )
}
