//! `SimDatapath`: the simulated datapath.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ccp_emu::link_stats;
use ccp_emu::spec::{Direction, Spec};
use ccp_error::Error;
use ccp_record::{Plain, Records, Update, bytes_of};
use ccp_sim::agent::AgentFlow;
use ccp_sim::{Family, Options, Plan, Stop, World};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::{self, Kind};
use crate::errors;
use crate::flows::{FlowInfo, FlowStats};
use crate::programs::lock;
use crate::report::Names;
use crate::tcp_rows;

/// A world and its clock.
struct Simulated {
    world: World,
    /// The agent's response time.
    latency_ns: u64,
    /// Time does not pass beyond it.
    horizon_ns: u64,
    /// As of the last registration.
    names: Arc<Names>,
}

impl Simulated {
    fn until_ns(&self, at_ns: u64) -> u64 {
        at_ns.min(self.horizon_ns).max(self.world.now_ns())
    }

    /// Lets time pass until a record is available, plus the agent's latency; or until telemetry is available.
    fn poll(&mut self, timeout_ms: u64) -> Records {
        let timeout_ns = timeout_ms.saturating_mul(1_000_000);
        let end_ns = self.until_ns(self.world.now_ns().saturating_add(timeout_ns));
        let reported = self.world.shared().has_records() || self.world.run_until(end_ns) == Stop::Agent;
        if reported {
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
        for message in update.messages {
            self.world.shared().extension_of(message)?;
        }
        let flow = self.world.agent_flow_mut(flow_id);
        Ok(flow.map(|flow| flow.update(update)).is_some())
    }

    fn info(&self, flow: &AgentFlow) -> FlowInfo {
        let info = flow.info();
        let name = self.names.cc.get(info.cc_id as usize).cloned().unwrap_or_default();
        FlowInfo::new(flow.flow_id(), info, name)
    }
}

fn names_of(world: &World) -> Arc<Names> {
    Arc::new(Names {
        cc: world.names().map(str::to_owned).collect(),
        extensions: world.shared().extension_names().into_iter().map(str::to_owned).collect(),
    })
}

/// An agent's view of a world.
struct Simulator {
    simulated: Mutex<Simulated>,
    is_awake: AtomicBool,
}

impl Simulator {
    fn now(&self) -> MutexGuard<'_, Simulated> {
        lock(&self.simulated)
    }
}

impl Kind for Simulator {
    fn adopted(&self) -> bool {
        false
    }

    fn register(&self, cc_name: &str, needs_ecn: bool) -> Result<(), Error> {
        let mut simulated = self.now();
        simulated.world.register(cc_name, needs_ecn)?;
        simulated.names = names_of(&simulated.world);
        Ok(())
    }

    fn unregister(&self, cc_name: &str) -> Result<(), Error> {
        self.now().world.unregister(cc_name)
    }

    fn registered(&self) -> Result<Vec<String>, Error> {
        Ok(self.now().world.registered().map(str::to_owned).collect())
    }

    /// Checks that the extension exists: the simulator has built-in ones only.
    fn extend(&self, name: &str, object: Option<&[u8]>) -> Result<(), Error> {
        let simulated = self.now();
        let shared = simulated.world.shared();
        if object.is_none() && shared.extension_names().contains(&name) {
            return Ok(());
        }
        Err(shared.no_extension(name))
    }

    fn install(&self, program: &ccp_lang::Program) -> Result<u32, Error> {
        self.now().world.shared().install(program.clone())
    }

    fn uninstall(&self, handle: u32) -> Result<(), Error> {
        self.now().world.shared().uninstall(handle)
    }

    /// Lets virtual time pass until the first record, plus the agent's latency, up to the timeout.
    fn poll(&self, timeout_ms: u64) -> (Records, Arc<Names>) {
        let timeout_ms = if self.is_awake.swap(false, Ordering::Relaxed) { 0 } else { timeout_ms };
        let mut simulated = self.now();
        (simulated.poll(timeout_ms), Arc::clone(&simulated.names))
    }

