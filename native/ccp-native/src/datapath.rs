//! `EbpfDatapath` (for the agent) and `EbpfView` (for observers).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ccp_bpf::{Datapath, Error, Observer, Options, Quotas, Update};
use ccp_record::Records;
use pyo3::prelude::*;

use crate::base::{self, Kind};
use crate::errors;
use crate::features::{EXTENSIONS, Extension, Left};
use crate::flows::{FlowInfo, FlowStats};
use crate::programs::lock;
use crate::report::Names;

/// The object of an extension: the given one, or one shipped with ccplane.
pub fn extension_object<'a>(name: &str, given: Option<&'a [u8]>) -> ccp_bpf::Result<&'a [u8]> {
    let shipped = || EXTENSIONS.iter().find(|known| known.name == name).map(|known| known.object);
    given.or_else(shipped).ok_or_else(|| unknown_extension(name))
}

fn unknown_extension(name: &str) -> Error {
    let known = EXTENSIONS.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    Error::new("load.extension", format!("the datapath has no extension `{name}`"))
        .fix(format!("shipped extensions: {known}; for your own, give the path of the object file"))
}

/// Names by `cc_id`; empty for free ones.
fn name_table(shared: &Observer) -> ccp_bpf::Result<Vec<String>> {
    Ok(shared.names()?.into_iter().map(|n| n.map_or_else(String::new, |n| n.cc_name)).collect())
}

/// The names that records refer to by number.
fn names_of(datapath: &Datapath) -> ccp_bpf::Result<Arc<Names>> {
    Ok(Arc::new(Names { cc: name_table(datapath.shared())?, extensions: datapath.extensions() }))
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

/// The kernel datapath owned by this process.
struct Kernel {
    inner: Datapath,
    names: Mutex<Arc<Names>>,
    pin_dir: PathBuf,
    /// State that the previous agent left of extensions not loaded yet, by name.
    left: Mutex<HashMap<&'static str, Box<dyn Left>>>,
    /// The outcome of resuming it.
    resumed: Mutex<HashMap<&'static str, (&'static str, usize)>>,
}

impl Kernel {
    /// After loading an extension: resumes with the previous agent's state.
    fn resume(&self, name: &str) -> ccp_bpf::Result<()> {
        let Some((name, left)) = lock(&self.left).remove_entry(name) else { return Ok(()) };
        let outcome = left.resume(&extension_folder(&self.pin_dir, name))?;
        lock(&self.resumed).insert(name, outcome);
        Ok(())
    }
}

impl Kind for Kernel {
    fn adopted(&self) -> bool {
        self.inner.adopted()
    }

    fn register(&self, cc_name: &str, needs_ecn: bool) -> ccp_bpf::Result<()> {
        self.inner.register(cc_name, needs_ecn)?;
        *lock(&self.names) = names_of(&self.inner)?;
        Ok(())
    }

    fn unregister(&self, cc_name: &str) -> ccp_bpf::Result<()> {
        self.inner.unregister(cc_name)
    }

    fn registered(&self) -> ccp_bpf::Result<Vec<String>> {
        Ok(self.inner.registered()?.into_iter().map(|n| n.cc_name).collect())
    }

    fn extend(&self, name: &str, object: Option<&[u8]>) -> ccp_bpf::Result<()> {
        self.inner.extend(name, extension_object(name, object)?)?;
        *lock(&self.names) = names_of(&self.inner)?;
        self.resume(name)
    }

    fn install(&self, program: &ccp_lang::Program) -> ccp_bpf::Result<u32> {
        self.inner.install(program)
    }

    fn uninstall(&self, handle: u32) -> ccp_bpf::Result<()> {
        self.inner.uninstall(handle)
    }

    fn poll(&self, timeout_ms: u64) -> (Records, Arc<Names>) {
        let records = self.inner.poll(timeout_ms);
        (records, Arc::clone(&lock(&self.names)))
    }

    fn wake(&self) {
        self.inner.wake();
    }

    fn update(&self, flow_id: u64, update: &Update<'_>) -> ccp_bpf::Result<bool> {
        self.inner.update(flow_id, update)
    }

    fn flows(&self) -> ccp_bpf::Result<Vec<FlowInfo>> {
        all_flows(self.inner.shared())
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

    fn close(&self) -> ccp_bpf::Result<()> {
        self.inner.close();
        Ok(())
    }

    fn leave(&self) -> ccp_bpf::Result<()> {
        self.inner.release();
        Ok(())
    }
}

fn extension_folder(pin_dir: &Path, name: &str) -> PathBuf {
    pin_dir.join("extension").join(name)
}

/// The kernel datapath owned by this process.
#[pyclass(frozen, extends = base::Datapath, module = "ccplane.base._native")]
pub struct EbpfDatapath(Arc<Kernel>);

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
    ) -> PyResult<PyClassInitializer<Self>> {
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
            // First, because another layout of the datapath removes it.
            let open = |one: &Extension| {
                Ok((one.name, (one.open)(&extension_folder(Path::new(pin_dir), one.name))?))
            };
            let left = EXTENSIONS.iter().map(open).collect::<ccp_bpf::Result<_>>()?;
            let inner = Datapath::open(&options)?;
            let names = names_of(&inner)?;
            Ok((inner, names, left))
        });
        let (inner, names, left) = opened.map_err(|e| errors::raise(py, &e))?;
        let kernel = Arc::new(Kernel {
            inner,
            names: Mutex::new(names),
            pin_dir: pin_dir.into(),
            left: Mutex::new(left),
            resumed: Mutex::default(),
        });
        Ok(PyClassInitializer::from(base::Datapath::new(kernel.clone())).add_subclass(EbpfDatapath(kernel)))
    }

    /// The outcome of resuming an extension's state of the previous agent, and the number of objects.
    fn resumed(&self, extension: &str) -> (&'static str, usize) {
        lock(&self.0.resumed).get(extension).copied().unwrap_or(("nothing", 0))
    }

    /// Silences between two heartbeats of this agent: `[(upper bound [us], count), ...]`, and their sum [us].
    fn silences(&self) -> (Vec<(u64, u64)>, u64) {
        self.0.inner.silences()
    }

    /// Process id of the agent that waits for this one to end; 0 if there is none.
    fn successor_pid(&self) -> u32 {
        self.0.inner.successor_pid()
    }

    /// Whether another agent waits for this one to end.
    fn has_successor(&self) -> bool {
        self.0.inner.has_successor()
    }

    /// Releases the datapath to the next agent.
    fn release(&self) {
        self.0.inner.release();
    }

    /// Removes everything pinned in a directory; returns what was removed, moved and left, one line each.
    #[staticmethod]
    fn unload(py: Python<'_>, pin_dir: &str) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
        let unloaded = py.detach(|| ccp_bpf::unload(pin_dir)).map_err(|e| errors::raise(py, &e))?;
        Ok((unloaded.removed, unloaded.moved, unloaded.left))
    }

    /// Opens the datapath of another process for reading.
    #[staticmethod]
    fn observe(py: Python<'_>, pin_dir: &str) -> PyResult<EbpfView> {
        let shared = Observer::open(Path::new(pin_dir)).map_err(|e| errors::raise(py, &e))?;
        Ok(EbpfView { shared })
    }
}

/// The kernel datapath of another process, read-only.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct EbpfView {
    shared: Observer,
}

#[pymethods]
impl EbpfView {
    /// Memory that the kernel charges for the datapath's maps [bytes].
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
