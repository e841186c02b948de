//! R-TCP's congestion controls for ordinary sockets, and the state of their clients.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ccp_rtcp::clients::{self, Client, Table, Whose};
use ccp_rtcp::core::types::{RTCP_END_BYTES, RTCP_END_RATE};
use ccp_rtcp::kept::{self, Kept};
use ccp_rtcp::summary::{self, Summary};
use ccp_rtcp::{Attached, Error, Result, Rule, Wanted};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::{acks, options_of, verdicts};
use crate::errors;
use crate::features::{Extension, Left};

/// How a limit was found to be lifted.
fn end(number: u32) -> Option<&'static str> {
    match number {
        RTCP_END_BYTES => Some("bytes"),
        RTCP_END_RATE => Some("rate"),
        _ => None,
    }
}

fn as_dict<'py>(py: Python<'py>, client: &Client, now_us: u64) -> PyResult<Bound<'py, PyDict>> {
    let Client { netns_cookie, remote, state } = client;
    let reported = PyDict::new(py);
    reported.set_item("netns", state.netns)?;
    reported.set_item("netns_cookie", netns_cookie)?;
    reported.set_item("remote", PyBytes::new(py, &remote.to_bytes()))?;
    reported.set_item("verdict", client.verdict())?;
    reported.set_item("bucket_bytes", state.detector.bucket_bytes)?;
    reported.set_item("rate_bytes_per_s", state.detector.rate_bytes_per_s)?;
    reported.set_item("tokens_bytes", state.detector.tokens_bytes(now_us))?;
    reported.set_item("open_flows", state.open_flows)?;
    reported.set_item("active_flows", state.active_flows)?;
    let segment_bytes = u64::from(state.detector.mss_bytes);
    reported.set_item("delivered_bytes", state.delivered_pkts * segment_bytes)?;
    reported.set_item("lost_bytes", u64::from(state.lost_pkts) * segment_bytes)?;
    reported.set_item("triggered", state.detector.transfer.triggered != 0)?;
    reported.set_item("found", state.detector.detected != 0)?;
    reported.set_item("end", end(u32::from(state.detector.undetected)))?;
    reported.set_item("last_us", state.detector.last_us())?;
    Ok(reported)
}

/// A table: its owner, its capacity, connections without room, and its clients.
type Reported<'py> = (&'static str, u32, u64, Option<Vec<Bound<'py, PyDict>>>);

pub const EXTENSION: Extension =
    Extension { name: ccp_rtcp::core::EXTENSION, object: ccp_rtcp::EXTENSION_OBJECT, open: open_left };

struct ClientsLeft(Option<kept::Left>);

fn open_left(folder: &Path) -> Result<Box<dyn Left>> {
    Ok(Box::new(ClientsLeft(kept::Left::open(folder)?)))
}

impl Left for ClientsLeft {
    fn resume(self: Box<Self>, folder: &Path) -> Result<(&'static str, usize)> {
        let kept = self.0.map_or(Ok(Kept::Nothing), |left| left.go_on(folder))?;
        kept::report_layout(folder)?;
        Ok(of_before(kept))
    }
}

/// Loads the programs for ordinary sockets and unloads them; returns the error, if any.
#[pyfunction]
pub fn rtcp_try_load(py: Python<'_>, options: &[u8]) -> PyResult<Option<Py<PyAny>>> {
    let options = options_of(options)?;
    let tried = py.detach(|| Attached::try_load(options));
    Ok(tried.err().map(|e| errors::raise(py, &e).into_value(py).into_any()))
}

/// The state of each client.
#[pyfunction]
pub fn rtcp_tables(
    py: Python<'_>,
    now_us: u64,
    pin_dir: PathBuf,
    kept_in: PathBuf,
) -> PyResult<Vec<Reported<'_>>> {
    let tables = py.detach(|| clients::tables(&pin_dir, &kept_in)).map_err(|e| errors::raise(py, &e))?;
    let reported = |table: Table| {
        let whose = match table.whose {
            Whose::Agent => "agent",
            Whose::Attach => "attach",
            Whose::Earlier => "earlier",
        };
        let rows =
            |all: Vec<Client>| all.iter().map(|client| as_dict(py, client, now_us)).collect::<PyResult<_>>();
        Ok((whose, table.max_clients, table.no_room, table.clients.map(rows).transpose()?))
    };
    tables.into_iter().map(reported).collect()
}