    fn wake(&self) {
        self.is_awake.store(true, Ordering::Relaxed);
    }

    fn update(&self, flow_id: u64, update: &Update<'_>) -> Result<bool, Error> {
        self.now().update(flow_id, update)
    }

    /// Virtual time stands still while the agent handles a report.
    fn answered(&self, _flow_id: u64, _report_us: u64) {}

    fn flows(&self) -> Result<Vec<FlowInfo>, Error> {
        let simulated = self.now();
        Ok(simulated.world.agent_flows().map(|flow| simulated.info(flow)).collect())
    }

    fn stats(&self, flow_id: u64) -> Option<FlowStats> {
        self.now().world.agent_flow(flow_id).map(|flow| FlowStats::of_flow(&flow.snapshot()))
    }

    fn all_stats(&self) -> Vec<FlowStats> {
        self.now().world.agent_flows().map(|flow| FlowStats::of_flow(&flow.snapshot())).collect()
    }

    fn counters(&self) -> HashMap<&'static str, u64> {
        ccp_record::counters(&self.now().world.shared().counters()).into_iter().collect()
    }

    /// Flows in the fallback return.
    fn heartbeat(&self) {
        self.now().world.shared().heartbeat();
    }

    /// Hands all flows to the fallback, and writes files.
    fn close(&self) -> Result<(), Error> {
        let mut simulated = self.now();
        simulated.world.shared().silence();
        simulated.world.close()
    }

    fn leave(&self) -> Result<(), Error> {
        self.close()
    }
}

/// A network with its hosts in virtual time, and an agent's control of their connections.
#[pyclass(frozen, extends = base::Datapath, module = "ccplane.base._native")]
pub struct SimDatapath(Arc<Simulator>);

impl SimDatapath {
    pub(crate) fn with_world<T>(&self, call: impl FnOnce(&mut World) -> T) -> T {
        call(&mut self.0.now().world)
    }

    /// The same; errors are raised after all locks were released.
    fn try_world<T>(&self, py: Python<'_>, call: impl FnOnce(&mut World) -> Result<T, Error>) -> PyResult<T> {
        let done = self.with_world(call);
        done.map_err(|e| errors::raise(py, &e))
    }
}

