//! Events and actions of applications.

use ccp_record::intf::ccp_flow_info;
use ccp_tcp::Config;

use super::connection::{Connection, Made, Phase};
use super::flow::State;
use super::hosts::Hosts;
use super::{World, arrivals};
use crate::agent::AgentFlow;
use crate::app::{App, Next, REQUEST_BYTES};
use crate::control::Control;
use crate::packet::{Payload, Way};

/// AF_INET and AF_INET6.
const FAMILIES: [u8; 2] = [2, 10];

pub(super) fn family(v6: bool) -> u8 {
    FAMILIES[usize::from(v6)]
}

impl World {
    /// A flow starts, is stopped, or its application acts.
    pub(super) fn on_flow_timer(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let flow = &mut self.flows[index];
        match flow.state {
            State::Waiting => {
                flow.state = State::Running;
                let stop_ns = flow.plan.stop_us.map(|us| us.saturating_mul(1000));
                if let App::Rtp(rtp) = &mut flow.app {
                    rtp.begin(now_ns, stop_ns);
                }
                for nth in 0..flow.app.first_connections() {
                    self.open(index, nth);
                }
            }
            State::Running if flow.stop_ns().is_some_and(|at_ns| at_ns <= now_ns) => {
                self.end_flow(index, self.flows[index].ends_by_time());
            }
            State::Running => self.on_app_timer(index),
            State::Over => (),
        }
        self.set_flow_timer(index);
    }

    pub(super) fn set_flow_timer(&mut self, index: usize) {
        self.flow_timers.set(index, self.flows[index].due_ns());
    }

    fn on_app_timer(&mut self, index: usize) {
        let now_ns = self.now_ns;
        match &mut self.flows[index].app {
            App::Bulk(_) => {
                while let App::Bulk(bulk) = &mut self.flows[index].app
                    && let Some(nth) = bulk.take_due(now_ns)
                {
                    self.write(index, nth);
                }
            }
            App::OnOff(_) => self.write(index, 0),
            App::Rtp(_) => self.send_media(index),
            App::Http(_) => {
                while let App::Http(http) = &mut self.flows[index].app
                    && let Some((client, next)) = http.take_due(now_ns)
                {
                    self.go_on(index, client, next);
                }
            }
        }
    }

    /// Lets the application write into one of its first connections.
    fn write(&mut self, flow: usize, nth: usize) {
        if let Some(connection) = self.flows[flow].connections.get(nth).copied() {
            self.fill(connection);
            if self.connections[connection].phase == Phase::Open {
                self.pump(connection, Way::Data);
            }
        }
    }

    /// Lets the application write as much as the connection accepts.
    pub(super) fn fill(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let (flow, nth) = (connection.flow, connection.nth);
        let Some(sender) = &mut connection.data.sender else { return };
        let app = &mut self.flows[flow].app;
        app.fill(self.now_ns, nth, sender);
        if let App::OnOff(on_off) = app
            && on_off.is_over()
        {
            self.end_flow(flow, true);
        }
        self.set_flow_timer(flow);
    }

    fn open(&mut self, index: usize, nth: usize) {
        let flow = &self.flows[index];
        let (sender, receiver) = (flow.sender, flow.receiver);
        let key = self.hosts.next_key(flow);
        let connection = self.connections.len();
        let v6 = flow.v6;
        // What hosts would discover by the first packets that are too large.
        let to = self.network.path_mtu_bytes(sender, receiver);
        let mss_bytes = self.hosts.mss_bytes(v6, to.min(self.network.path_mtu_bytes(receiver, sender)));
        let (control, needs_ecn) = match self.names.find(&flow.plan.congestion) {
            Some((cc_id, needs_ecn)) => {
                let info = ccp_flow_info {
                    saddr: key.src.octets(),
                    daddr: key.dst.octets(),
                    sport: key.src_port,
                    dport: key.dst_port,
                    family: u16::from(family(v6)),
                    mss: mss_bytes,
                    cc_id,
                    netns_inum: Hosts::netns(sender),
                    sock_cookie: connection as u64 + 1,
                    ..ccp_flow_info::default()
                };
                // Slots are connections, which are never reused: so is the generation.
                let flow_id = (connection as u64 + 1) << 32 | connection as u64;
                let agent = AgentFlow::new(&self.shared, flow_id, info, needs_ecn);
                (Some(Control::Agent(Box::new(agent))), needs_ecn)
            }
            // The name existed when the flow was added, and may have been unregistered since: then CUBIC is
            // used, like the kernel's default.
            None => {
                let name = &flow.plan.congestion;
                let control = self.offered(name, &key, sender).or_else(|| Control::plain(name));
                (control.or_else(|| Control::plain("cubic")), false)
            }
        };
        let Some(control) = control else { return };
        let config = Config {
            mss_bytes,
            ecn: flow.plan.ecn || needs_ecn,
            accurate_ecn: needs_ecn,
            ..Config::default()
        };
        let receiver_opens = flow.app.receiver_opens();
        let made = Made { flow: index, nth, key, v6, sender, receiver, receiver_opens, config, control };
        let mut made = Connection::new(made, self.now_ns);
        if self.counts_arrivals {
            made.arrivals = Some(arrivals::of(connection, &key));
        }
        let (opener, _) = made.opener();
        self.connections.push(made);
        self.flows[index].connections.push(connection);
        if let App::Http(http) = &mut self.flows[index].app {
            http.begin(self.now_ns, nth, 0, true);
        }
        self.send(connection, opener, false, Payload::Syn);
        self.set_timer(connection);
    }

