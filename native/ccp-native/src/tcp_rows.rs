//! Samples of TCP sockets and counts of their arrivals as NumPy arrays, from the kernel and the simulator.

use ccp_record::flow::{ARRIVALS_BINS, tcp_arrivals};
use ccp_record::row::tcp_row;
use ccp_sim::Arrived;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::rows::{self, Column};

fn sample_columns() -> Vec<Column> {
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

const BINS: &str = "(176,)u4";
const _: () = assert!(ARRIVALS_BINS == 176);

fn arrival_columns() -> Vec<Column> {
    use rows::column;
    vec![
        column!(tcp_arrivals, cookie, "u8"),
        column!(tcp_arrivals, sport, "u2"),
        column!(tcp_arrivals, dport, "u2"),
        column!(tcp_arrivals, saddr, "(16,)u1"),
        column!(tcp_arrivals, daddr, "(16,)u1"),
        column!(tcp_arrivals, segs, "u8"),
        column!(tcp_arrivals, ce_segs, "u8"),
        column!(tcp_arrivals, resent_segs, "u8"),
        column!(tcp_arrivals, elapsed_us, "u8"),
        column!(tcp_arrivals, ticks, "u8"),
        column!(tcp_arrivals, tick_us, "u4"),
        column!(tcp_arrivals, closed, "u1"),
        column!(tcp_arrivals, stamped, "u1"),
        column!(tcp_arrivals, bins, BINS),
    ]
}

/// Additional columns of the simulator.
fn arrived_columns() -> Vec<Column> {
    use rows::column;
    let at = std::mem::offset_of!(Arrived, counts);
    let of_counts = arrival_columns().into_iter().map(|(name, format, offset)| (name, format, at + offset));
    let own = [
        column!(Arrived, netns, "u4"),
        column!(Arrived, bytes_received, "u8"),
        column!(Arrived, data_in, "u8"),
        column!(Arrived, out_of_order, "u8"),
        column!(Arrived, duplicates, "u8"),
    ];
    of_counts.chain(own).collect()
}

/// Rows of `TcpTrace`, from `tcp_row`s.
pub fn samples<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let dtype = DTYPE.get_or_try_init(py, || rows::dtype(py, &sample_columns(), size_of::<tcp_row>()))?;
    rows::as_array(py, bytes, dtype)
}

/// Rows of `TcpArrivals`, from `tcp_arrivals`.
#[cfg(kernel)]
pub fn arrivals<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let dtype =
        DTYPE.get_or_try_init(py, || rows::dtype(py, &arrival_columns(), size_of::<tcp_arrivals>()))?;
    rows::as_array(py, bytes, dtype)
}

/// The simulator's rows, from `Arrived`s.
pub fn arrived<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let dtype = DTYPE.get_or_try_init(py, || rows::dtype(py, &arrived_columns(), size_of::<Arrived>()))?;
    rows::as_array(py, bytes, dtype)
}
