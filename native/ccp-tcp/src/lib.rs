//! TCP as Linux has it, in virtual time: what a sender and a receiver do when a segment comes, when data is
//! written and when a timer expires.
//!
//! Times are nanoseconds of one clock, which the caller tells and which never goes back; 0 is before everything.
//! Windows and counts are segments, as in the kernel; sequence numbers are bytes from 0 and never wrap.

mod congestion;
mod segment;
mod sock;

pub use congestion::{Congestion, RateSample};
pub use segment::{Ack, Data, SackRange};
pub use sock::{CaState, INFINITE_SSTHRESH, Sock};
