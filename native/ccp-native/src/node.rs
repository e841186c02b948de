//! `IntNode`: a node of in-band telemetry on a device.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ccp_node::{Counters, Error, Node, NodeSpec, Queue, Radio, Result, Waiting};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::de::DeserializeOwned;

use crate::errors;

struct State {
    node: Option<Node>,
    /// Values when the node was closed.
    counters: Counters,
}

/// A node, attached while it is open.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct IntNode(Mutex<State>);

impl IntNode {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut State) -> Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)));
        done.map_err(|e| errors::raise(py, &e))
    }
}

fn parsed<T: DeserializeOwned>(json: &[u8]) -> Result<T> {
    serde_json::from_slice(json)
        .map_err(|e| Error::new("int.bad_spec", "cannot parse the node's settings").why(e))
}

#[pymethods]
impl IntNode {
    #[new]
    fn new(
        py: Python<'_>,
        spec_json: &[u8],
        summaries_fd: i32,
        records_path: Option<PathBuf>,
    ) -> PyResult<Self> {
        if summaries_fd < 0 {
            return Err(pyo3::exceptions::PyValueError::new_err(format!(
                "{summaries_fd} is not a file descriptor"
            )));
        }
        // SAFETY: not -1, as checked; the caller keeps it open meanwhile, and it is duplicated here.
        let summaries = unsafe { BorrowedFd::borrow_raw(summaries_fd) }.try_clone_to_owned()?;
        let attach = || Node::attach(&parsed::<NodeSpec>(spec_json)?, summaries, records_path.as_deref());
        let node = py.detach(attach).map_err(|e| errors::raise(py, &e))?;
        Ok(IntNode(Mutex::new(State { node: Some(node), counters: Counters::default() })))
    }

    fn set_queue(&self, py: Python<'_>, queue_json: &[u8]) -> PyResult<()> {
        self.with(py, |state| {
            let queue = parsed::<Queue>(queue_json)?;
            state.node.as_ref().map_or(Ok(()), |node| node.set_queue(&queue))
        })
    }

    fn set_radios(&self, py: Python<'_>, radios_json: &[u8]) -> PyResult<()> {
        self.with(py, |state| {
            let radios = parsed::<Vec<Radio>>(radios_json)?;
            state.node.as_ref().map_or(Ok(()), |node| node.set_radios(&radios))
        })
    }

    fn set_waiting(&self, py: Python<'_>, waiting_json: &[u8]) -> PyResult<()> {
        self.with(py, |state| {
            let waiting = parsed::<Vec<Waiting>>(waiting_json)?;
            state.node.as_ref().map_or(Ok(()), |node| node.set_waiting(&waiting))
        })
    }

    fn came_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| state.node.as_ref().map_or(Ok(0), Node::came_ns))
    }

    /// Counters, as JSON.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let counters =
            self.with(py, |state| state.node.as_ref().map_or(Ok(state.counters), Node::counters))?;
        let json = serde_json::to_vec(&counters)
            .map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))?;
        Ok(PyBytes::new(py, &json))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            let Some(mut node) = state.node.take() else { return Ok(()) };
            let closed = node.close();
            state.counters = node.counters()?;
            closed
        })
    }
}
