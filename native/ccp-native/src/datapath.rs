//! `EbpfDatapath` (the agent's) and `EbpfView` (everybody's).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ccp_bpf::{Datapath, Error, Observer, Options, Quotas, Update};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::errors;
use crate::features::{EXTENSIONS, Extension, Left};
use crate::flows::{FlowInfo, FlowStats};
use crate::program::Program;
use crate::programs::{Letters, Many, Programs, given, letters_of, lock};
use crate::report::{Batch, Installed, Names};

/// The object of an extension: one that is given, or one that ships with ccplane.
pub fn extension_object<'a>(name: &str, given: Option<&'a [u8]>) -> ccp_bpf::Result<&'a [u8]> {
    let shipped = || EXTENSIONS.iter().find(|known| known.name == name).map(|known| known.object);
    given.or_else(shipped).ok_or_else(|| unknown_extension(name))
}

fn unknown_extension(name: &str) -> Error {
    let known = EXTENSIONS.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    Error::new("load.extension", format!("the datapath has no extension `{name}`"))
        .fix(format!("there is {known}; one of your own is named by the path of its object file"))
}

/// Names by `cc_id`; an empty one where there is none.
fn name_table(shared: &Observer) -> ccp_bpf::Result<Vec<String>> {
    Ok(shared.names()?.into_iter().map(|n| n.map_or_else(String::new, |n| n.cc_name)).collect())
}

fn all_flows(shared: &Observer) -> ccp_bpf::Result<Vec<FlowInfo>> {
    let names = name_table(shared)?;
    let named = |cc_id: u32| names.get(cc_id as usize).cloned().unwrap_or_default();
    let ids = shared.flow_ids().into_iter();
    Ok(ids.filter_map(|id| shared.info(id).map(|i| FlowInfo::new(id, &i, named(i.cc_id)))).collect())
}

fn all_stats(shared: &Observer) -> Vec<FlowStats> {
    shared.flow_ids().into_iter().filter_map(|id| shared.flow(id)).map(|f| FlowStats::of_flow(&f)).collect()
}

fn counters(shared: &Observer) -> HashMap<&'static str, u64> {
    shared.counters().into_iter().collect()
}

/// The kernel datapath, held by this process.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct EbpfDatapath {
    inner: Datapath,
    programs: Mutex<Programs>,
    names: Mutex<Vec<String>>,
    pin_dir: PathBuf,
    /// What an agent before has left of extensions that are not loaded yet, by name.
    left: Mutex<HashMap<&'static str, Box<dyn Left>>>,
    /// What became of it.
    resumed: Mutex<HashMap<&'static str, (&'static str, usize)>>,
}

impl EbpfDatapath {
    /// After an extension was loaded: resumes with what the agent before has left of it.
    fn resume(&self, name: &str) -> ccp_bpf::Result<()> {
        let Some((name, left)) = lock(&self.left).remove_entry(name) else { return Ok(()) };
        let outcome = left.resume(&extension_folder(&self.pin_dir, name))?;
        lock(&self.resumed).insert(name, outcome);
        Ok(())
    }
}

fn extension_folder(pin_dir: &Path, name: &str) -> PathBuf {
    pin_dir.join("extension").join(name)
}

