//! `Datapath`: the Python interface common to all datapaths.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ccp_error::Error;
use ccp_record::{Records, Update};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::flows::{FlowInfo, FlowStats};
use crate::program::Program;
use crate::programs::{Many, Messages, Programs, given, lock, messages_of, no_program};
use crate::report::{Answered, Batch, Installed, Names};

/// A datapath implementation. Errors become Python exceptions only after a method has returned and released
/// its locks: creating them runs Python code, which may wait for another thread.
pub trait Kind: Send + Sync {
    fn adopted(&self) -> bool;
    fn register(&self, cc_name: &str, needs_ecn: bool) -> Result<(), Error>;
    fn unregister(&self, cc_name: &str) -> Result<(), Error>;
    fn registered(&self) -> Result<Vec<String>, Error>;
    fn extend(&self, name: &str, object: Option<&[u8]>) -> Result<(), Error>;
    fn install(&self, program: &ccp_lang::Program) -> Result<u32, Error>;
    fn uninstall(&self, handle: u32) -> Result<(), Error>;
    fn poll(&self, timeout_ms: u64) -> (Records, Arc<Names>);
    fn wake(&self);
    fn update(&self, flow_id: u64, update: &Update<'_>) -> Result<bool, Error>;
    fn answered(&self, flow_id: u64, report_us: u64);
    fn flows(&self) -> Result<Vec<FlowInfo>, Error>;
    fn stats(&self, flow_id: u64) -> Option<FlowStats>;
    fn all_stats(&self) -> Vec<FlowStats>;
    fn counters(&self) -> HashMap<&'static str, u64>;
    fn heartbeat(&self);
    fn close(&self) -> Result<(), Error>;
    fn leave(&self) -> Result<(), Error>;
}

/// A datapath owned by this process: `ccplane.datapath.protocol.Datapath`.
#[pyclass(frozen, subclass, module = "ccplane.base._native")]
pub struct Datapath {
    kind: Arc<dyn Kind>,
    programs: Mutex<Programs>,
}

impl Datapath {
    pub fn new(kind: Arc<dyn Kind>) -> Self {
        Datapath { kind, programs: Mutex::default() }
    }

    /// Runs something without the GIL.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&dyn Kind) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| call(&*self.kind)).map_err(|e| errors::raise(py, &e))
    }
}

#[pymethods]
impl Datapath {
    #[getter]
    fn adopted(&self) -> bool {
        self.kind.adopted()
    }

    /// Registers a congestion-control name for new sockets.
    #[pyo3(signature = (cc_name, needs_ecn = false))]
    fn register(&self, py: Python<'_>, cc_name: &str, needs_ecn: bool) -> PyResult<()> {
        self.call(py, |kind| kind.register(cc_name, needs_ecn))
    }

    fn unregister(&self, py: Python<'_>, cc_name: &str) -> PyResult<()> {
        self.call(py, |kind| kind.unregister(cc_name))
    }

    fn registered(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.call(py, |kind| kind.registered())
    }

    /// Loads an extension unless it is loaded: one shipped with ccplane, or an object.
    #[pyo3(signature = (name, object = None))]
    fn extend(&self, py: Python<'_>, name: &str, object: Option<Vec<u8>>) -> PyResult<()> {
        self.call(py, |kind| kind.extend(name, object.as_deref()))
    }

    /// Makes a program available to flows; returns its handle.
    fn install(&self, py: Python<'_>, program: Py<Program>) -> PyResult<u32> {
        let program = program.get();
        let handle = self.call(py, |kind| kind.install(&program.inner))?;
        let installed = Installed::new(py, handle, program);
        lock(&self.programs).installed(installed);
        Ok(handle)
    }

    fn uninstall(&self, py: Python<'_>, handle: u32) -> PyResult<()> {
        self.call(py, |kind| kind.uninstall(handle))?;
        lock(&self.programs).uninstalled(handle);
        Ok(())
    }

