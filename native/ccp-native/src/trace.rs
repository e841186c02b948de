//! `TcpTrace`: samples of the kernel's TCP sockets as NumPy arrays.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ccp_trace::{Options, Trace};
use pyo3::prelude::*;

use crate::errors;
use crate::tcp_rows::samples;

const RING_BYTES: u32 = 4 << 20;

struct State {
    trace: Option<Trace>,
    /// Value when the trace was closed.
    dropped: u64,
}

/// Samples of TCP sockets, taken by the kernel.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct TcpTrace {
    state: Mutex<State>,
}

impl TcpTrace {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl TcpTrace {
    #[new]
    #[pyo3(signature = (interval_us, netns_inodes = None, ring_bytes = RING_BYTES))]
    fn new(
        py: Python<'_>,
        interval_us: u64,
        netns_inodes: Option<Vec<u32>>,
        ring_bytes: u32,
    ) -> PyResult<Self> {
        let options = Options { interval_us, netns_inodes, ring_bytes };
        let trace = py.detach(|| Trace::attach(&options)).map_err(|e| errors::raise(py, &e))?;
        Ok(TcpTrace { state: Mutex::new(State { trace: Some(trace), dropped: 0 }) })
    }

    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = py.detach(|| self.lock().trace.as_ref().map(Trace::drain));
        let rows = rows.ok_or_else(|| {
            let fix = "drain it before close(), or inside the `with` block";
            errors::raise_new(py, "trace.closed", "the trace is closed", "its rows were discarded", fix)
        })?;
        samples(py, &rows.map_err(|e| errors::raise(py, &e))?)
    }

    #[getter]
    fn dropped(&self, py: Python<'_>) -> PyResult<u64> {
        let state = self.lock();
        state.trace.as_ref().map_or(Ok(state.dropped), Trace::dropped).map_err(|e| errors::raise(py, &e))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| {
            let mut state = self.lock();
            let Some(trace) = state.trace.take() else {
                return Ok(());
            };
            state.dropped = trace.dropped()?;
            Ok(())
        });
        closed.map_err(|e| errors::raise(py, &e))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }
}