#[pymethods]
impl EbpfDatapath {
    #[new]
    #[pyo3(signature = (
        pin_dir = "/sys/fs/bpf/ccplane",
        max_flows = 65_536,
        ring_bytes = 8 << 20,
        heartbeat_timeout_ms = 200,
        max_cwnd_bytes = 1 << 30,
        take_over = false,
        max_flows_per_user = None,
        max_flows_per_cgroup = None,
        reap_after_ms = 300_000,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        pin_dir: &str,
        max_flows: u32,
        ring_bytes: u32,
        heartbeat_timeout_ms: u64,
        max_cwnd_bytes: u64,
        take_over: bool,
        max_flows_per_user: Option<u32>,
        max_flows_per_cgroup: Option<u32>,
        reap_after_ms: u64,
    ) -> PyResult<Self> {
        let options = Options {
            pin_dir: pin_dir.into(),
            max_flows,
            ring_bytes,
            heartbeat_timeout_ms,
            max_cwnd_bytes,
            take_over,
            quotas: Quotas { per_user: max_flows_per_user, per_cgroup: max_flows_per_cgroup },
            reap_after_ms,
        };
        let opened = py.detach(|| {
            // Before: another layout of the datapath takes it away.
            let open = |one: &Extension| {
                Ok((one.name, (one.open)(&extension_folder(Path::new(pin_dir), one.name))?))
            };
            let left = EXTENSIONS.iter().map(open).collect::<ccp_bpf::Result<_>>()?;
            let inner = Datapath::open(&options)?;
            let names = name_table(inner.shared())?;
            Ok((inner, names, left))
        });
        let (inner, names, left) = opened.map_err(|e| errors::raise(py, &e))?;
        Ok(EbpfDatapath {
            inner,
            programs: Mutex::default(),
            names: Mutex::new(names),
            pin_dir: pin_dir.into(),
            left: Mutex::new(left),
            resumed: Mutex::default(),
        })
    }

    #[getter]
    fn adopted(&self) -> bool {
        self.inner.adopted()
    }

    /// Offers a congestion-control name to new sockets.
    #[pyo3(signature = (cc_name, needs_ecn = false))]
    fn register(&self, py: Python<'_>, cc_name: &str, needs_ecn: bool) -> PyResult<()> {
        let registered = py.detach(|| {
            self.inner.register(cc_name, needs_ecn)?;
            name_table(self.inner.shared())
        });
        *lock(&self.names) = registered.map_err(|e| errors::raise(py, &e))?;
        Ok(())
    }

    fn unregister(&self, py: Python<'_>, cc_name: &str) -> PyResult<()> {
        self.inner.unregister(cc_name).map_err(|e| errors::raise(py, &e))
    }

    fn registered(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let names = self.inner.registered().map_err(|e| errors::raise(py, &e))?;
        Ok(names.into_iter().map(|n| n.cc_name).collect())
    }

    /// Loads an extension into the kernel, if it is not there yet: one that ships with ccplane, or an object.
    #[pyo3(signature = (name, object = None))]
    fn extend(&self, py: Python<'_>, name: &str, object: Option<Vec<u8>>) -> PyResult<()> {
        let loaded = py.detach(|| {
            self.inner.extend(name, extension_object(name, object.as_deref())?)?;
            self.resume(name)
        });
        loaded.map_err(|e| errors::raise(py, &e))
    }

    /// What became of what the agent before had in an extension, and of how many things.
    fn resumed(&self, extension: &str) -> (&'static str, usize) {
        lock(&self.resumed).get(extension).copied().unwrap_or(("nothing", 0))
    }

    /// Loads a program into the kernel; returns its handle.
    fn install(&self, py: Python<'_>, program: Py<Program>) -> PyResult<u32> {
        let compiled = program.get();
        let handle = py.detach(|| self.inner.install(&compiled.inner)).map_err(|e| errors::raise(py, &e))?;
        lock(&self.programs).by_handle.insert(handle, Arc::new(Installed::new(handle, compiled)));
        Ok(handle)
    }

    fn uninstall(&self, py: Python<'_>, handle: u32) -> PyResult<()> {
        self.inner.uninstall(handle).map_err(|e| errors::raise(py, &e))?;
        lock(&self.programs).by_handle.remove(&handle);
        Ok(())
    }

    /// Waits for reports and events, at most so long; tells the heartbeat meanwhile.
    fn poll(&self, py: Python<'_>, timeout_ms: u64) -> Batch {
        let records = py.detach(|| self.inner.poll(timeout_ms));
        let mut programs = lock(&self.programs);
        programs.forget(records.closed().collect());
        let names = Names { cc: lock(&self.names).clone(), extensions: self.inner.extensions() };
        Batch::new(records, programs.by_handle.clone(), names)
    }

    /// Makes a poll that waits in another thread return at once, and else the next one.
    fn wake(&self) {
        self.inner.wake();
    }

    /// Writes to one flow; False when it is gone.
    #[pyo3(signature = (flow_id, cwnd_bytes = None, rate_bytes_per_s = None, program = None, registers = None, letters = None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn update(
        &self,
        py: Python<'_>,
        flow_id: u64,
        cwnd_bytes: Option<u64>,
        rate_bytes_per_s: Option<u64>,
        program: Option<u32>,
        registers: Option<HashMap<String, u64>>,
        letters: Letters,
    ) -> PyResult<bool> {
        let (program, stamp) = given(program);
        let controls = lock(&self.programs).registers(py, flow_id, program, registers.as_ref())?;
        let letters = letters_of(&letters);
        let update =
            Update { cwnd_bytes, rate_bytes_per_s, program, stamp, controls: &controls, letters: &letters };
        let written = self.inner.update(flow_id, &update).map_err(|e| errors::raise(py, &e))?;
        if let (true, Some(handle)) = (written, program) {
            lock(&self.programs).gave(flow_id, handle);
        }
        Ok(written)
    }

    /// Writes to many flows; a window or rate of 0 leaves that flow's as it is. All of them get the control registers
    /// that are given. Returns how many were there; with registers, those without a program do not count.
    #[pyo3(signature = (flow_ids, cwnd_bytes, rate_bytes_per_s, registers = None))]
    fn update_many(
        &self,
        py: Python<'_>,
        flow_ids: PyBuffer<u64>,
        cwnd_bytes: PyBuffer<u64>,
        rate_bytes_per_s: PyBuffer<u64>,
        registers: Option<HashMap<String, PyBuffer<u64>>>,
    ) -> PyResult<usize> {
        let many = Many::new(py, flow_ids, cwnd_bytes, rate_bytes_per_s, registers)?;
        let controls = many.controls(py, &lock(&self.programs))?;
        py.detach(|| {
            let mut written = 0;
            for (flow_id, update) in many.updates(&controls) {
                written += usize::from(self.inner.update(flow_id, &update)?);
            }
            Ok(written)
        })
        .map_err(|e| errors::raise(py, &e))
    }

    fn flows(&self, py: Python<'_>) -> PyResult<Vec<FlowInfo>> {
        all_flows(self.inner.shared()).map_err(|e| errors::raise(py, &e))
    }

    fn stats(&self, flow_id: u64) -> Option<FlowStats> {
        self.inner.shared().flow(flow_id).map(|f| FlowStats::of_flow(&f))
    }

    fn all_stats(&self) -> Vec<FlowStats> {
        all_stats(self.inner.shared())
    }

    fn counters(&self) -> HashMap<&'static str, u64> {
        counters(self.inner.shared())
    }

    fn heartbeat(&self) {
        self.inner.heartbeat();
    }

    /// Silences between two heartbeats of this agent: `[(upper bound [us], how many), ...]`, and their sum [us].
    fn silences(&self) -> (Vec<(u64, u64)>, u64) {
        self.inner.silences()
    }

    /// Whether another agent waits for this one to end.
    fn has_successor(&self) -> bool {
        self.inner.has_successor()
    }

    /// Hands all flows to the next agent if one waits, else to the fallback law; flows and registrations stay.
    fn close(&self) {
        self.inner.close();
    }

    /// Lets the next agent have the datapath.
    fn release(&self) {
        self.inner.release();
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.release();
    }

    /// Removes everything that is pinned in a directory; says what was removed, moved and left, a line each.
    #[staticmethod]
    fn unload(py: Python<'_>, pin_dir: &str) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
        let unloaded = py.detach(|| ccp_bpf::unload(pin_dir)).map_err(|e| errors::raise(py, &e))?;
        Ok((unloaded.removed, unloaded.moved, unloaded.left))
    }

    /// Looks on the datapath of another process.
    #[staticmethod]
    fn observe(py: Python<'_>, pin_dir: &str) -> PyResult<EbpfView> {
        let shared = Observer::open(Path::new(pin_dir)).map_err(|e| errors::raise(py, &e))?;
        Ok(EbpfView { shared })
    }
}

/// The kernel datapath of another process, to look at.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct EbpfView {
    shared: Observer,
}

#[pymethods]
impl EbpfView {
    /// What the kernel charges for the datapath's maps [bytes].
    fn memory_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.memory_bytes().map_err(|e| errors::raise(py, &e))
    }

    fn flows(&self, py: Python<'_>) -> PyResult<Vec<FlowInfo>> {
        all_flows(&self.shared).map_err(|e| errors::raise(py, &e))
    }

    fn stats(&self, flow_id: u64) -> Option<FlowStats> {
        self.shared.flow(flow_id).map(|f| FlowStats::of_flow(&f))
    }

    fn all_stats(&self) -> Vec<FlowStats> {
        all_stats(&self.shared)
    }

    fn counters(&self) -> HashMap<&'static str, u64> {
        counters(&self.shared)
    }
}