    /// Waits up to `timeout_ms` for reports and events, and sends heartbeats meanwhile.
    fn poll(&self, py: Python<'_>, timeout_ms: u64) -> Batch {
        let (records, names) = py.detach(|| self.kind.poll(timeout_ms));
        let mut programs = lock(&self.programs);
        programs.forget(&records);
        Batch::new(records, Arc::clone(&programs.by_handle), names)
    }

    /// Makes a waiting poll in another thread return immediately, or else the next poll.
    fn wake(&self) {
        self.kind.wake();
    }

    /// Writes an update to one flow; False if it is gone.
    #[pyo3(signature = (flow_id, cwnd_bytes = None, rate_bytes_per_s = None, program = None, registers = None, messages = None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn update(
        &self,
        py: Python<'_>,
        flow_id: u64,
        cwnd_bytes: Option<u64>,
        rate_bytes_per_s: Option<u64>,
        program: Option<u32>,
        registers: Option<Bound<'_, PyDict>>,
        messages: Messages,
    ) -> PyResult<bool> {
        let (program, stamp) = given(program);
        let controls = match registers {
            Some(registers) if !registers.is_empty() => {
                let known = lock(&self.programs).of(flow_id, program);
                known.ok_or_else(|| no_program(py))?.controls(py, &registers)?
            }
            _ => Vec::new(),
        };
        let messages = messages_of(&messages);
        let update =
            Update { cwnd_bytes, rate_bytes_per_s, program, stamp, controls: &controls, messages: &messages };
        let written = self.kind.update(flow_id, &update).map_err(|e| errors::raise(py, &e))?;
        if let (true, Some(handle)) = (written, program) {
            lock(&self.programs).gave(flow_id, handle);
        }
        Ok(written)
    }

    /// Writes updates to many flows; a window or rate of 0 is left unchanged. All flows get the given control
    /// registers. Returns the number of existing flows; with registers, flows without a program do not count.
    #[pyo3(signature = (flow_ids, cwnd_bytes, rate_bytes_per_s, registers = None))]
    fn update_many(
        &self,
        py: Python<'_>,
        flow_ids: PyBuffer<u64>,
        cwnd_bytes: PyBuffer<u64>,
        rate_bytes_per_s: PyBuffer<u64>,
        registers: Option<HashMap<String, PyBuffer<u64>>>,
    ) -> PyResult<usize> {
        let many = Many::new(py, flow_ids, cwnd_bytes, rate_bytes_per_s, registers.unwrap_or_default())?;
        let controls = many.controls(py, &self.programs)?;
        self.call(py, |kind| {
            let mut written = 0;
            for (flow_id, update) in many.updates(&controls) {
                written += usize::from(kind.update(flow_id, &update)?);
            }
            Ok(written)
        })
    }

    /// Records that a report, or the creation of a flow, was handled.
    fn answered(&self, event: Answered<'_>) {
        let (flow_id, report_us) = event.of();
        self.kind.answered(flow_id, report_us);
    }

    /// Records that reports of many flows were handled, each the last one of its flow.
    fn answered_many(&self, py: Python<'_>, flow_ids: PyBuffer<u64>, now_us: PyBuffer<u64>) -> PyResult<()> {
        for (flow_id, report_us) in flow_ids.to_vec(py)?.into_iter().zip(now_us.to_vec(py)?) {
            self.kind.answered(flow_id, report_us);
        }
        Ok(())
    }

    fn flows(&self, py: Python<'_>) -> PyResult<Vec<FlowInfo>> {
        self.kind.flows().map_err(|e| errors::raise(py, &e))
    }

    fn stats(&self, flow_id: u64) -> Option<FlowStats> {
        self.kind.stats(flow_id)
    }

    fn all_stats(&self) -> Vec<FlowStats> {
        self.kind.all_stats()
    }

    fn counters(&self) -> HashMap<&'static str, u64> {
        self.kind.counters()
    }

    /// Sends a heartbeat.
    fn heartbeat(&self) {
        self.kind.heartbeat();
    }

    /// Hands all flows to the fallback, or to the agent that waits for them.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |kind| kind.close())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.call(py, |kind| kind.leave())
    }
}