    /// The end of a connection that sends in that direction is established.
    pub(super) fn on_established(&mut self, index: usize, way: Way) {
        match way {
            Way::Data => self.fill(index),
            Way::Request => self.ask(index),
        }
        self.pump(index, way);
        let flow = self.connections[index].flow;
        let connections = self.flows[flow].connections.len();
        if self.flows[flow].app.opens_more(connections) {
            self.open(flow, connections);
        }
    }

    fn ask(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let sender = self.connections[index].request.as_mut().and_then(|half| half.sender.as_mut());
        if let Some(sender) = sender {
            sender.write(now_ns, REQUEST_BYTES);
        }
    }

    /// Bytes have arrived, in order or not.
    pub(super) fn on_received(&mut self, index: usize, way: Way) {
        let flow = self.connections[index].flow;
        if let App::Http(_) = &self.flows[flow].app {
            match way {
                Way::Request => self.answer(index),
                Way::Data => self.on_object(index),
            }
        }
    }

    fn answer(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let connection = &mut self.connections[index];
        let asked_bytes = connection.request.as_ref().map_or(0, |half| half.receiver.totals.in_order_bytes);
        let App::Http(http) = &self.flows[connection.flow].app else { return };
        let Some(sender) = &mut connection.data.sender else { return };
        if asked_bytes / REQUEST_BYTES <= connection.answered {
            return;
        }
        connection.answered += 1;
        sender.write(now_ns, http.answer_bytes(connection.nth));
        if !http.persistent {
            sender.finish(now_ns);
        }
        self.pump(index, Way::Data);
    }

    /// The client checks whether its object is complete.
    fn on_object(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let received_bytes = connection.in_order_bytes();
        if received_bytes == connection.seen_bytes {
            return;
        }
        connection.seen_bytes = received_bytes;
        let (flow, client) = (connection.flow, connection.nth);
        if let App::Http(http) = &mut self.flows[flow].app {
            let next = http.received(self.now_ns, client, received_bytes);
            self.go_on(flow, client, next);
            self.set_flow_timer(flow);
        }
    }

    fn go_on(&mut self, flow: usize, client: usize, next: Next) {
        match next {
            Next::Rest | Next::Wait => (),
            Next::Connect => self.open(flow, client),
            Next::Ask => {
                let of_client = |index: &&usize| self.connections[**index].nth == client;
                let Some(index) = self.flows[flow].connections.iter().rev().find(of_client).copied() else {
                    return;
                };
                let received_bytes = self.connections[index].in_order_bytes();
                if let App::Http(http) = &mut self.flows[flow].app {
                    http.begin(self.now_ns, client, received_bytes, false);
                }
                self.ask(index);
                self.pump(index, Way::Request);
            }
            Next::Nothing => {
                if let App::Http(http) = &self.flows[flow].app
                    && http.is_over()
                {
                    self.end_flow(flow, true);
                }
            }
        }
    }

    /// A connection ends: everything is acknowledged, or nobody answered.
    pub(super) fn on_connection_end(&mut self, index: usize) {
        let flow = self.connections[index].flow;
        let is_bulk = matches!(&self.flows[flow].app, App::Bulk(_));
        let mut ends = self.flows[flow].connections.iter().map(|index| &self.connections[*index]);
        let are_closed = ends.all(|connection| connection.phase == Phase::Closed);
        let App::Bulk(bulk) = &self.flows[flow].app else { return };
        if is_bulk && are_closed && self.flows[flow].state == State::Running {
            let complete = bulk.is_written();
            self.end_flow(flow, complete);
        }
        self.set_flow_timer(flow);
    }

    /// Ends a flow; packets in flight belong to nobody.
    fn end_flow(&mut self, index: usize, complete: bool) {
        let flow = &mut self.flows[index];
        if flow.state == State::Over {
            return;
        }
        let stop_ns = flow.plan.stop_us.map_or(u64::MAX, |us| us.saturating_mul(1000));
        let ended_ns = self.now_ns.min(stop_ns.max(flow.started_ns));
        (flow.state, flow.complete, flow.ended_ns) = (State::Over, complete, Some(ended_ns));
        for connection in flow.connections.clone() {
            self.close_connection(connection);
        }
    }
}
