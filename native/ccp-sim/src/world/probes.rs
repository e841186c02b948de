//! Path probes: echo requests, as sent by `ping`, and their RTTs.

use std::net::IpAddr;

use super::World;
use super::timers::Timers;
use crate::Result;
use crate::packet::{Payload, SimPacket};
use crate::plan::Family;

#[derive(Debug)]
struct Probe {
    host: usize,
    peer: usize,
    v6: bool,
    every_ns: u64,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Echo {
    /// Name of the probing host.
    pub host: String,
    /// Address of the replying host.
    pub peer: IpAddr,
    pub at_us: u64,
    pub rtt_us: u64,
}

#[derive(Debug, Default)]
pub(super) struct Probes {
    probes: Vec<Probe>,
    timers: Timers,
    echoes: Vec<Echo>,
}

impl Probes {
    /// No probe is sent before this time.
    pub fn next_ns(&self) -> u64 {
        self.timers.next_ns()
    }
}

impl World {
    /// Probes a peer from a host at this interval from now on. Errors: `sim.no_host`.
    pub fn probe(&mut self, host: &str, peer: &str, every_us: u64, family: Family) -> Result<()> {
        let v6 = family == Family::Ipv6;
        let host = self.hosts.find(host, "host", v6)?;
        let peer = self.hosts.find(peer, "peer", v6)?;
        let every_ns = every_us.max(1).saturating_mul(1000);
        self.probes.probes.push(Probe { host, peer, v6, every_ns });
        self.probes.timers.set(self.probes.probes.len() - 1, Some(self.now_ns));
        Ok(())
    }

    pub(super) fn send_probes(&mut self) {
        while let Some(number) = self.probes.timers.take(self.now_ns) {
            let Probe { host, peer, v6, every_ns } = self.probes.probes[number];
            let packet =
                SimPacket::datagram(v6, Payload::Probe { number: number as u32, sent_ns: self.now_ns });
            self.counters.sent_pkts += 1;
            self.network.arrive(self.now_ns, host, peer, packet);
            self.probes.timers.set(number, Some(self.now_ns.saturating_add(every_ns)));
        }
    }

    /// A probe arrived; it is answered immediately.
    pub(super) fn answer_probe(&mut self, number: u32, sent_ns: u64) {
        let Probe { host, peer, v6, .. } = self.probes.probes[number as usize];
        self.counters.sent_pkts += 1;
        let packet = SimPacket::datagram(v6, Payload::Echo { number, sent_ns });
        self.network.arrive(self.now_ns, peer, host, packet);
    }

    pub(super) fn on_echo(&mut self, number: u32, sent_ns: u64) {
        let Probe { host, peer, v6, .. } = self.probes.probes[number as usize];
        self.probes.echoes.push(Echo {
            host: self.hosts.name(host).to_owned(),
            peer: self.hosts.address_of(peer, v6).to_canonical(),
            at_us: self.now_ns / 1000,
            rtt_us: (self.now_ns - sent_ns) / 1000,
        });
    }

    /// Replies since the last call.
    pub fn take_echoes(&mut self) -> Vec<Echo> {
        std::mem::take(&mut self.probes.echoes)
    }
}
