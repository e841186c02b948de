//! The state of the sending TCP, end to end: an experimental option (RFC 4727), since IOAM has none for it.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::wire::{bad_length, bad_value, cannot_write, known};

/// Length after type and length, without a super-packet's part.
const BYTES: usize = 10;
const VERSION: u8 = 1;
const TRACED: u8 = 1;
const WANTS_ECHO: u8 = 2;
const SUPER: u8 = 4;

/// State of the sending TCP at transmission. `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpState {
    pub cwnd_bytes: Option<u32>,
    /// Segment size; for a super-packet, the payload of each segment but the last.
    pub mss_bytes: Option<u16>,
    /// The source removes [`crate::PathEcho`] from ACKs.
    pub wants_echo: bool,
    /// The packet is a super-packet or one of its segments: lower half of the first segment's TCP sequence number.
    pub first_sequence: Option<u16>,
}

impl TcpState {
    /// Number of the experiment, since the option type is shared.
    pub const EXPERIMENT: u16 = 0x6363;

    /// Parses it if it is one; `at` is the offset after the option's length. Errors: `ioam.bad_length` or
    /// `ioam.bad_value`.
    pub fn read(data: &[u8], at: usize) -> Option<Result<Self>> {
        let (experiment, rest) = data.split_first_chunk::<2>()?;
        (u16::from_be_bytes(*experiment) == Self::EXPERIMENT).then(|| Self::read_rest(rest, at))
    }

    fn read_rest(rest: &[u8], at: usize) -> Result<Self> {
        let bad_size = || {
            let why = format!("{} bytes, neither {BYTES} nor {}", rest.len() + 2, BYTES + 2);
            bad_length("TCP state", at, why)
        };
        let ([version, flags, m0, m1, c0, c1, c2, c3], first) =
            rest.split_first_chunk::<8>().ok_or_else(bad_size)?;
        if *version != VERSION {
            return Err(bad_value(
                "TCP state version",
                at + 2,
                format!("{version}; this program supports 1"),
            ));
        }
        let first_sequence = match first {
            [] => None,
            [f0, f1] => Some(u16::from_be_bytes([*f0, *f1])),
            _ => return Err(bad_size()),
        };
        let cwnd_bytes = known(u32::from_be_bytes([*c0, *c1, *c2, *c3]), u32::MAX);
        if (flags & TRACED != 0) != cwnd_bytes.is_some() {
            return Err(bad_value("TCP state flags", at + 3, "the TCP flag contradicts the window"));
        }
        if flags & SUPER != 0 && first_sequence.is_none() {
            return Err(bad_value("TCP state flags", at + 3, "a super-packet has no first segment"));
        }
        Ok(TcpState {
            cwnd_bytes,
            mss_bytes: known(u16::from_be_bytes([*m0, *m1]), u16::MAX),
            wants_echo: flags & WANTS_ECHO != 0,
            first_sequence: first_sequence.filter(|_| flags & SUPER != 0),
        })
    }

    /// Appends it from the experiment's number on. Errors: `ioam.cannot_write`.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.cwnd_bytes == Some(u32::MAX) || self.mss_bytes == Some(u16::MAX) {
            return Err(cannot_write("cwnd_bytes or mss_bytes", "the value with all bits set means unknown"));
        }
        out.extend(Self::EXPERIMENT.to_be_bytes());
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.cwnd_bytes.is_some(), TRACED)
            | flag(self.wants_echo, WANTS_ECHO)
            | flag(self.first_sequence.is_some(), SUPER);
        out.extend([VERSION, flags]);
        out.extend(self.mss_bytes.unwrap_or(u16::MAX).to_be_bytes());
        out.extend(self.cwnd_bytes.unwrap_or(u32::MAX).to_be_bytes());
        if let Some(first) = self.first_sequence {
            out.extend(first.to_be_bytes());
        }
        Ok(())
    }
}
