//! Interop for Python: programs and messages of portus' wire protocol, links to agents, and flows that agents control.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ccp_lang::bytecode::{self, Bytecode};
use ccp_lang::portable::{CCPLANE, LIBCCP, portable as made_portable};
use ccp_quic::wire::{self, Field, Message, Values};
use ccp_quic::{Event, Happened, Link, Steered};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict};

use crate::errors;
use crate::program::Program;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Message>()?;
    module.add_class::<Portable>()?;
    module.add_class::<WireFlow>()?;
    module.add_class::<WireLink>()?;
    module.add_function(wrap_pyfunction!(from_bytecode, module)?)?;
    module.add_function(wrap_pyfunction!(portable, module)?)?;
    module.add_function(wrap_pyfunction!(to_bytecode, module)?)?;
    module.add_function(wrap_pyfunction!(wire_messages, module)?)?;
    module.add_function(wrap_pyfunction!(wire_values, module)?)
}

/// A program adapted to a datapath that speaks CCP's wire format; see `ccp_lang::portable::Portable`.
#[pyclass(frozen, get_all, module = "ccplane.base._native")]
pub struct Portable {
    n_events: u32,
    n_instrs: u32,
    raw: Py<PyBytes>,
    control_kinds: Vec<u8>,
    begin: Vec<(u8, u64)>,
    carried: Vec<(&'static str, u8, u64)>,
    head: Vec<(&'static str, u8)>,
    n_reports: usize,
}

/// Adapts a program to datapaths that speak CCP's wire format: libccp 1.2 with its limits, or those with the
/// limits of `from_bytecode`.
#[pyfunction]
fn portable(py: Python<'_>, program: &Program, libccp: bool) -> PyResult<Portable> {
    let made = made_portable(&program.inner, if libccp { &LIBCCP } else { &CCPLANE });
    let made = made.map_err(|e| errors::raise_lang(py, &e))?;
    Ok(Portable {
        n_events: made.n_events,
        n_instrs: made.n_instrs,
        raw: PyBytes::new(py, &made.raw).unbind(),
        control_kinds: made.control_kinds,
        begin: made.begin,
        carried: made.carried,
        head: made.head,
        n_reports: made.n_reports,
    })
}

/// Bytecode of a program, as portus agents send it: number of events, number of instructions, bytes.
#[pyfunction]
fn to_bytecode<'py>(py: Python<'py>, program: &Program) -> PyResult<(u32, u32, Bound<'py, PyBytes>)> {
    let (n_events, n_instrs, raw) =
        bytecode::encode(&program.inner).map_err(|e| errors::raise_lang(py, &e))?;
    Ok((n_events, n_instrs, PyBytes::new(py, &raw)))
}

/// Decodes a program that a portus agent sent; `with_rtt` substitutes the smoothed RTT for ACKs without a sample.
#[pyfunction]
#[pyo3(signature = (n_events, n_instrs, raw, name, origin, with_rtt = false))]
fn from_bytecode(
    py: Python<'_>,
    n_events: u32,
    n_instrs: u32,
    raw: &[u8],
    name: &str,
    origin: &str,
    with_rtt: bool,
) -> PyResult<Program> {
    let code = Bytecode { n_events, n_instrs, raw, name, origin };
    let decode = if with_rtt { bytecode::decode_with_rtt } else { bytecode::decode };
    Ok(Program { inner: decode(&code).map_err(|e| errors::raise_lang(py, &e))?, source: String::new() })
}

/// Decodes the messages of a datagram.
#[pyfunction]
fn wire_messages(py: Python<'_>, datagram: &[u8]) -> PyResult<Vec<Message>> {
    wire::messages(datagram).collect::<Result<_, _>>().map_err(|what: String| {
        let why = "it is not a message of portus, or of an unsupported version";
        let fix = "use an agent built with portus 0.9, whose messages ccplane is tested with";
        errors::raise_new(py, "wire.message", &what, why, fix)
    })
}

/// New values by register name of `from_bytecode`.
#[pyfunction]
fn wire_values<'py>(py: Python<'py>, fields: Vec<Field>) -> PyResult<Bound<'py, PyDict>> {
    let values = Values::of(&fields).map_err(|what| {
        let why = "agents can set only control registers, window and rate";
        errors::raise_new(py, "wire.read_only", &what, why, "declare a control register in the program")
    })?;
    values.named().into_py_dict(py)
}

/// A link to an agent; see `ccp_quic::Link`. Waiting for its lock releases the GIL, because events are
/// emitted under the lock.
#[pyclass(frozen, module = "ccplane.base._native")]
struct WireLink(Arc<Link>);

