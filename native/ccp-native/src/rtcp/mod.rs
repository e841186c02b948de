//! R-TCP: the kernel's detector on the host; its rows as arrays; its congestion controls.

#[cfg(kernel)]
pub mod attached;
mod detector;
mod simulated;

use ccp_rtcp_core::replay::{Event, replay};
use ccp_rtcp_core::types::{rtcp_ack, rtcp_row};
use ccp_rtcp_core::work::{State, work};
use ccp_rtcp_core::{Options, Progress, Remote, rtcp_detector};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

#[cfg(not(kernel))]
use crate::no_kernel;
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

/// `rtcp_row`s as an array.
pub(crate) fn verdicts<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let dtype = DTYPE.get_or_try_init(py, || rows::dtype(py, &row_columns(), size_of::<rtcp_row>()))?;
    rows::as_array(py, bytes, dtype)
}

/// `rtcp_ack`s as an array.
pub(crate) fn acks<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let dtype = DTYPE.get_or_try_init(py, || rows::dtype(py, &ack_columns(), size_of::<rtcp_ack>()))?;
    rows::as_array(py, bytes, dtype)
}

/// A row of a trace: transfer start, time [us], delivered, lost [packets], minimum RTT [us].
type Row = (bool, u64, u64, u64, u32);

/// Detected and undetected at [us], bucket [bytes], rate [bytes/s], tokens [bytes], changes of {bucket, rate}.
type Found = (Option<u64>, Option<u64>, u32, u32, u32, u32);

/// The detector's state after each row.
#[pyfunction]
#[pyo3(signature = (options, mss_bytes, rows, *, in_kernel = false))]
pub fn rtcp_replay(
    py: Python<'_>,
    options: &[u8],
    mss_bytes: u16,
    rows: Vec<Row>,
    in_kernel: bool,
) -> PyResult<Vec<Found>> {
    let options = options_of(options)?;
    let mut found = Vec::with_capacity(rows.len());
    let events = rows.into_iter().map(event);
    let (mut detected_at_us, mut undetected_at_us) = (None, None);
    let seen = |now: &Progress, state: &rtcp_detector| {
        if state.detected != 0 {
            detected_at_us.get_or_insert(now.time_us);
        }
        if state.undetected != 0 {
            undetected_at_us.get_or_insert(now.time_us);
        }
        found.push((
            detected_at_us,
            undetected_at_us,
            state.bucket_bytes,
            state.rate_bytes_per_s,
            state.tokens_bytes(now.time_us),
            state.changes,
        ));
    };
    if in_kernel {
        #[cfg(not(kernel))]
        return Err(no_kernel::missing(py, "a replay in the kernel"));
        #[cfg(kernel)]
        py.detach(|| ccp_rtcp::replay::replay_in_kernel(options, mss_bytes, events, seen))
            .map_err(|e| crate::errors::raise(py, &e))?;
    } else {
        py.detach(|| replay(options, mss_bytes, events, seen));
    }
    Ok(found)
}

/// Runs synthetic ACKs through a detector that is `waiting`, `triggered` or `limited`.
#[pyfunction]
pub fn rtcp_work(py: Python<'_>, options: &[u8], state: &str, acks: u32) -> PyResult<()> {
    let (Some(options), Some(state)) = (Options::from_bytes(options), State::of(state)) else {
        return Err(PyValueError::new_err("invalid options or state of the detector"));
    };
    py.detach(|| {
        std::hint::black_box(work(options, state, acks));
    });
    Ok(())
}

/// The client of a port at an address, as `struct rtcp_remote`.
#[pyfunction]
pub fn rtcp_remote_of(py: Python<'_>, options: &[u8], address: [u8; 16], port: u16) -> PyResult<Py<PyBytes>> {
    let remote = Remote::of(address, port, &options_of(options)?);
    Ok(PyBytes::new(py, &remote.to_bytes()).unbind())
}

pub(crate) fn options_of(options: &[u8]) -> PyResult<Options> {
    Options::from_bytes(options).ok_or_else(|| PyValueError::new_err("invalid options of the detector"))
}

fn event((start, time_us, delivered_pkts, lost_pkts, min_rtt_us): Row) -> (Event, Progress) {
    let now = Progress { time_us, delivered_pkts, lost_pkts, min_rtt_us, ..Progress::default() };
    (if start { Event::Start } else { Event::Ack }, now)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rtcp_replay, module)?)?;
    module.add_function(wrap_pyfunction!(rtcp_remote_of, module)?)?;
    module.add_function(wrap_pyfunction!(rtcp_work, module)?)?;
    module.add_class::<detector::RtcpClients>()?;
    module.add_class::<detector::RtcpConnection>()?;
    module.add_class::<detector::RtcpDetector>()?;
    module.add_class::<simulated::RtcpSimulated>()?;
    module.add_class::<detector::RtcpState>()?;
    module.add_class::<detector::RtcpTransfer>()?;
    #[cfg(kernel)]
    attached::register(module)?;
    Ok(())
}