/// The outcome for the previous table, and its number of clients.
fn of_before(kept: Kept) -> (&'static str, usize) {
    match kept {
        Kept::Nothing => ("nothing", 0),
        Kept::Table(clients) => ("table", clients),
        Kept::Verdicts(clients) => ("verdicts", clients),
        Kept::Lost(clients) => ("lost", clients),
    }
}

fn summary_dict<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let reported = PyDict::new(py);
    reported.set_item("max_clients", summary.max_clients)?;
    reported.set_item("no_room", summary.no_room)?;
    reported.set_item("clients", summary.clients.to_vec())?;
    reported.set_item("rates", &summary.rates)?;
    reported.set_item("rates_sum", summary.rates_sum)?;
    Ok(reported)
}

/// Statistics of the table of an agent's extension.
#[pyfunction]
pub fn rtcp_agent_summary(
    py: Python<'_>,
    pin_dir: PathBuf,
    bounds_bytes_per_s: Vec<f64>,
) -> PyResult<Option<Bound<'_, PyDict>>> {
    let found = py.detach(|| summary::of_agent(&pin_dir, &bounds_bytes_per_s));
    found.map_err(|e| errors::raise(py, &e))?.map(|one| summary_dict(py, &one)).transpose()
}

/// Deletes the table pinned in a folder.
#[pyfunction]
pub fn rtcp_forget(py: Python<'_>, kept_in: PathBuf) -> PyResult<bool> {
    py.detach(|| kept::forget(&kept_in)).map_err(|e| errors::raise(py, &e))
}

/// The congestion controls, registered while the object is open.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct RtcpAttached(Mutex<Option<Attached>>);

impl RtcpAttached {
    fn with<T: Send>(&self, py: Python<'_>, what: impl FnOnce(&Attached) -> Result<T> + Send) -> PyResult<T> {
        let done = py.detach(|| match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(attached) => what(attached),
            None => Err(Error::new("rtcp.closed", "these congestion controls were detached")
                .fix("use this object before close()")),
        });
        done.map_err(|e| errors::raise(py, &e))
    }
}

#[pymethods]
impl RtcpAttached {
    #[new]
    #[pyo3(signature = (options, *, max_clients, records = false, rules_json = &b"[]"[..], keep_in = None))]
    fn new(
        py: Python<'_>,
        options: &[u8],
        max_clients: u32,
        records: bool,
        rules_json: &[u8],
        keep_in: Option<PathBuf>,
    ) -> PyResult<Self> {
        let options = options_of(options)?;
        let rules: Vec<Rule> = serde_json::from_slice(rules_json)
            .map_err(|e| PyValueError::new_err(format!("cannot parse the rules: {e}")))?;
        let wanted = Wanted { options, max_clients, records, rules, keep_in };
        let attached = py.detach(|| Attached::new(&wanted)).map_err(|e| errors::raise(py, &e))?;
        Ok(RtcpAttached(Mutex::new(Some(attached))))
    }

    #[getter]
    fn names(&self, py: Python<'_>) -> PyResult<Vec<&'static str>> {
        self.with(py, |attached| Ok(attached.names().to_vec()))
    }

    /// The outcome for the previous table, and its number of clients.
    #[getter]
    fn kept(&self, py: Python<'_>) -> PyResult<(&'static str, usize)> {
        self.with(py, |attached| Ok(of_before(attached.kept())))
    }

    /// Why the table will not outlive the object.
    #[getter]
    fn not_kept(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let why = self.with(py, |attached| Ok(attached.not_kept().cloned()))?;
        Ok(why.map(|e| errors::raise(py, &e).into_value(py).into_any()))
    }

    fn summary<'py>(&self, py: Python<'py>, bounds_bytes_per_s: Vec<f64>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.with(py, |attached| attached.summary(&bounds_bytes_per_s))?;
        summary_dict(py, &found)
    }

    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        verdicts(py, &self.with(py, Attached::drain)?)
    }

    fn drain_acks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        acks(py, &self.with(py, Attached::drain_acks)?)
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

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rtcp_agent_summary, module)?)?;
    module.add_function(wrap_pyfunction!(rtcp_forget, module)?)?;
    module.add_function(wrap_pyfunction!(rtcp_tables, module)?)?;
    module.add_function(wrap_pyfunction!(rtcp_try_load, module)?)?;
    module.add_class::<RtcpAttached>()
}
