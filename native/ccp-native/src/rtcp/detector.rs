//! R-TCP's detector and its clients, event by event.

use ccp_rtcp_core::types::{minmax, minmax__bindgen_ty_1, sock};
use ccp_rtcp_core::{Clients, Connection, Detector, Options, Progress, Socket, rtcp_detector};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::options_of;

/// Time [us], delivered, lost [packets], minimum RTT [us].
type Counters = (u64, u64, u64, u32);

fn progress((time_us, delivered_pkts, lost_pkts, min_rtt_us): Counters) -> Progress {
    Progress { time_us, delivered_pkts, lost_pkts, min_rtt_us, ..Progress::default() }
}

/// A detector's state.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct RtcpState(rtcp_detector);

#[pymethods]
impl RtcpState {
    #[getter]
    fn limited(&self) -> bool {
        self.0.limited != 0
    }

    #[getter]
    fn found(&self) -> bool {
        self.0.detected != 0
    }

    #[getter]
    fn is_undecided(&self) -> bool {
        self.0.transfer.triggered != 0 && self.0.detected == 0
    }

    #[getter]
    fn bucket_bytes(&self) -> u32 {
        self.0.bucket_bytes
    }

    #[getter]
    fn rate_bytes_per_s(&self) -> u32 {
        self.0.rate_bytes_per_s
    }

    /// Start of the last transfer.
    #[getter]
    fn started_at_us(&self) -> u64 {
        self.0.transfer.origin_us
    }

    #[getter]
    fn triggered(&self) -> bool {
        self.0.transfer.triggered != 0
    }

    fn tokens_bytes(&self, now_us: u64) -> u32 {
        self.0.tokens_bytes(now_us)
    }
}

/// A transfer and its outcome.
#[pyclass(frozen, get_all, module = "ccplane.base._native")]
#[derive(Clone)]
pub struct RtcpTransfer {
    started_at_us: u64,
    triggered_at_us: Option<u64>,
    detected_at_us: Option<u64>,
    undetected_at_us: Option<u64>,
    before_bytes_per_s: u32,
    bucket_bytes: u32,
    rate_bytes_per_s: u32,
}

/// The detector of one flow.
#[pyclass(module = "ccplane.base._native")]
pub struct RtcpDetector {
    detector: Detector,
    transfers: Vec<RtcpTransfer>,
    #[pyo3(get)]
    detected_at_us: Option<u64>,
    #[pyo3(get)]
    undetected_at_us: Option<u64>,
}

impl RtcpDetector {
    /// Records the times of changes.
    fn note(&mut self, now_us: u64) {
        let state = self.detector.state();
        let (transfer, line) = (&state.transfer, &state.candidates.line);
        let happened = |flag: u8| (flag != 0).then_some(now_us);
        if self.transfers.last().is_none_or(|last| last.started_at_us != transfer.origin_us) {
            self.transfers.push(RtcpTransfer {
                started_at_us: transfer.origin_us,
                triggered_at_us: None,
                detected_at_us: None,
                undetected_at_us: None,
                before_bytes_per_s: 0,
                bucket_bytes: 0,
                rate_bytes_per_s: 0,
            });
        }
        let ends = state.undetected != 0 && self.undetected_at_us.is_none();
        self.detected_at_us = self.detected_at_us.or(happened(state.detected));
        self.undetected_at_us = self.undetected_at_us.or(happened(state.undetected));
        let Some(last) = self.transfers.last_mut() else { return };
        last.triggered_at_us = last.triggered_at_us.or(happened(transfer.triggered));
        last.detected_at_us = last.detected_at_us.or(happened(transfer.detected));
        if ends {
            last.undetected_at_us = Some(now_us);
        }
        if transfer.triggered != 0 {
            last.before_bytes_per_s = transfer.before_bytes_per_s;
            (last.bucket_bytes, last.rate_bytes_per_s) = (line.bucket_bytes, line.rate_bytes_per_s);
        }
    }
}

#[pymethods]
impl RtcpDetector {
    #[new]
    fn new(options: &[u8], mss_bytes: u16) -> PyResult<Self> {
        let detector = Detector::new(options_of(options)?, mss_bytes);
        Ok(Self { detector, transfers: vec![], detected_at_us: None, undetected_at_us: None })
    }

    /// Begins a transfer: data is sent after the application had none, with nothing in flight.
    fn start(&mut self, now: Counters) {
        self.detector.start(&progress(now));
        self.note(now.0);
    }

    /// Handles an ACK.
    fn ack(&mut self, now: Counters) {
        self.detector.ack(&progress(now));
        self.note(now.0);
    }

    #[getter]
    fn limited(&self) -> bool {
        self.detector.state().limited != 0
    }