#[pymethods]
impl WireLink {
    #[new]
    #[pyo3(signature = (agent, received, own = None))]
    fn new(py: Python<'_>, agent: PathBuf, received: Py<PyAny>, own: Option<PathBuf>) -> PyResult<Self> {
        let own = own.unwrap_or_else(|| Link::alongside(&agent, "aioquic"));
        let listener = move |_: &Path, event: &Event<'_>| {
            let is_done = |py: Python<'_>| {
                let done = match event {
                    Event::Came { flows } => received.call1(py, ("came", *flows)),
                    Event::Gone { why, .. } => received.call1(py, ("gone", *why)),
                    Event::Refused { why } => received.call1(py, ("refused", *why)),
                    Event::Datagram(raw) => received.call1(py, ("datagram", PyBytes::new(py, raw))),
                };
                done.and_then(|done| done.is_truthy(py)).unwrap_or_else(|error| {
                    error.write_unraisable(py, None);
                    true
                })
            };
            Python::try_attach(is_done).unwrap_or(true)
        };
        Ok(WireLink(py.detach(|| Link::with(&agent, own, Box::new(listener)))?))
    }

    /// Announces a flow between two ends, each an address and a port; returns its number.
    fn announce(
        &self,
        py: Python<'_>,
        ends: [(IpAddr, u16); 2],
        algorithm: &str,
        window_bytes: u64,
        mss_bytes: u16,
    ) -> u32 {
        let [local, peer] = ends.map(|(address, port)| SocketAddr::new(address, port));
        py.detach(|| self.0.announce(Some((local, peer)), algorithm, window_bytes, mss_bytes))
    }

    fn measured(&self, py: Python<'_>, flow: u32, program: u32, fields: Vec<u64>) {
        py.detach(|| self.0.measured(flow, program, &fields));
    }

    fn remove(&self, py: Python<'_>, flow: u32) {
        py.detach(|| self.0.remove(flow));
    }

    /// Whether there is an agent.
    #[getter]
    fn connected(&self) -> bool {
        self.0.agent().is_some()
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// A connection of a QUIC library that an agent may control; see `ccp_quic::Steered`. Times are seconds from
/// an arbitrary zero.
#[pyclass(module = "ccplane.base._native")]
struct WireFlow {
    steered: Option<Steered>,
    began: Instant,
    began_s: f64,
}

impl WireFlow {
    fn at(&self, now_s: f64) -> Instant {
        self.began + Duration::from_secs_f64((now_s - self.began_s).max(0.0))
    }

    fn with<T: Send>(&mut self, py: Python<'_>, does: impl FnOnce(&mut Steered) -> T + Send) -> T {
        let steered = self.steered.as_mut().expect("only drop takes it");
        py.detach(|| does(steered))
    }
}

#[pymethods]
impl WireFlow {
    #[new]
    fn new(
        py: Python<'_>,
        link: &WireLink,
        now_s: f64,
        algorithm: &str,
        window_bytes: u64,
        mss_bytes: u16,
    ) -> Self {
        let mut steered = Steered::new(Arc::clone(&link.0), None, algorithm, window_bytes, mss_bytes);
        py.detach(|| steered.announce());
        WireFlow { steered: Some(steered), began: Instant::now(), began_s: now_s }
    }

    #[getter]
    fn number(&self) -> u32 {
        self.steered.as_ref().map_or(0, Steered::number)
    }

    #[getter]
    fn is_steered(&self) -> bool {
        self.steered.as_ref().is_some_and(Steered::is_steered)
    }

    /// Applies the agent's messages; returns whether its program controls the connection.
    fn receive(&mut self, py: Python<'_>, now_s: f64, window_bytes: u64) -> bool {
        let now = self.at(now_s);
        self.with(py, |steered| {
            steered.receive(now, window_bytes);
            steered.is_steered()
        })
    }

    fn sent(&mut self, py: Python<'_>, now_s: f64, bytes: u64) {
        let now = self.at(now_s);
        self.with(py, |steered| steered.sent(now, bytes));
    }

    fn acked(&mut self, py: Python<'_>, sent_s: f64, bytes: u64) {
        let sent = self.at(sent_s);
        self.with(py, |steered| steered.acked(sent, bytes));
    }

    fn ack_ended(&mut self, py: Python<'_>, now_s: f64, in_flight_bytes: u64, is_app_limited: bool) {
        let now = self.at(now_s);
        self.with(py, |steered| {
            steered.is_app_limited = is_app_limited;
            steered.ack_ended(now, in_flight_bytes);
        });
    }

    #[pyo3(signature = (now_s, *, lost_bytes = 0, lost_pkts = 0, was_timeout = false))]
    fn lost(&mut self, py: Python<'_>, now_s: f64, lost_bytes: u64, lost_pkts: u64, was_timeout: bool) {
        let now = self.at(now_s);
        let happened = Happened { lost_bytes, lost_pkts, was_timeout, ..Happened::default() };
        self.with(py, |steered| steered.lost(now, happened));
    }

    /// Records the window for a new agent [bytes]; returns the program's window, if one controls the connection.
    fn settle(&mut self, py: Python<'_>, window_bytes: u64, srtt_s: f64) -> Option<u64> {
        self.with(py, |steered| {
            let wanted = steered.window_bytes(Duration::from_secs_f64(srtt_s));
            steered.note(wanted.unwrap_or(window_bytes));
            wanted
        })
    }
}

impl Drop for WireFlow {
    fn drop(&mut self) {
        let steered = self.steered.take();
        // The link's lock may be held by a thread that waits for the GIL.
        Python::try_attach(|py| py.detach(|| drop(steered)));
    }
}
