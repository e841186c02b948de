//! Controllers in C, behind `include/ccp_quic_sim.h`, in connections of quinn.

use std::any::Any;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

use crate::{Error, FlowReport, Path, Result, Simulation, Traffic, quinn};

#[repr(C)]
pub struct Ack {
    pub now_ns: u64,
    pub sent_ns: u64,
    pub bytes: u64,
    pub smoothed_rtt_ns: u64,
    pub min_rtt_ns: u64,
    pub app_limited: bool,
}

#[repr(C)]
pub struct Congestion {
    pub now_ns: u64,
    pub sent_ns: u64,
    pub lost_bytes: u64,
    pub persistent: bool,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Functions {
    pub create: Option<unsafe extern "C" fn(*mut c_void, u16) -> *mut c_void>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub on_sent: Option<unsafe extern "C" fn(*mut c_void, u64, u64)>,
    pub on_ack: Option<unsafe extern "C" fn(*mut c_void, *const Ack)>,
    pub on_acks_end: Option<unsafe extern "C" fn(*mut c_void, u64, u64, bool)>,
    pub on_congestion: Option<unsafe extern "C" fn(*mut c_void, *const Congestion)>,
    pub on_mtu: Option<unsafe extern "C" fn(*mut c_void, u16)>,
    pub window_bytes: Option<unsafe extern "C" fn(*const c_void) -> u64>,
    pub context: *mut c_void,
}

#[repr(C)]
pub struct CPath {
    pub mbit_per_s: f64,
    pub rtt_ns: u64,
    pub buffer_bytes: u64,
    pub loss_ratio: f64,
    pub seed: u64,
}

#[repr(C)]
pub struct CFlow {
    pub controller: *const Functions,
    pub start_ns: u64,
    pub message_bytes: u64,
    pub message_interval_ns: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct CResult {
    pub goodput_bytes_per_s: f64,
    pub goodput_share: f64,
    pub lost_share: f64,
    pub rtt_p50_ns: u64,
    pub rtt_p95_ns: u64,
    pub window_max_bytes: u64,
    pub reductions: u64,
    pub longest_stall_ns: u64,
}

/// Simulates flows whose controllers are in C; the header describes the arguments.
///
/// # Safety
///
/// All pointers must be valid for the call: `flows` and `results` for `flow_count` elements, `error` for `error_bytes`,
/// and the functions of each controller must follow the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccp_simulate(
    path: *const CPath,
    flows: *const CFlow,
    flow_count: usize,
    duration_ns: u64,
    results: *mut CResult,
    error: *mut c_char,
    error_bytes: usize,
) -> c_int {
    // SAFETY: the caller guarantees that the pointers are valid.
    let run = || unsafe {
        if path.is_null() || flows.is_null() || results.is_null() {
            return Err(invalid("a pointer is NULL"));
        }
        simulate(&*path, std::slice::from_raw_parts(flows, flow_count), Duration::from_nanos(duration_ns))
    };
    match run() {
        Ok(reports) => {
            for (index, report) in reports.iter().enumerate() {
                // SAFETY: there is a report for each of the `flow_count` flows, and room for as many results.
                unsafe { results.add(index).write(CResult::from(report)) };
            }
            0
        }
        Err(e) => {
            let text = e.to_string();
            let length = text.len().min(error_bytes.saturating_sub(1));
            if !error.is_null() && error_bytes > 0 {
                // SAFETY: the caller guarantees `error_bytes` bytes, and `length` is less.
                unsafe {
                    std::ptr::copy_nonoverlapping(text.as_ptr().cast(), error, length);
                    error.add(length).write(0);
                }
            }
            -1
        }
    }
}

/// # Safety
///
/// Each flow's controller must be valid, and its functions must follow the header.
unsafe fn simulate(path: &CPath, flows: &[CFlow], duration: Duration) -> Result<Vec<FlowReport>> {
    let mut emulated =
        Path::new(path.mbit_per_s, Duration::from_nanos(path.rtt_ns)).loss(path.loss_ratio).seed(path.seed);
    if path.buffer_bytes > 0 {
        emulated = emulated.buffer_bytes(path.buffer_bytes);
    }
    let mut simulation = Simulation::new(emulated);
    for flow in flows {
        // SAFETY: the caller guarantees that it is valid, or NULL.
        let functions =
            *unsafe { flow.controller.as_ref() }.ok_or_else(|| invalid("a controller is NULL"))?;
        if functions.create.is_none()
            || functions.on_ack.is_none()
            || functions.on_congestion.is_none()
            || functions.window_bytes.is_none()
        {
            return Err(invalid("create, on_ack, on_congestion or window_bytes is NULL"));
        }
        let traffic = match flow.message_bytes {
            0 => Traffic::Bulk,
            bytes => Traffic::Messages { bytes, every: Duration::from_nanos(flow.message_interval_ns) },
        };
        let start = Duration::from_nanos(flow.start_ns);
        simulation = simulation.flow(quinn::flow(Factory { functions }).traffic(traffic).start(start));
    }
    Ok(simulation.run(duration)?.flows)
}

impl From<&FlowReport> for CResult {
    fn from(report: &FlowReport) -> Self {
        CResult {
            goodput_bytes_per_s: report.goodput_bytes_per_s(),
            goodput_share: report.goodput_share(),
            lost_share: report.lost_share(),
            rtt_p50_ns: nanos(report.rtt(50.0)),
            rtt_p95_ns: nanos(report.rtt(95.0)),
            window_max_bytes: report.window_max_bytes(),
            reductions: report.reductions.len() as u64,
            longest_stall_ns: nanos(report.longest_stall),
        }
    }
}

struct Factory {
    functions: Functions,
}

// SAFETY: a simulation runs in the thread that called it, and so do the functions; quinn's traits ask for it because its
// connections may move between threads.
unsafe impl Send for Factory {}
// SAFETY: as above.
unsafe impl Sync for Factory {}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(InC::new(self.functions, now, current_mtu))
    }
}