    #[getter]
    fn bucket_bytes(&self) -> u32 {
        self.detector.state().bucket_bytes
    }

    #[getter]
    fn rate_bytes_per_s(&self) -> u32 {
        self.detector.state().rate_bytes_per_s
    }

    #[getter]
    fn changes(&self) -> u32 {
        self.detector.state().changes
    }

    #[getter]
    fn transfers(&self) -> Vec<RtcpTransfer> {
        self.transfers.clone()
    }

    /// The last transfer; None before the first.
    #[getter]
    fn transfer(&self) -> Option<RtcpTransfer> {
        self.transfers.last().cloned()
    }

    fn tokens_bytes(&self, now_us: u64) -> u32 {
        self.detector.tokens_bytes(now_us)
    }
}

/// Detectors of clients, shared by all connections to a client.
#[pyclass(module = "ccplane.base._native")]
pub struct RtcpClients {
    clients: Clients,
    options: Options,
    mss_bytes: u32,
}

impl RtcpClients {
    fn socket(&self, ends: sock, now: Counters, is_idle: bool) -> Socket {
        let (tcp_mstamp, delivered_pkts, lost_pkts, min_rtt_us) = now;
        Socket {
            sk: ends,
            tcp_mstamp,
            write_seq: u64::from(!is_idle),
            delivered: delivered_pkts as u32,
            lost: lost_pkts as u32,
            mss_cache: self.mss_bytes,
            rtt_min: minmax { s: [minmax__bindgen_ty_1 { v: min_rtt_us }] },
            ..Socket::default()
        }
    }
}

#[pymethods]
impl RtcpClients {
    #[new]
    fn new(options: &[u8], mss_bytes: u32) -> PyResult<Self> {
        let options = Options { observe: 1, ..options_of(options)? };
        Ok(Self { clients: Clients::default(), options, mss_bytes })
    }

    fn __len__(&self) -> usize {
        self.clients.len()
    }

    /// Begins a connection to a port of an address.
    fn open(slf: &Bound<'_, Self>, address: [u8; 16], port: u16, now: Counters) -> RtcpConnection {
        let ends = sock { netns: 0, dport: port, daddr: address };
        let mut all = slf.borrow_mut();
        let (socket, options) = (all.socket(ends, now, true), all.options);
        let connection = Some(all.clients.begin(socket, &options));
        RtcpConnection { clients: slf.clone().unbind(), ends, connection }
    }
}

/// A connection to a client.
#[pyclass(module = "ccplane.base._native")]
pub struct RtcpConnection {
    clients: Py<RtcpClients>,
    ends: sock,
    connection: Option<Connection>,
}

impl RtcpConnection {
    fn open(&mut self) -> PyResult<&mut Connection> {
        self.connection.as_mut().ok_or_else(|| PyValueError::new_err("this connection is closed"))
    }
}

#[pymethods]
impl RtcpConnection {
    /// Sending resumes after the connection had no data.
    fn start(&mut self, py: Python<'_>, now: Counters) -> PyResult<()> {
        let mut all = self.clients.clone_ref(py).into_bound(py).borrow_mut();
        let (socket, options) = (all.socket(self.ends, now, false), all.options);
        all.clients.start(self.open()?, socket, &options);
        Ok(())
    }

    /// Handles an ACK; `idle`: all data is acknowledged.
    #[pyo3(signature = (now, *, idle = false))]
    fn ack(&mut self, py: Python<'_>, now: Counters, idle: bool) -> PyResult<()> {
        let mut all = self.clients.clone_ref(py).into_bound(py).borrow_mut();
        let (socket, options) = (all.socket(self.ends, now, idle), all.options);
        all.clients.ack(self.open()?, socket, &options);
        Ok(())
    }

    /// Ends the connection.
    fn close(&mut self, py: Python<'_>, now: Counters) -> PyResult<()> {
        self.open()?;
        let Some(connection) = self.connection.take() else { return Ok(()) };
        let mut all = self.clients.clone_ref(py).into_bound(py).borrow_mut();
        let (socket, options) = (all.socket(self.ends, now, true), all.options);
        all.clients.leave(connection, socket, &options);
        Ok(())
    }

    /// State of its client's detector.
    #[getter]
    fn detector(&mut self, py: Python<'_>) -> PyResult<Option<RtcpState>> {
        let all = self.clients.clone_ref(py).into_bound(py);
        let connection = self.open()?;
        Ok(all.borrow().clients.detector(connection).map(RtcpState))
    }

    /// The client, as `struct rtcp_remote`.
    #[getter]
    fn remote(&mut self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        Ok(PyBytes::new(py, &self.open()?.remote().to_bytes()).unbind())
    }
}
