//! R-TCP's detector, limiter and clients on the host: the same C as in the BPF programs of `ccp-rtcp`, without I/O.

pub mod replay;
pub mod work;

/// The C code's state and parameters, made from `src/host/types.h`.
#[allow(non_camel_case_types, non_upper_case_globals, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
pub mod types {
    include!(concat!(env!("OUT_DIR"), "/types.rs"));
}

/// Name of the datapath extension that keeps flows within rate limits.
pub const EXTENSION: &str = "rate_limits";

mod clients;

pub use clients::{Clients, Connection, Learned};
pub use types::{rtcp_ack as Ack, rtcp_message as Message, rtcp_remote as Remote, rtcp_row as Row};
pub use types::{rtcp_detector, rtcp_options as Options, rtcp_progress as Progress, tcp_sock as Socket};

unsafe extern "C" {
    fn rtcp_host_init(d: *mut rtcp_detector, mss_bytes: u32);
    fn rtcp_host_start(d: *mut rtcp_detector, o: *const Options, now: *const Progress);
    fn rtcp_host_remote_of(remote: *mut Remote, o: *const Options, port: u32);
    fn rtcp_host_ack(d: *mut rtcp_detector, o: *const Options, now: *const Progress);
    fn rtcp_host_tokens_bytes(d: *const rtcp_detector, now_us: u64) -> u32;
    fn rtcp_host_last_us(d: *const rtcp_detector) -> u64;
}

impl Options {
    /// Options from the bytes of Python's `Options.to_bytes`; None if the size differs, or the C code has no
    /// room for them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != size_of::<Self>() {
            return None;
        }
        // SAFETY: the length is right, and any bytes are valid for the structure's integers.
        let options = unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() };
        options.usable().then_some(options)
    }

    #[must_use]
    pub fn usable(&self) -> bool {
        (3..=types::RTCP_MAX_CANDIDATES).contains(&self.n_candidates)
    }

    /// The defaults of `ccp_algs/rtcp/options.py`, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn usual() -> Self {
        Self {
            loss_window_min_rtts_ppm: 7_000_000,
            loss_ratio_ppm: 200_000,
            n_candidates: 9,
            reduction_ratio_ppm: 600_000,
            convergence_min_rtts_ppm: 10_000_000,
            tolerance_ratio_ppm: 5_000,
            excess_buckets_ppm: 2_000_000,
            excess_buckets_again_ppm: 5_000_000,
            excess_rates_ppm: 2_000_000,
            probe_every_rounds: 20,
            probe_rounds: 3,
            probe_gain_ratio_ppm: 200_000,
            margin_ratio_ppm: 990_000,
            floor_pkts: 3,
            pace_cubic: 1,
            observe: 0,
            ipv4_prefix_bits: 32,
            ipv6_prefix_bits: 64,
            ports_per_client: 0,
            falls_apart: 1,
            kept_us: 600_000_000,
            probe_every_pkts: 200,
        }
    }
}

impl Message {
    /// A message of Python's `RateLimited`; an empty one requests nothing. None if the size differs.
    #[must_use]
    pub fn from_bytes(raw: &[u8]) -> Option<Self> {
        if raw.is_empty() {
            return Some(Self::default());
        }
        // SAFETY: the length is right, and any bytes are valid for the structure's integers.
        (raw.len() == size_of::<Self>()).then(|| unsafe { raw.as_ptr().cast::<Self>().read_unaligned() })
    }
}

// Rows are sent as bytes, and gaps would be uninitialised memory.
const _: () = assert!(size_of::<Row>() == 4 * size_of::<u64>() + 4 * size_of::<u32>() + size_of::<Remote>());
const _: () = assert!(size_of::<Remote>() == 24);
const _: () = assert!(size_of::<Ack>() == 2 * size_of::<u64>() + 6 * size_of::<u32>() + 40);

impl Remote {
    /// The client of a port (host order) at an address, IPv4-mapped for IPv4.
    #[must_use]
    pub fn of(address: [u8; 16], port: u16, options: &Options) -> Self {
        let mut remote = Self { address, ..Self::default() };
        // SAFETY: both are complete structures that outlive the call.
        unsafe { rtcp_host_remote_of(&raw mut remote, options, u32::from(port)) };
        remote
    }

    /// For Python's `Remote.from_bytes`.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        // SAFETY: integers without gaps, as asserted above.
        unsafe { std::mem::transmute_copy(self) }
    }
}

impl Row {
    /// Its bytes in a record.
    #[must_use]
    pub fn words(&self) -> [u64; size_of::<Self>() / 8] {
        // SAFETY: integers without gaps, as asserted above.
        unsafe { std::mem::transmute_copy(self) }
    }

    #[must_use]
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        // SAFETY: as above.
        unsafe { std::mem::transmute_copy(self) }
    }
}

impl Ack {
    /// Its bytes for programs.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        // SAFETY: integers without gaps, as asserted above.
        unsafe { std::mem::transmute_copy(self) }
    }
}

impl rtcp_detector {
    /// Estimated level of the token bucket; 0 without a limit.
    #[must_use]
    pub fn tokens_bytes(&self, now_us: u64) -> u32 {
        // SAFETY: the state is a complete structure that outlives the call.
        unsafe { rtcp_host_tokens_bytes(self, now_us) }
    }

    #[must_use]
    pub fn last_us(&self) -> u64 {
        // SAFETY: as above.
        unsafe { rtcp_host_last_us(self) }
    }
}

pub struct Detector {
    state: rtcp_detector,
    options: Options,
}

impl Detector {
    /// Starts without knowledge. Panics if there are too many candidates for the C code.
    #[must_use]
    pub fn new(options: Options, mss_bytes: u16) -> Self {
        assert!(options.usable(), "between 3 and 17 candidates");
        let mut state = rtcp_detector::default();
        // SAFETY: `state` is a complete structure that outlives the call.
        unsafe { rtcp_host_init(&raw mut state, u32::from(mss_bytes)) };
        Self { state, options }
    }

    /// Begins a transfer: data is sent after the application had none, with nothing in flight.
    pub fn start(&mut self, now: &Progress) {
        // SAFETY: all three are complete structures that outlive the call; the options were checked.
        unsafe { rtcp_host_start(&raw mut self.state, &raw const self.options, now) };
    }

    pub fn ack(&mut self, now: &Progress) {
        // SAFETY: as above.
        unsafe { rtcp_host_ack(&raw mut self.state, &raw const self.options, now) };
    }

    /// Estimated level of the token bucket; 0 without a limit.
    #[must_use]
    pub fn tokens_bytes(&self, now_us: u64) -> u32 {
        self.state.tokens_bytes(now_us)
    }

    #[must_use]
    pub fn state(&self) -> &rtcp_detector {
        &self.state
    }
}

#[cfg(test)]
mod limiter;
#[cfg(test)]
mod member_tests;
#[cfg(test)]
mod tests;
