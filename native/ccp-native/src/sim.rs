//! `SimDatapath`: the simulated datapath.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ccp_emu::link_stats;
use ccp_emu::spec::{Direction, Spec};
use ccp_error::Error;
use ccp_record::{Plain, Records, Update, bytes_of};
use ccp_sim::agent::AgentFlow;
use ccp_sim::{Family, Options, Plan, Stop, World};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors;
use crate::flows::{FlowInfo, FlowStats};
use crate::program::Program;
use crate::programs::{Letters, Many, Programs, given, letters_of, lock};
use crate::report::{Batch, Installed, Names};
use crate::tcp_rows;

/// A world, and how its time passes.
struct Simulated {
    world: World,
    /// What an agent takes to hear and answer.
    latency_ns: u64,
    /// Time does not pass it.
    horizon_ns: u64,
}

impl Simulated {
    fn until_ns(&self, at_ns: u64) -> u64 {
        at_ns.min(self.horizon_ns).max(self.world.now_ns())
    }

    /// Lets time pass until a record waits, and the agent's latency more; or until telemetry waits.
    fn poll(&mut self, timeout_ms: u64) -> Records {
        let timeout_ns = timeout_ms.saturating_mul(1_000_000);
        let end_ns = self.until_ns(self.world.now_ns().saturating_add(timeout_ns));
        let told = self.world.shared().has_records() || self.world.run_until(end_ns) == Stop::Agent;
        if told {
            let end_ns = self.until_ns(self.world.now_ns().saturating_add(self.latency_ns));
            while self.world.run_until(end_ns) != Stop::Time {}
        }
        self.world.shared().take_records()
    }

    fn update(&mut self, flow_id: u64, update: &Update<'_>) -> Result<bool, Error> {
        if let Some(program) = update.program.filter(|program| *program != 0)
            && !self.world.shared().is_installed(program)
        {
            return Err(Error::new("program.unknown", format!("no program has the handle {program}"))
                .fix("install the program first"));
        }
        for message in update.letters {
            self.world.shared().extension_of(message)?;
        }
        let flow = self.world.agent_flow_mut(flow_id);
        Ok(flow.map(|flow| flow.update(update)).is_some())
    }

    fn names(&self) -> Vec<String> {
        self.world.names().map(str::to_owned).collect()
    }
}

/// A network with its hosts in virtual time, and the agent's hold on their connections.
#[pyclass(frozen, module = "ccplane.base._native")]
pub struct SimDatapath {
    simulated: Mutex<Simulated>,
    programs: Mutex<Programs>,
    is_awake: AtomicBool,
}

impl SimDatapath {
    /// Calls something with the world, for features.
    pub(crate) fn with_world<T>(&self, call: impl FnOnce(&mut World) -> T) -> T {
        call(&mut lock(&self.simulated).world)
    }

    fn info(flow: &AgentFlow, names: &[String]) -> FlowInfo {
        let info = flow.info();
        FlowInfo::new(flow.flow_id(), info, names.get(info.cc_id as usize).cloned().unwrap_or_default())
    }
}

/// The bytes of structures, one behind the other.
fn bytes<T: Plain>(rows: &[T]) -> Vec<u8> {
    rows.iter().flat_map(|row| bytes_of(row).iter().copied()).collect()
}

/// Plain data as JSON.
fn json(value: &impl serde::Serialize) -> PyResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| PyValueError::new_err(e.to_string()))
}

