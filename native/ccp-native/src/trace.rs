//! `TcpTrace`: samples of the kernel's TCP sockets as NumPy arrays.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ccp_trace::row::tcp_row;
use ccp_trace::{Options, Trace};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors;
use crate::rows::{self, Column};

const RING_BYTES: u32 = 4 << 20;

fn columns() -> Vec<Column> {
    use rows::column;
    vec![
        column!(tcp_row, t_us, "u8"),
        column!(tcp_row, cookie, "u8"),
        column!(tcp_row, netns, "u4"),
        column!(tcp_row, family, "u1"),
        column!(tcp_row, sport, "u2"),
        column!(tcp_row, dport, "u2"),
        column!(tcp_row, saddr, "(16,)u1"),
        column!(tcp_row, daddr, "(16,)u1"),
        column!(tcp_row, congestion, "S16"),
        column!(tcp_row, state, "u1"),
        column!(tcp_row, ca_state, "u1"),
        column!(tcp_row, cwnd_bytes, "u8"),
        column!(tcp_row, ssthresh_bytes, "u8"),
        column!(tcp_row, srtt_us, "u4"),
        column!(tcp_row, min_rtt_us, "u4"),
        column!(tcp_row, rtt_us, "u4"),
        column!(tcp_row, mss_bytes, "u4"),
        column!(tcp_row, pacing_rate_bytes_per_s, "u8"),
        column!(tcp_row, delivered_pkts, "u8"),
        column!(tcp_row, delivered_ce, "u4"),
        column!(tcp_row, lost_pkts, "u8"),
        column!(tcp_row, retrans_pkts, "u8"),
        column!(tcp_row, bytes_acked, "u8"),
        column!(tcp_row, bytes_received, "u8"),
        column!(tcp_row, bytes_sent, "u8"),
        column!(tcp_row, bytes_retrans, "u8"),
        column!(tcp_row, bytes_in_flight, "u8"),
        column!(tcp_row, app_limited, "u1"),
    ]
}

fn as_array<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let dtype = DTYPE.get_or_try_init(py, || rows::dtype(py, &columns(), size_of::<tcp_row>()))?;
    rows::as_array(py, bytes, dtype)
}

struct State {
    trace: Option<Trace>,
    /// As it was when the trace was closed.
    dropped: u64,
}

/// Samples of TCP sockets, taken by the kernel.
#[pyclass(frozen, module = "datapath._native")]
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
            errors::raise_new(py, "trace.closed", "the trace is closed", "its rows went with it", fix)
        })?;
        as_array(py, &rows.map_err(|e| errors::raise(py, &e))?)
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
