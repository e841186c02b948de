//! A source: makes the extension headers of packets.

use ccp_ioam::TcpState;

use crate::recent::Recent;
use crate::{FlowKey, Result, SourceSpec};

/// A flow's numbering is kept for this time after its last packet: longer than a sink remembers the flow.
const KEEP_NS: u64 = 120_000_000_000;

/// Makes headers: Hop-by-Hop Options with a trace, Destination Options with the rest.
#[derive(Debug)]
pub struct Source {
    spec: SourceSpec,
    /// Headers, complete except for what differs between packets.
    headers: Vec<u8>,
    destination_at: usize,
    destination: Vec<u8>,
    flows: Recent<u64>,
}

impl Source {
    /// Errors: those of [`SourceSpec::check`].
    pub fn new(spec: SourceSpec) -> Result<Self> {
        let made = spec.headers()?;
        let destination_at = made.hop_by_hop.len();
        let headers = [made.hop_by_hop, made.destination].concat();
        let destination = Vec::with_capacity(headers.len());
        Ok(Source { spec, headers, destination_at, destination, flows: Recent::new(KEEP_NS) })
    }

    /// Counts a packet of a flow, and returns its headers if it is to carry any: the first is a Hop-by-Hop Options
    /// header, and the last one is followed by `next_header`. Pass each packet, because sinks derive losses from the
    /// numbers. `wall_ns` is the time since 1970; `tcp` returns the state of the sending TCP, if needed.
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