/// A controller whose state is in C.
struct InC {
    functions: Functions,
    state: *mut c_void,
    epoch: Instant,
    initial_window_bytes: u64,
    mtu_bytes: u16,
}

// SAFETY: as for `Factory`.
unsafe impl Send for InC {}
// SAFETY: as for `Factory`.
unsafe impl Sync for InC {}

impl InC {
    fn new(functions: Functions, epoch: Instant, mtu_bytes: u16) -> Self {
        // SAFETY: the header asks for a function that can be called with its own context.
        let state = functions.create.map(|create| unsafe { create(functions.context, mtu_bytes) });
        let state = state.unwrap_or(std::ptr::null_mut());
        let mut made = InC { functions, state, epoch, initial_window_bytes: 0, mtu_bytes };
        made.initial_window_bytes = made.window();
        made
    }

    fn since_epoch(&self, time: Instant) -> u64 {
        nanos(time.saturating_duration_since(self.epoch))
    }
}

impl Controller for InC {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        if let Some(on_sent) = self.functions.on_sent {
            // SAFETY: the state is what `create` returned.
            unsafe { on_sent(self.state, self.since_epoch(now), bytes) };
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let ack = Ack {
            now_ns: self.since_epoch(now),
            sent_ns: self.since_epoch(sent),
            bytes,
            smoothed_rtt_ns: nanos(rtt.get()),
            min_rtt_ns: nanos(rtt.min()),
            app_limited,
        };
        if let Some(on_ack) = self.functions.on_ack {
            // SAFETY: the state is what `create` returned.
            unsafe { on_ack(self.state, &raw const ack) };
        }
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        if let Some(on_acks_end) = self.functions.on_acks_end {
            // SAFETY: the state is what `create` returned.
            unsafe { on_acks_end(self.state, self.since_epoch(now), in_flight, app_limited) };
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let congestion = Congestion {
            now_ns: self.since_epoch(now),
            sent_ns: self.since_epoch(sent),
            lost_bytes,
            persistent: is_persistent_congestion,
        };
        if let Some(on_congestion) = self.functions.on_congestion {
            // SAFETY: the state is what `create` returned.
            unsafe { on_congestion(self.state, &raw const congestion) };
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu_bytes = new_mtu;
        if let Some(on_mtu) = self.functions.on_mtu {
            // SAFETY: the state is what `create` returned.
            unsafe { on_mtu(self.state, new_mtu) };
        }
    }

    fn window(&self) -> u64 {
        // SAFETY: the state is what `create` returned.
        self.functions.window_bytes.map_or(0, |window_bytes| unsafe { window_bytes(self.state) })
    }

    /// quinn clones a controller when the path of a connection changes, which no simulation does: the clone has the state of a new connection.
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(InC::new(self.functions, self.epoch, self.mtu_bytes))
    }

    fn initial_window(&self) -> u64 {
        self.initial_window_bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Drop for InC {
    fn drop(&mut self) {
        if let Some(destroy) = self.functions.destroy {
            // SAFETY: the state is what `create` returned, and is not used again.
            unsafe { destroy(self.state) };
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn invalid(why: &str) -> Error {
    Error::new("quic_sim.bad_argument", "ccp_simulate cannot use its arguments").why(why)
}
