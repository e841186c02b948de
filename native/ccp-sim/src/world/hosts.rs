//! Hosts, addresses and ports.

use std::net::{IpAddr, Ipv6Addr};

use ccp_emu::Error;
use ccp_emu::spec::Spec;
use ccp_int::{FlowKey, Protocol};

use super::flow::{Flow, State};
use crate::Result;
use crate::app::App;
use crate::packet::header_bytes;
use crate::plan::{Family, Plan};

/// The first automatic port (net.ipv4.ip_local_port_range).
const FIRST_PORT: u16 = 32_768;

#[derive(Debug)]
struct Host {
    name: String,
    ipv4: Option<Ipv6Addr>,
    ipv6: Option<Ipv6Addr>,
    next_port: u16,
}

/// Hosts by their index in the network; routers have no addresses.
#[derive(Debug)]
pub(super) struct Hosts {
    hosts: Vec<Host>,
    links: usize,
    mtu_bytes: u32,
}

impl Hosts {
    pub fn new(spec: &Spec, mtu_bytes: Option<u32>) -> Self {
        let host = |node: &ccp_emu::spec::Node| Host {
            name: node.name.clone(),
            ipv4: node.addresses.iter().find_map(|address| match address {
                IpAddr::V4(v4) => Some(v4.to_ipv6_mapped()),
                IpAddr::V6(_) => None,
            }),
            ipv6: node.addresses.iter().find_map(|address| match address {
                IpAddr::V4(_) => None,
                IpAddr::V6(v6) => Some(*v6),
            }),
            next_port: FIRST_PORT,
        };
        Hosts {
            hosts: spec.nodes.iter().map(host).collect(),
            links: spec.links.len(),
            mtu_bytes: mtu_bytes.unwrap_or(spec.mtu_bytes),
        }
    }

    pub fn links(&self) -> usize {
        self.links
    }

    /// Payload of a full segment over a path with this MTU.
    pub fn mss_bytes(&self, v6: bool, path_mtu_bytes: u32) -> u32 {
        self.mtu_bytes.min(path_mtu_bytes).saturating_sub(header_bytes(v6)).max(1)
    }

    /// Stands for its network namespace.
    pub fn netns(node: usize) -> u32 {
        node as u32 + 1
    }

    /// The host of this name, if it has such an address. Errors: `sim.no_host`.
    pub fn find(&self, name: &str, place: &str, v6: bool) -> Result<usize> {
        let found = self.hosts.iter().position(|host| host.name == name);
        let has_address = |node: &usize| self.address(*node, v6).is_some();
        found.filter(has_address).ok_or_else(|| {
            let names: Vec<_> = (0..self.hosts.len())
                .filter(has_address)
                .map(|node| self.hosts[node].name.as_str())
                .collect();
            Error::new("sim.no_host", format!("no host `{name}` with an address of that family"))
                .at(place)
                .why(format!("hosts with one: {}", names.join(", ")))
        })
    }

    pub fn name(&self, node: usize) -> &str {
        &self.hosts[node].name
    }

    /// An address of that family of a host that has one.
    pub fn address_of(&self, node: usize, v6: bool) -> Ipv6Addr {
        self.address(node, v6).unwrap_or(Ipv6Addr::UNSPECIFIED)
    }

    fn address(&self, node: usize, v6: bool) -> Option<Ipv6Addr> {
        let host = &self.hosts[node];
        if v6 { host.ipv6 } else { host.ipv4 }
    }

    /// The flow of a checked plan, with hosts and ports.
    pub fn flow(&mut self, plan: Plan, now_ns: u64) -> Result<Flow> {
        let v6 = plan.family == Family::Ipv6;
        let sender = self.find(&plan.sender, "sender", v6)?;
        let receiver = self.find(&plan.receiver, "receiver", v6)?;
        if sender == receiver {
            return Err(Error::new("sim.bad_plan", "a flow's sender and receiver must be different hosts")
                .at("receiver"));
        }
        let app = App::new(&plan.app);
        let ports = app.ports() as u16;
        let sport = plan.sport.unwrap_or_else(|| self.take_ports(sender, ports));
        let dport = plan.dport.unwrap_or_else(|| self.take_ports(receiver, ports));
        let started_ns = plan.start_us.saturating_mul(1000).max(now_ns);
        Ok(Flow {
            plan,
            app,
            state: State::Waiting,
            v6,
            sender,
            receiver,
            sport,
            dport,
            connections: Vec::new(),
            started_ns,
            ended_ns: None,
            complete: false,
        })
    }

    fn take_ports(&mut self, node: usize, ports: u16) -> u16 {
        let next = &mut self.hosts[node].next_port;
        let first = *next;
        *next = next.checked_add(ports).unwrap_or(FIRST_PORT);
        first
    }

    /// Key of data packets of a flow's next connection.
    pub fn next_key(&self, flow: &Flow) -> FlowKey {
        let number = flow.connections.len() as u16;
        let further = |opens: bool| if opens { number } else { 0 };
        let sport = flow.sport.wrapping_add(further(!flow.app.receiver_opens()));
        let dport = flow.dport.wrapping_add(further(flow.app.receiver_opens()));
        FlowKey {
            src: self.address_of(flow.sender, flow.v6),
            dst: self.address_of(flow.receiver, flow.v6),
            src_port: sport,
            dst_port: dport,
            protocol: Protocol::Tcp,
        }
    }
}
