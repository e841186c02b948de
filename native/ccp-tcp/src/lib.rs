//! TCP as in Linux, in virtual time: sender and receiver, at segments, writes and timers.
//!
//! Times are nanoseconds of one monotonic clock, passed by the caller; 0 is before everything. Windows and
//! counts are segments, as in the kernel; sequence numbers are bytes from 0 and never wrap.

mod config;
mod congestion;
mod minmax;
#[cfg(test)]
mod property_tests;
mod rate;
mod receive_window;
mod receiver;
mod reorder;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod sock;
#[cfg(test)]
mod test_path;
mod tick;

pub use config::Config;
pub use congestion::{
    Bbr, Congestion, Cubic, MIN_CWND_PKTS, RateSample, Reno, Steered, pacing_rate_bytes_per_s, reduced_cwnd,
};
pub use receiver::{Acks, Receiver, Totals};
pub use segment::{Ack, Data, SackRange, Sacks};
pub use sender::Sender;
pub use sock::{CaState, INFINITE_SSTHRESH, Sock};