#[pymethods]
impl SimDatapath {
    #[new]
    #[pyo3(signature = (
        spec_json,
        *,
        start_us = 1_000_000,
        latency_us = 100,
        max_cwnd_bytes = 1 << 30,
        host_mtu_bytes = None,
        samples = true,
        arrivals = false,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        spec_json: &[u8],
        start_us: u64,
        latency_us: u64,
        max_cwnd_bytes: u64,
        host_mtu_bytes: Option<u32>,
        samples: bool,
        arrivals: bool,
    ) -> PyResult<Self> {
        let options = Options { start_us, host_mtu_bytes, max_cwnd_bytes, samples, arrivals };
        let made = py.detach(|| World::new(Spec::from_json(spec_json)?, &options));
        let world = made.map_err(|e| errors::raise(py, &e))?;
        let latency_ns = latency_us.saturating_mul(1000);
        Ok(SimDatapath {
            simulated: Mutex::new(Simulated { world, latency_ns, horizon_ns: u64::MAX }),
            programs: Mutex::default(),
            is_awake: AtomicBool::new(false),
        })
    }

    /// Least delay of each of `bins` in `arrivals()`.
    #[staticmethod]
    fn bin_bounds_us() -> Vec<u64> {
        ccp_record::bin_bounds_us()
    }

    #[getter]
    fn adopted(&self) -> bool {
        false
    }

    /// Adds a flow; returns its index.
    fn connect(&self, py: Python<'_>, plan_json: &[u8]) -> PyResult<usize> {
        let added = Plan::from_json(plan_json).and_then(|plan| lock(&self.simulated).world.add(plan));
        added.map_err(|e| errors::raise(py, &e))
    }

    #[getter]
    fn now_us(&self) -> u64 {
        lock(&self.simulated).world.now_ns() / 1000
    }

    #[getter]
    fn horizon_us(&self) -> u64 {
        lock(&self.simulated).horizon_ns / 1000
    }

    #[setter]
    fn set_horizon_us(&self, horizon_us: u64) {
        lock(&self.simulated).horizon_ns = horizon_us.saturating_mul(1000);
    }

    /// Lets time pass, whatever waits meanwhile.
    fn run_until(&self, py: Python<'_>, at_us: u64) {
        py.detach(|| {
            let mut simulated = lock(&self.simulated);
            let end_ns = simulated.until_ns(at_us.saturating_mul(1000));
            while simulated.world.run_until(end_ns) != Stop::Time {}
        });
    }

    #[getter]
    fn finished(&self) -> bool {
        lock(&self.simulated).world.is_finished()
    }

    #[getter]
    fn packet_events(&self) -> u64 {
        lock(&self.simulated).world.packet_events()
    }

    fn set_link(&self, py: Python<'_>, name: &str, direction_json: &[u8]) -> PyResult<()> {
        let direction: Direction = parse(py, direction_json, "a link direction")?;
        lock(&self.simulated).world.set_link(name, direction).map_err(|e| errors::raise(py, &e))
    }

    fn set_routes(&self, py: Python<'_>, routes_json: &[u8]) -> PyResult<()> {
        let routes: Vec<Vec<i64>> = parse(py, routes_json, "routes")?;
        lock(&self.simulated).world.set_routes(routes).map_err(|e| errors::raise(py, &e))
    }

    /// What is in each link direction and what became of its packets, as JSON.
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let stats = link_stats(lock(&self.simulated).world.network());
        Ok(PyBytes::new(py, &json(&stats)?))
    }

    /// Samples of senders' sockets since the last call.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = lock(&self.simulated).world.take_rows();
        tcp_rows::samples(py, &bytes(&rows))
    }

    /// What arrived at receivers since the last call.
    fn arrivals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let arrived = lock(&self.simulated).world.take_arrivals();
        tcp_rows::arrived(py, &bytes(&arrived))
    }

    /// From now on a host asks another one for an echo, so often.
    #[pyo3(signature = (host, peer, every_us, family = "ipv4"))]
    fn probe(&self, py: Python<'_>, host: &str, peer: &str, every_us: u64, family: &str) -> PyResult<()> {
        let family = match family {
            "ipv4" => Family::Ipv4,
            "ipv6" => Family::Ipv6,
            _ => return Err(PyValueError::new_err(format!("{family} is no family of addresses"))),
        };
        lock(&self.simulated).world.probe(host, peer, every_us, family).map_err(|e| errors::raise(py, &e))
    }

    /// Answers since the last call: host, address of the other one, when it came, how long it took.
    fn probes(&self) -> Vec<(String, String, u64, u64)> {
        let echoes = lock(&self.simulated).world.take_echoes().into_iter();
        echoes.map(|echo| (echo.host, echo.peer.to_string(), echo.at_us, echo.rtt_us)).collect()
    }

    /// What sinks of telemetry have said since the last call, as JSON.
    fn summaries<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let summaries = lock(&self.simulated).world.take_summaries();
        summaries.iter().map(|summary| Ok(PyBytes::new(py, &json(summary)?))).collect()
    }

    /// What became of flows, as JSON.
    fn outcomes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let outcomes: Vec<_> = lock(&self.simulated).world.outcomes().collect();
        Ok(PyBytes::new(py, &json(&outcomes)?))
    }

    /// Offers a congestion-control name to new connections.
    #[pyo3(signature = (cc_name, needs_ecn = false))]
    fn register(&self, py: Python<'_>, cc_name: &str, needs_ecn: bool) -> PyResult<()> {
        lock(&self.simulated).world.register(cc_name, needs_ecn).map_err(|e| errors::raise(py, &e))
    }

    fn unregister(&self, py: Python<'_>, cc_name: &str) -> PyResult<()> {
        lock(&self.simulated).world.unregister(cc_name).map_err(|e| errors::raise(py, &e))
    }

    fn registered(&self) -> Vec<String> {
        lock(&self.simulated).world.registered().map(str::to_owned).collect()
    }

    /// Says whether there is such an extension: the simulator has those that it has, and takes no objects.
    #[pyo3(signature = (name, object = None))]
    fn extend(&self, py: Python<'_>, name: &str, object: Option<Vec<u8>>) -> PyResult<()> {
        let simulated = lock(&self.simulated);
        let shared = simulated.world.shared();
        if object.is_none() && shared.extension_names().contains(&name) {
            return Ok(());
        }
        Err(errors::raise(py, &shared.no_extension(name)))
    }

    /// Makes a program available to flows; returns its handle.
    fn install(&self, py: Python<'_>, program: Py<Program>) -> PyResult<u32> {
        let compiled = program.get();
        let installed = lock(&self.simulated).world.shared().install(compiled.inner.clone());
        let handle = installed.map_err(|e| errors::raise(py, &e))?;
        lock(&self.programs).by_handle.insert(handle, Arc::new(Installed::new(handle, compiled)));
        Ok(handle)
    }

    fn uninstall(&self, py: Python<'_>, handle: u32) -> PyResult<()> {
        let done = lock(&self.simulated).world.shared().uninstall(handle);
        done.map_err(|e| errors::raise(py, &e))?;
        lock(&self.programs).by_handle.remove(&handle);
        Ok(())
    }

    /// Lets virtual time pass until the first record, and the agent's latency more; at most so long.
    fn poll(&self, py: Python<'_>, timeout_ms: u64) -> Batch {
        let timeout_ms = if self.is_awake.swap(false, Ordering::Relaxed) { 0 } else { timeout_ms };
        let (records, names, extensions) = py.detach(|| {
            let mut simulated = lock(&self.simulated);
            let extensions = simulated.world.shared().extension_names();
            (simulated.poll(timeout_ms), simulated.names(), extensions)
        });
        let mut programs = lock(&self.programs);
        programs.forget(records.closed().collect());
        let extensions = extensions.into_iter().map(str::to_owned).collect();
        Batch::new(records, programs.by_handle.clone(), Names { cc: names, extensions })
    }

    /// Makes the next poll return without letting time pass.
    fn wake(&self) {
        self.is_awake.store(true, Ordering::Relaxed);
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
        let mut programs = lock(&self.programs);
        let controls = programs.registers(py, flow_id, program, registers.as_ref())?;
        let letters = letters_of(&letters);
        let update =
            Update { cwnd_bytes, rate_bytes_per_s, program, stamp, controls: &controls, letters: &letters };
        let written = lock(&self.simulated).update(flow_id, &update).map_err(|e| errors::raise(py, &e))?;
        if let (true, Some(handle)) = (written, program) {
            programs.gave(flow_id, handle);
        }
        Ok(written)
    }

    /// Writes to many flows, as `EbpfDatapath.update_many`.
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
        let mut simulated = lock(&self.simulated);
        let mut written = 0;
        for (flow_id, update) in many.updates(&controls) {
            written += usize::from(simulated.update(flow_id, &update).map_err(|e| errors::raise(py, &e))?);
        }
        Ok(written)
    }

    fn flows(&self) -> Vec<FlowInfo> {
        let simulated = lock(&self.simulated);
        let names = simulated.names();
        simulated.world.agent_flows().map(|flow| Self::info(flow, &names)).collect()
    }

    fn stats(&self, flow_id: u64) -> Option<FlowStats> {
        lock(&self.simulated).world.agent_flow(flow_id).map(|flow| FlowStats::of_flow(&flow.snapshot()))
    }

    fn all_stats(&self) -> Vec<FlowStats> {
        let simulated = lock(&self.simulated);
        simulated.world.agent_flows().map(|flow| FlowStats::of_flow(&flow.snapshot())).collect()
    }

    /// Records are never refused, and there is a slot for every flow.
    fn counters(&self) -> HashMap<&'static str, u64> {
        let counters = lock(&self.simulated).world.shared().counters();
        HashMap::from([
            ("flows_active", counters.flows_active),
            ("flows_created", counters.flows_created),
            ("flows_over_limit", 0),
            ("flows_over_quota", 0),
            ("reports_missed", 0),
            ("creates_missed", 0),
            ("closes_missed", 0),
            ("fold_errors", counters.fold_errors),
            ("law_entries", counters.law_entries),
        ])
    }

    /// The agent lives: flows that went to the fallback law come back.
    fn heartbeat(&self) {
        lock(&self.simulated).world.shared().heartbeat();
    }

    /// Hands all flows to the fallback law, and writes files.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| {
            let mut simulated = lock(&self.simulated);
            simulated.world.shared().silence();
            simulated.world.close()
        });
        closed.map_err(|e| errors::raise(py, &e))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

fn parse<T: serde::de::DeserializeOwned>(py: Python<'_>, json: &[u8], what: &str) -> PyResult<T> {
    serde_json::from_slice(json).map_err(|e| {
        let error =
            Error::new("emulator.bad_spec", format!("the description of {what} cannot be read")).why(e);
        errors::raise(py, &error)
    })
}
