//! What a source does: it makes the extension headers of packets.

use ccp_ioam::TcpState;

use crate::recent::Recent;
use crate::{FlowKey, Result, SourceSpec};

/// Numbers go on for so long after a flow's last packet: longer than a sink remembers it.
const KEEP_NS: u64 = 120_000_000_000;

/// Makes headers, which are Hop-by-Hop Options with a trace and Destination Options with the rest.
#[derive(Debug)]
pub struct Source {
    spec: SourceSpec,
    /// Headers ready for a packet but for what differs between packets.
    headers: Vec<u8>,
    /// Where the Destination Options header begins.
    destination_at: usize,
    /// The Destination Options header, while its options are made.
    destination: Vec<u8>,
    /// Number of each flow's next packet.
    flows: Recent<u64>,
}

impl Source {
    /// A source of packets that are all to look alike.
    ///
    /// # Errors
    ///
    /// Those of [`SourceSpec::check`].
    pub fn new(spec: SourceSpec) -> Result<Self> {
        let made = spec.headers()?;
        let destination_at = made.hop_by_hop.len();
        let headers = [made.hop_by_hop, made.destination].concat();
        let destination = Vec::with_capacity(headers.len());
        Ok(Source { spec, headers, destination_at, destination, flows: Recent::new(KEEP_NS) })
    }

    /// Counts a packet of a flow, and gives the headers for it if it is to carry any: the first of them is a
    /// Hop-by-Hop Options header, and the last one names `next_header` as what follows.
    ///
    /// Each packet has to be told, since sinks find out from the numbers what was lost. `wall_ns` is the time since
    /// 1970; `tcp` says what the sender's TCP has in mind, and is asked only if it matters.
    pub fn headers(
        &mut self,
        flow: &FlowKey,
        wall_ns: u64,
        next_header: u8,
        tcp: impl FnOnce() -> Option<TcpState>,
    ) -> Option<&[u8]> {
        let next = self.flows.seen(flow, wall_ns, || 0);
        let sequence = *next;
        *next += 1;
        if !sequence.is_multiple_of(self.spec.every_pkts.into()) {
            return None;
        }
        let tcp = if self.spec.tcp_state { tcp() } else { None };
        self.destination.clear();
        self.destination.extend([next_header, self.headers[self.destination_at + 1]]);
        for option in self.spec.end_to_end(sequence, wall_ns, tcp.unwrap_or_default()) {
            option.append(&mut self.destination).ok()?;
        }
        self.headers[self.destination_at..][..self.destination.len()].copy_from_slice(&self.destination);
        Some(&self.headers)
    }
}