fn bytes<T: Plain>(rows: &[T]) -> Vec<u8> {
    rows.iter().flat_map(|row| bytes_of(row).iter().copied()).collect()
}

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
    ) -> PyResult<PyClassInitializer<Self>> {
        let options = Options { start_us, host_mtu_bytes, max_cwnd_bytes, samples, arrivals };
        let made = py.detach(|| World::new(Spec::from_json(spec_json)?, &options));
        let world = made.map_err(|e| errors::raise(py, &e))?;
        let latency_ns = latency_us.saturating_mul(1000);
        let simulator = Arc::new(Simulator {
            simulated: Mutex::new(Simulated {
                names: names_of(&world),
                world,
                latency_ns,
                horizon_ns: u64::MAX,
            }),
            is_awake: AtomicBool::new(false),
        });
        let datapath = base::Datapath::new(simulator.clone());
        Ok(PyClassInitializer::from(datapath).add_subclass(SimDatapath(simulator)))
    }

    /// Lower bound of the delays in each of the `bins` of `arrivals()`.
    #[staticmethod]
    fn bin_bounds_us() -> Vec<u64> {
        ccp_record::bin_bounds_us()
    }

    /// Adds a flow; returns its index.
    fn connect(&self, py: Python<'_>, plan_json: &[u8]) -> PyResult<usize> {
        let plan = Plan::from_json(plan_json).map_err(|e| errors::raise(py, &e))?;
        self.try_world(py, |world| world.add(plan))
    }

    #[getter]
    fn now_us(&self) -> u64 {
        self.0.now().world.now_ns() / 1000
    }

    #[getter]
    fn horizon_us(&self) -> u64 {
        self.0.now().horizon_ns / 1000
    }

    #[setter]
    fn set_horizon_us(&self, horizon_us: u64) {
        self.0.now().horizon_ns = horizon_us.saturating_mul(1000);
    }

    /// Lets time pass, without waiting for records.
    fn run_until(&self, py: Python<'_>, at_us: u64) {
        py.detach(|| {
            let mut simulated = self.0.now();
            let end_ns = simulated.until_ns(at_us.saturating_mul(1000));
            while simulated.world.run_until(end_ns) != Stop::Time {}
        });
    }

    #[getter]
    fn finished(&self) -> bool {
        self.0.now().world.is_finished()
    }

    #[getter]
    fn packet_events(&self) -> u64 {
        self.0.now().world.packet_events()
    }

    fn set_link(&self, py: Python<'_>, name: &str, direction_json: &[u8]) -> PyResult<()> {
        let direction: Direction = parse(py, direction_json, "a link direction")?;
        self.try_world(py, |world| world.set_link(name, direction))
    }

    fn set_routes(&self, py: Python<'_>, routes_json: &[u8]) -> PyResult<()> {
        let routes: Vec<Vec<i64>> = parse(py, routes_json, "routes")?;
        self.try_world(py, |world| world.set_routes(routes))
    }

    /// State and counters of each link direction, as JSON.
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let stats = link_stats(self.0.now().world.network());
        Ok(PyBytes::new(py, &json(&stats)?))
    }

    /// Samples of senders' sockets since the last call.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.0.now().world.take_rows();
        tcp_rows::samples(py, &bytes(&rows))
    }

    /// The last sample of each sender's socket since the last call, as plain numbers: `rows` without NumPy.
    fn latest(&self) -> Vec<(u16, u64, u32, u32, u64)> {
        let rows = self.0.now().world.take_rows();
        let latest: BTreeMap<_, _> = rows.iter().map(|row| ((row.netns, row.dport), row)).collect();
        let numbers = latest.into_values();
        numbers
            .map(|row| (row.dport, row.cwnd_bytes, row.srtt_us, row.mss_bytes, row.delivered_pkts))
            .collect()
    }

    /// Arrivals at receivers since the last call.
    fn arrivals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let arrived = self.0.now().world.take_arrivals();
        tcp_rows::arrived(py, &bytes(&arrived))
    }

    /// Makes a host send echo requests to another one regularly.
    #[pyo3(signature = (host, peer, every_us, family = "ipv4"))]
    fn probe(&self, py: Python<'_>, host: &str, peer: &str, every_us: u64, family: &str) -> PyResult<()> {
        let family = match family {
            "ipv4" => Family::Ipv4,
            "ipv6" => Family::Ipv6,
            _ => return Err(PyValueError::new_err(format!("{family} is not an address family"))),
        };
        self.try_world(py, |world| world.probe(host, peer, every_us, family))
    }

    /// Echo replies since the last call: host, peer address, arrival time, round-trip time.
    fn probes(&self) -> Vec<(String, String, u64, u64)> {
        let echoes = self.0.now().world.take_echoes().into_iter();
        echoes.map(|echo| (echo.host, echo.peer.to_string(), echo.at_us, echo.rtt_us)).collect()
    }

    /// Summaries of telemetry sinks since the last call, as JSON.
    fn summaries<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let summaries = self.0.now().world.take_summaries();
        summaries.iter().map(|summary| Ok(PyBytes::new(py, &json(summary)?))).collect()
    }

    /// Outcomes of flows, as JSON.
    fn outcomes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let outcomes: Vec<_> = self.0.now().world.outcomes().collect();
        Ok(PyBytes::new(py, &json(&outcomes)?))
    }
}

fn parse<T: serde::de::DeserializeOwned>(py: Python<'_>, json: &[u8], what: &str) -> PyResult<T> {
    serde_json::from_slice(json).map_err(|e| {
        let error = Error::new("emulator.bad_spec", format!("cannot parse the description of {what}")).why(e);
        errors::raise(py, &error)
    })
}
