//! Echo of a path from a sink to a sender: an experimental option (RFC 4727) on ACKs.

use serde::{Deserialize, Serialize};

use crate::tcp_state::TcpState;
use crate::wire::{bad_length, bad_value, cannot_write, known, u32_at};
use crate::{Result, State};

/// Length after type and length.
const BYTES: usize = 50;
const KIND: u8 = 2;
const ALL_KNOWN: u8 = 1;
/// Offset of the words from the experiment's number.
const WORDS_AT: usize = 6;
const WORDS: usize = 11;

/// The path of a flow's packets, as found by one packet. `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathEcho {
    pub hops: u8,
    /// Whether all nodes on the path reported their queues.
    pub all_known: bool,
    /// The bottleneck's position from the sender, from 1: where packets wait longest. The fields up to the
    /// number of flows describe the bottleneck.
    pub hop: Option<u8>,
    pub node_id: Option<u32>,
    pub queue_pkts: Option<u32>,
    /// Free room in full-size packets; [`State::UNLIMITED_PKTS`] if it has no limit.
    pub free_pkts: Option<u32>,
    /// Arriving packets per second.
    pub arrival_pkts_per_s: Option<u32>,
    /// Drain rate of its queue while busy.
    pub link_rate_bytes_per_s: Option<u32>,
    pub flow_count: Option<u32>,
    /// Packets of the flow dropped by nodes' queues so far, modulo 2^32, as the next two.
    pub losses_congestion: u32,
    /// Packets of the flow lost by links so far.
    pub losses_link: u32,
    /// Packets of the flow lost so far for unknown reasons.
    pub losses_unknown: u32,
    /// Departure from the source, on the source's clock [s].
    pub sent_s: u32,
    /// Fraction of the second [us].
    pub sent_us: u32,
}

impl PathEcho {
    /// Whether the data of an experimental option is an echo.
    pub(crate) fn is(data: &[u8]) -> bool {
        let experiment = TcpState::EXPERIMENT.to_be_bytes();
        matches!(data, [a, b, KIND, ..] if [*a, *b] == experiment)
    }

    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.free_pkts == Some(State::UNLIMITED_PKTS)
    }

    /// Parses it from the experiment's number, at `at`. Errors: `ioam.bad_length` or `ioam.bad_value`.
    pub(crate) fn read(data: &[u8], at: usize) -> Result<Self> {
        let (BYTES, [_, _, _, flags, hops, hop, ..]) = (data.len(), data) else {
            return Err(bad_length("path echo", at, format!("{} bytes, not {BYTES}", data.len())));
        };
        if hop > hops {
            let why = format!("the bottleneck is hop {hop} of {hops}");
            return Err(bad_value("path echo's hop", at + 5, why));
        }
        let word = |n: usize| u32_at(data, WORDS_AT + 4 * n).unwrap_or(u32::MAX);
        let maybe = |n| known(word(n), u32::MAX);
        Ok(PathEcho {
            hops: *hops,
            all_known: flags & ALL_KNOWN != 0,
            hop: known(*hop, 0),
            node_id: maybe(0),
            queue_pkts: maybe(1),
            free_pkts: maybe(2),
            arrival_pkts_per_s: maybe(3),
            link_rate_bytes_per_s: maybe(4),
            flow_count: maybe(5),
            losses_congestion: word(6),
            losses_link: word(7),
            losses_unknown: word(8),
            sent_s: word(9),
            sent_us: word(10),
        })
    }

    /// Appends it from the experiment's number on. Errors: `ioam.cannot_write`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        let hop = self.hop.unwrap_or(0);
        if self.hop == Some(0) || hop > self.hops {
            return Err(cannot_write("hop", format!("{hop} is not from 1 to {} hops", self.hops)));
        }
        let maybe = [
            self.node_id,
            self.queue_pkts,
            self.free_pkts,
            self.arrival_pkts_per_s,
            self.link_rate_bytes_per_s,
            self.flow_count,
        ];
        if maybe.contains(&Some(u32::MAX)) {
            return Err(cannot_write(
                "a number of the bottleneck",
                "the value with all bits set means unknown",
            ));
        }
        let certain =
            [self.losses_congestion, self.losses_link, self.losses_unknown, self.sent_s, self.sent_us];
        out.extend(TcpState::EXPERIMENT.to_be_bytes());
        out.extend([KIND, if self.all_known { ALL_KNOWN } else { 0 }, self.hops, hop]);
        let words: [u32; WORDS] = std::array::from_fn(|n| match maybe.get(n) {
            Some(value) => value.unwrap_or(u32::MAX),
            None => certain[n - maybe.len()],
        });
        out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        Ok(())
    }
}
