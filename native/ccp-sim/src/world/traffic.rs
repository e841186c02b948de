//! Packets from and to connections.

use ccp_emu::{Ecn, Packet};
use ccp_ioam::PathEcho;
use ccp_tcp::{Ack, Data};

use super::World;
use super::connection::{Accepting, Connection, Phase};
use crate::packet::{Payload, SimPacket, Way};

impl World {
    /// Hands arrived packets to their connections.
    pub(super) fn deliver(&mut self) {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        for delivery in deliveries.drain(..) {
            self.take(delivery.packet);
        }
        // Nothing was added meanwhile: packets move only with time.
        self.deliveries = deliveries;
    }

    fn take(&mut self, packet: SimPacket) {
        if packet.is_corrupted {
            self.counters.corrupted_pkts += 1;
            return;
        }
        let is_ce = packet.ecn() == Ecn::Ce;
        let echo = packet.path_echo();
        let index = packet.connection as usize;
        match packet.payload {
            Payload::Probe { number, sent_ns } => self.answer_probe(number, sent_ns),
            Payload::Echo { number, sent_ns } => self.on_echo(number, sent_ns),
            Payload::Media { flow, number, .. } => self.on_media(flow, number),
            Payload::SenderReport { flow, sent_ns } => self.on_sender_report(flow, sent_ns),
            Payload::Report { flow, report } => self.on_media_report(flow, &report),
            _ if self.connections[index].phase == Phase::Closed => {
                self.counters.stray_pkts += 1;
                return;
            }
            Payload::Syn => self.on_syn(index),
            Payload::SynAck => self.on_opened(index),
            Payload::Opened => self.on_accepted(index),
            Payload::Data(way, data) => self.on_data(index, way, &data, is_ce),
            Payload::Ack(way, ack) => self.on_ack(index, way, &ack, echo.as_ref()),
        }
        self.counters.taken_pkts += 1;
    }

    fn on_syn(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.answers(self.now_ns);
        let (_, acceptor) = connection.opener();
        self.send(index, acceptor, false, Payload::SynAck);
    }

    /// The opener received an answer.
    fn on_opened(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let (opener, _) = connection.opener();
        let way = if connection.receiver_opens { Way::Request } else { Way::Data };
        let opened = connection.opened(self.now_ns);
        if let Some(rtt_us) = opened {
            connection.establish(self.now_ns, way, rtt_us);
            if connection.receiver_opens {
                connection.data.receiver.establish(rtt_us);
            }
        }
        self.send(index, opener, false, Payload::Opened);
        if opened.is_some() {
            self.on_established(index, way);
        }
    }

    /// The accepting end received the opener's answer.
    fn on_accepted(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(rtt_us) = connection.accepted(self.now_ns) else { return };
        if connection.receiver_opens {
            connection.establish(self.now_ns, Way::Data, rtt_us);
            self.set_timer(index);
        } else {
            connection.data.receiver.establish(rtt_us);
        }
    }

    fn on_data(&mut self, index: usize, way: Way, data: &Data, is_ce: bool) {
        if self.connections[index].accepting != Accepting::Accepted {
            self.on_accepted(index);
        }
        let now_ns = self.now_ns;
        match way {
            Way::Data => self.connections[index].count_arrival(now_ns, data, is_ce),
            Way::Request => self.sample_socket(index),
        }
        let connection = &mut self.connections[index];
        let (_, taker) = connection.ends(way);
        let Some(half) = connection.half_mut(way) else { return };
        for ack in half.receiver.on_data(now_ns, data, is_ce) {
            self.send(index, taker, false, Payload::Ack(way, ack));
        }
        self.on_received(index, way);
        self.set_timer(index);
    }

    fn on_ack(&mut self, index: usize, way: Way, ack: &Ack, echo: Option<&PathEcho>) {
        if self.connections[index].accepting != Accepting::Accepted {
            self.on_accepted(index);
        }
        if way == Way::Data {
            self.sample_socket(index);
        }
        let connection = &mut self.connections[index];
        let Some(sender) = connection.half_mut(way).and_then(|half| half.sender.as_mut()) else { return };
        if let (Some(echo), Some(flow)) = (echo, sender.congestion.agent_mut()) {
            flow.receive(echo);
        }
        sender.on_ack(self.now_ns, ack);
        if way == Way::Data && self.flows[connection.flow].app.refills() {
            self.fill(index);
        }
        self.pump(index, way);
    }

