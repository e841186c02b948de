//! R-TCP's congestion controls for ordinary sockets, and what they know of the clients.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ccp_rtcp::clients::{self, Client, Table};
use ccp_rtcp::core::Options;
use ccp_rtcp::core::types::{RTCP_END_BYTES, RTCP_END_RATE, rtcp_ack, rtcp_row};
use ccp_rtcp::{Attached, Error, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};

use crate::errors;
use crate::rows::{self, Column};

fn row_columns() -> Vec<Column> {
    use rows::column;
    vec![
        column!(rtcp_row, t_us, "u8"),
        column!(rtcp_row, netns, "u4"),
        column!(rtcp_row, remote, "(24,)u1"),
        column!(rtcp_row, verdict, "u4"),
        column!(rtcp_row, bucket_bytes, "u8"),
        column!(rtcp_row, rate_bytes_per_s, "u8"),
        column!(rtcp_row, tokens_bytes, "u8"),
        column!(rtcp_row, active_flows, "u4"),
    ]
}

fn ack_columns() -> Vec<Column> {
    use rows::column;
    vec![
        column!(rtcp_ack, t_us, "u8"),
        column!(rtcp_ack, acked_bytes, "u8"),
        column!(rtcp_ack, delivered_pkts, "u4"),
        column!(rtcp_ack, lost_pkts, "u4"),
        column!(rtcp_ack, min_rtt_us, "u4"),
        column!(rtcp_ack, srtt_us, "u4"),
        column!(rtcp_ack, prior_delivered_pkts, "u4"),
        column!(rtcp_ack, in_flight_pkts, "u4"),
        column!(rtcp_ack, starts, "?"),
        column!(rtcp_ack, app_limited, "?"),
        column!(rtcp_ack, saddr, "(16,)u1"),
        column!(rtcp_ack, daddr, "(16,)u1"),
        column!(rtcp_ack, sport, "u2"),
        column!(rtcp_ack, dport, "u2"),
    ]
}

/// How a limit was found to be gone.
fn end(number: u32) -> Option<&'static str> {
    match number {
        RTCP_END_BYTES => Some("bytes"),
        RTCP_END_RATE => Some("rate"),
        _ => None,
    }
}

fn as_dict<'py>(py: Python<'py>, client: &Client, now_us: u64) -> PyResult<Bound<'py, PyDict>> {
    let Client { netns_cookie, remote, state } = client;
    let told = PyDict::new(py);
    told.set_item("netns", state.netns)?;
    told.set_item("netns_cookie", netns_cookie)?;
    told.set_item("remote", PyBytes::new(py, &remote.octets()))?;
    told.set_item("verdict", client.verdict())?;
    told.set_item("bucket_bytes", state.detector.bucket_bytes)?;
    told.set_item("rate_bytes_per_s", state.detector.rate_bytes_per_s)?;
    told.set_item("tokens_bytes", state.detector.tokens_bytes(now_us))?;
    told.set_item("open_flows", state.open_flows)?;
    told.set_item("active_flows", state.active_flows)?;
    let segment_bytes = u64::from(state.detector.mss_bytes);
    told.set_item("delivered_bytes", state.delivered_pkts * segment_bytes)?;
    told.set_item("lost_bytes", u64::from(state.lost_pkts) * segment_bytes)?;
    told.set_item("triggered", state.detector.transfer.triggered != 0)?;
    told.set_item("found", state.detector.detected != 0)?;
    told.set_item("end", end(u32::from(state.detector.undetected)))?;
    told.set_item("last_us", state.detector.last_us())?;
    Ok(told)
}

/// Whether a table is an agent's, how many connections it had no room for, and who is in it.
type Told<'py> = (bool, u64, Vec<Bound<'py, PyDict>>);

/// What is known of each client.
#[pyfunction]
pub fn rtcp_tables(py: Python<'_>, now_us: u64, pin_dir: PathBuf) -> PyResult<Vec<Told<'_>>> {
    let tables = py.detach(|| clients::tables(&pin_dir)).map_err(|e| errors::raise(py, &e))?;
    let told = |table: Table| {
        let rows = table.clients.iter().map(|client| as_dict(py, client, now_us)).collect::<PyResult<_>>()?;
        Ok((table.of_agent, table.no_room, rows))
    };
    tables.into_iter().map(told).collect()
}

/// The congestion controls, registered while it is open.
#[pyclass(frozen, module = "ccp_base._native")]
pub struct RtcpAttached(Mutex<Option<Attached>>);

impl RtcpAttached {
    fn with<T: Send>(&self, py: Python<'_>, what: impl FnOnce(&Attached) -> Result<T> + Send) -> PyResult<T> {
        let done = py.detach(|| match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(attached) => what(attached),
            None => Err(Error::new("rtcp.closed", "these congestion controls are not attached any more")
                .fix("use it before close()")),
        });
        done.map_err(|e| errors::raise(py, &e))
    }
}

#[pymethods]
impl RtcpAttached {
    #[new]
    #[pyo3(signature = (options, *, max_clients, records = false))]
    fn new(py: Python<'_>, options: &[u8], max_clients: u32, records: bool) -> PyResult<Self> {
        let options = Options::from_bytes(options)
            .ok_or_else(|| PyValueError::new_err("these are no options of the detector"))?;
        let attached =
            py.detach(|| Attached::new(options, max_clients, records)).map_err(|e| errors::raise(py, &e))?;
        Ok(RtcpAttached(Mutex::new(Some(attached))))
    }

    #[getter]
    fn names(&self, py: Python<'_>) -> PyResult<Vec<&'static str>> {
        self.with(py, |attached| Ok(attached.names().to_vec()))
    }

    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let dtype = DTYPE.get_or_try_init(py, || rows::dtype(py, &row_columns(), size_of::<rtcp_row>()))?;
        rows::as_array(py, &self.with(py, Attached::drain)?, dtype)
    }

    fn drain_acks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let dtype = DTYPE.get_or_try_init(py, || rows::dtype(py, &ack_columns(), size_of::<rtcp_ack>()))?;
        rows::as_array(py, &self.with(py, Attached::drain_acks)?, dtype)
    }

    #[getter]
    fn dropped(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, Attached::dropped)
    }

    #[getter]
    fn no_room(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, Attached::no_room)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}
