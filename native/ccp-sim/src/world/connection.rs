//! One TCP connection: both ends, and the handshake.

use ccp_int::{FlowKey, Protocol};
use ccp_record::flow::tcp_arrivals;
use ccp_tcp::{Config, Receiver, Sender};

use crate::control::Control;
use crate::packet::Way;

/// First retransmission of a SYN (RFC 6298, section 2.1).
const SYN_TIMEOUT_NS: u64 = 1_000_000_000;
/// Number of retransmissions of a SYN (net.ipv4.tcp_syn_retries).
const SYN_RETRIES: u32 = 6;

pub(super) struct Half {
    /// None until its end of the connection is established, and after the connection.
    pub sender: Option<Sender<Control>>,
    pub receiver: Receiver,
}

impl Half {
    fn new(config: &Config) -> Self {
        Half { sender: None, receiver: Receiver::new(config) }
    }

    fn due_ns(&self) -> Option<u64> {
        let sent_ns = self.sender.as_ref().and_then(Sender::due_ns);
        sent_ns.into_iter().chain(self.receiver.due_ns()).min()
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    Opening {
        sent_ns: u64,
        again_ns: u64,
        again: u32,
    },
    /// The opener has received an answer.
    Open,
    /// Closed; later packets are ignored.
    Closed,
}

/// State of the other end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Accepting {
    /// Nothing received.
    No,
    /// It answered a SYN at this time; after more than one, the RTT is unknown.
    Answered { at_ns: u64, again: bool },
    /// It has received the opener's answer.
    Accepted,
}

pub(super) struct Connection {
    pub flow: usize,
    /// Index of the flow's client or stream.
    pub nth: usize,
    /// Of data, as in packets of data.
    pub key: FlowKey,
    pub v6: bool,
    /// Hosts of the sender and the receiver of data.
    pub sender: usize,
    pub receiver: usize,
    /// The receiver of data opens the connection.
    pub receiver_opens: bool,
    pub config: Config,
    pub control: Option<Control>,
    pub phase: Phase,
    pub accepting: Accepting,
    pub data: Half,
    /// Only if something is requested.
    pub request: Option<Half>,
    /// Requests answered by the sender of data.
    pub answered: u64,
    /// Bytes of data that arrived in order, known to the application.
    pub seen_bytes: u64,
    /// Time of the last row of its sender's socket.
    pub row_ns: Option<u64>,
    /// Retransmissions of its sender, once it is closed.
    pub retrans_pkts: u32,
    /// Counters of the receiver of data, if enabled.
    pub arrivals: Option<Box<Arrivals>>,
}

/// Received bytes, now and at the last query.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    pub now: tcp_arrivals,
    pub before: tcp_arrivals,
}

pub(super) struct Made {
    pub flow: usize,
    pub nth: usize,
    pub key: FlowKey,
    pub v6: bool,
    pub sender: usize,
    pub receiver: usize,
    pub receiver_opens: bool,
    pub config: Config,
    pub control: Control,
}

impl Connection {
    pub fn new(made: Made, now_ns: u64) -> Self {
        let Made { flow, nth, key, v6, sender, receiver, receiver_opens, config, control } = made;
        Connection {
            flow,
            nth,
            key,
            v6,
            sender,
            receiver,
            receiver_opens,
            data: Half::new(&config),
            request: receiver_opens.then(|| Half::new(&config)),
            config,
            control: Some(control),
            phase: Phase::Opening { sent_ns: now_ns, again_ns: now_ns + SYN_TIMEOUT_NS, again: 0 },
            accepting: Accepting::No,
            answered: 0,
            seen_bytes: 0,
            row_ns: None,
            retrans_pkts: 0,
            arrivals: None,
        }
    }

    /// The direction, if the connection has it.
    pub fn half_mut(&mut self, way: Way) -> Option<&mut Half> {
        match way {
            Way::Data => Some(&mut self.data),
            Way::Request => self.request.as_mut(),
        }
    }

    /// The hosts that open and accept the connection.
    pub fn opener(&self) -> (usize, usize) {
        if self.receiver_opens { (self.receiver, self.sender) } else { (self.sender, self.receiver) }
    }

    pub fn ends(&self, way: Way) -> (usize, usize) {
        match way {
            Way::Data => (self.sender, self.receiver),
            Way::Request => (self.receiver, self.sender),
        }
    }

    /// The flow of packets sent by this end.
    pub fn key_from(&self, node: usize) -> FlowKey {
        if node == self.sender {
            return self.key;
        }
        let FlowKey { src, dst, src_port, dst_port, .. } = self.key;
        FlowKey { src: dst, dst: src, src_port: dst_port, dst_port: src_port, protocol: Protocol::Tcp }
    }

    pub fn due_ns(&self) -> Option<u64> {
        match self.phase {
            Phase::Opening { again_ns, .. } => Some(again_ns),
            Phase::Open => {
                let request_ns = self.request.as_ref().and_then(Half::due_ns);
                request_ns.into_iter().chain(self.data.due_ns()).min()
            }
            Phase::Closed => None,
        }
    }

    /// Whether the SYN is to be sent again now; the interval doubles. False, and closed, after too many.
    pub fn opens_again(&mut self, now_ns: u64) -> bool {
        let Phase::Opening { sent_ns, again_ns, again } = self.phase else { return false };
        if now_ns < again_ns {
            return false;
        }
        if again == SYN_RETRIES {
            self.phase = Phase::Closed;
            return false;
        }
        let again_ns = now_ns + (SYN_TIMEOUT_NS << (again + 1));
        self.phase = Phase::Opening { sent_ns, again_ns, again: again + 1 };
        true
    }

    /// The SYN was answered: the RTT, if known; `None` if already open.
    pub fn opened(&mut self, now_ns: u64) -> Option<Option<u32>> {
        let Phase::Opening { sent_ns, again, .. } = self.phase else { return None };
        self.phase = Phase::Open;
        Some((again == 0).then(|| rtt_us(sent_ns, now_ns)))
    }

    /// The opener's first packet: the RTT, if known; `None` if already accepted.
    pub fn accepted(&mut self, now_ns: u64) -> Option<Option<u32>> {
        let Accepting::Answered { at_ns, again } = self.accepting else { return None };
        self.accepting = Accepting::Accepted;
        Some((!again).then(|| rtt_us(at_ns, now_ns)))
    }

    /// A SYN arrived, and is answered.
    pub fn answers(&mut self, now_ns: u64) {
        self.accepting = match self.accepting {
            Accepting::No => Accepting::Answered { at_ns: now_ns, again: false },
            Accepting::Answered { at_ns, .. } => Accepting::Answered { at_ns, again: true },
            Accepting::Accepted => Accepting::Accepted,
        };
    }

    /// Creates the sender of a direction whose end is established.
    pub fn establish(&mut self, now_ns: u64, way: Way, rtt_us: Option<u32>) {
        let control = match way {
            Way::Data => self.control.take(),
            // Requests are short: any congestion control will do.
            Way::Request => Control::plain("cubic"),
        };
        let config = self.config.clone();
        if let (Some(control), Some(half)) = (control, self.half_mut(way)) {
            half.sender = Some(Sender::new(&config, control, now_ns, rtt_us));
        }
    }
}

fn rtt_us(sent_ns: u64, now_ns: u64) -> u32 {
    u32::try_from((now_ns - sent_ns) / 1000).unwrap_or(u32::MAX).max(1)
}