    /// Sends what is allowed now, and sets the timer.
    pub(super) fn pump(&mut self, index: usize, way: Way) {
        let now_ns = self.now_ns;
        loop {
            let connection = &mut self.connections[index];
            let Some(sender) = connection.half_mut(way).and_then(|half| half.sender.as_mut()) else { return };
            let Some(data) = sender.next_segment(now_ns) else { break };
            let (from, _) = connection.ends(way);
            let ect = data.ect;
            self.send(index, from, ect, Payload::Data(way, data));
        }
        let sender = self.connections[index].data.sender.as_ref();
        if way == Way::Data && sender.is_some_and(ccp_tcp::Sender::is_done) {
            self.close_connection(index);
            self.on_connection_end(index);
        } else {
            self.set_timer(index);
        }
    }

    pub(super) fn set_timer(&mut self, index: usize) {
        self.connection_timers.set(index, self.connections[index].due_ns());
    }

    pub(super) fn on_connection_timer(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let connection = &mut self.connections[index];
        if connection.opens_again(now_ns) {
            let (opener, _) = connection.opener();
            self.send(index, opener, false, Payload::Syn);
        }
        match self.connections[index].phase {
            Phase::Opening { .. } => self.set_timer(index),
            Phase::Closed => self.on_connection_end(index),
            Phase::Open => {
                for way in [Way::Data, Way::Request] {
                    self.on_half_timer(index, way);
                }
            }
        }
    }

    fn on_half_timer(&mut self, index: usize, way: Way) {
        let now_ns = self.now_ns;
        let connection = &mut self.connections[index];
        let (_, taker) = connection.ends(way);
        let is_due = |due_ns: Option<u64>| due_ns.is_some_and(|at_ns| at_ns <= now_ns);
        let Some(half) = connection.half_mut(way) else { return };
        let ack = if is_due(half.receiver.due_ns()) { half.receiver.on_timer(now_ns) } else { None };
        if let Some(sender) = half.sender.as_mut().filter(|sender| is_due(sender.due_ns())) {
            sender.on_timer(now_ns);
        }
        if let Some(ack) = ack {
            self.send(index, taker, false, Payload::Ack(way, ack));
        }
        self.pump(index, way);
        self.set_timer(index);
    }

    pub(super) fn send(&mut self, index: usize, from: usize, ect: bool, payload: Payload) {
        let connection = &self.connections[index];
        let to = connection.other(from);
        let inband = self.inband.as_mut().map(|inband| inband.of_packet(connection, from));
        let packet =
            SimPacket::new(index as u32, from == connection.receiver, connection.v6, ect, payload, inband);
        self.counters.sent_pkts += 1;
        self.network.arrive(self.now_ns, from, to, packet);
    }

    /// Closes both ends of a connection.
    pub(super) fn close_connection(&mut self, index: usize) {
        if self.connections[index].phase == Phase::Closed {
            return;
        }
        self.last_row(index);
        let connection = &mut self.connections[index];
        connection.phase = Phase::Closed;
        if let Some(mut sender) = connection.data.sender.take() {
            connection.retrans_pkts = sender.sock.total_retrans;
            sender.congestion.close(&sender.sock);
        }
        if let Some(request) = &mut connection.request {
            request.sender = None;
        }
        if let Some(arrivals) = &mut connection.arrivals {
            arrivals.now.closed = 1;
        }
        self.set_timer(index);
    }
}

impl Connection {
    fn other(&self, node: usize) -> usize {
        if node == self.sender { self.receiver } else { self.sender }
    }

    /// Bytes of data that arrived in order, without the FIN.
    pub fn in_order_bytes(&self) -> u64 {
        self.data.receiver.totals.in_order_bytes
    }
}
