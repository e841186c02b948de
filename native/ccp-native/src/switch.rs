//! `SocketSwitch`: sets congestion controls of ordinary sockets by rules.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ccp_switch::shared::switch_row;
use ccp_switch::{Error, Result, Rule, Switch};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors;
use crate::rows::{self, Column};

fn columns() -> Vec<Column> {
    use rows::column;
    vec![
        column!(switch_row, t_us, "u8"),
        column!(switch_row, saddr, "(16,)u1"),
        column!(switch_row, daddr, "(16,)u1"),
        column!(switch_row, sport, "u2"),
        column!(switch_row, dport, "u2"),
        column!(switch_row, version, "u4"),
        column!(switch_row, rule, "u4"),
        column!(switch_row, error, "i4"),
        column!(switch_row, what, "u4"),
        column!(switch_row, before, "S16"),
        column!(switch_row, after, "S16"),
    ]
}

fn as_array<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let dtype = DTYPE.get_or_try_init(py, || rows::dtype(py, &columns(), size_of::<switch_row>()))?;
    rows::as_array(py, bytes, dtype)
}

/// The programs that switch sockets, attached while the object is open.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct SocketSwitch(Mutex<Option<Switch>>);

impl SocketSwitch {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut Switch) -> Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(switch) => what(switch),
            None => {
                Err(Error::new("switch.closed", "the switch is closed").fix("use the switch before close()"))
            }
        });
        done.map_err(|e| errors::raise(py, &e))
    }
}

#[pymethods]
impl SocketSwitch {
    #[new]
    fn new(py: Python<'_>, cgroup: PathBuf, netns_cookie: u64) -> PyResult<Self> {
        let switch =
            py.detach(|| Switch::attach(&cgroup, netns_cookie)).map_err(|e| errors::raise(py, &e))?;
        Ok(SocketSwitch(Mutex::new(Some(switch))))
    }

    fn set_rules(&self, py: Python<'_>, rules_json: &[u8]) -> PyResult<u32> {
        let rules: Vec<Rule> = serde_json::from_slice(rules_json)
            .map_err(|e| Error::new("switch.bad_rule", "cannot parse the rules").why(e))
            .map_err(|e| errors::raise(py, &e))?;
        self.with(py, |switch| switch.set_rules(&rules))
    }

    fn switch_all(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |switch| switch.pass())
    }

    fn restore_all(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Switch::restore)
    }

    fn leave_all(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Switch::leave)
    }

    fn renew(&self, py: Python<'_>, until_ns: u64) -> PyResult<()> {
        self.with(py, |switch| switch.renew(until_ns))
    }

    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        as_array(py, &self.with(py, |switch| switch.drain())?)
    }

    #[getter]
    fn dropped(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |switch| switch.dropped())
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}
