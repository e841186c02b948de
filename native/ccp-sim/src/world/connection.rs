//! One TCP connection: both its ends, and its handshake.

use ccp_int::{FlowKey, Protocol};
use ccp_record::flow::tcp_arrivals;
use ccp_tcp::{Config, Receiver, Sender};

use crate::control::Control;
use crate::packet::Way;

/// When a SYN that nobody answered is sent again for the first time (RFC 6298, section 2.1).
const SYN_TIMEOUT_NS: u64 = 1_000_000_000;
/// So often it is sent again (net.ipv4.tcp_syn_retries).
const SYN_RETRIES: u32 = 6;

/// A direction of data: from who sends it to who gets it.
pub(super) struct Half {
    /// None until its end of the connection is established, and when the connection is over.
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

/// How far the connection is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// A SYN is out.
    Opening {
        /// When it was sent first.
        sent_ns: u64,
        /// When it is sent again.
        again_ns: u64,
        /// How often it has been sent again.
        again: u32,
    },
    /// Whoever opened it has heard of the other.
    Open,
    /// It is over; what still comes is for nobody.
    Closed,
}

/// What the other end knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Accepting {
    /// Of nothing.
    No,
    /// It answered a SYN at this time; it cannot tell how long the way is if it answered more than one.
    Answered { at_ns: u64, again: bool },
    /// It has heard of the one who opens.
    Accepted,
}

pub(super) struct Connection {
    pub flow: usize,
    /// Which of its flow's clients or streams.
    pub nth: usize,
    /// Of data, as packets of data have it.
    pub key: FlowKey,
    pub v6: bool,
    /// Hosts of who sends the data, and of who gets it.
    pub sender: usize,
    pub receiver: usize,
    /// Who gets the data opens the connection.
    pub receiver_opens: bool,
    pub config: Config,
    /// What its sender will steer with.
    pub control: Option<Control>,
    pub phase: Phase,
    pub accepting: Accepting,
    pub data: Half,
    /// Only where something is asked for.
    pub request: Option<Half>,
    /// Requests that the sender of data has answered.
    pub answered: u64,
    /// Bytes of data that have arrived in order, and of which the application knows.
    pub seen_bytes: u64,
    /// When its sender's socket gave its last row.
    pub row_ns: Option<u64>,
    /// What its sender has sent again, when it is over.
    pub retrans_pkts: u32,
    /// What the receiver of data counts, where somebody wants to know.
    pub arrivals: Option<Box<Arrivals>>,
}

/// What came in, now and when it was last asked for.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    pub now: tcp_arrivals,
    pub before: tcp_arrivals,
}

/// Who a connection is for and how it is to be.
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

    /// The direction in which something travels, if the connection has it.
    pub fn half_mut(&mut self, way: Way) -> Option<&mut Half> {
        match way {
            Way::Data => Some(&mut self.data),
            Way::Request => self.request.as_mut(),
        }
    }

    /// The host that opens the connection, and the one that accepts it.
    pub fn opener(&self) -> (usize, usize) {
        if self.receiver_opens { (self.receiver, self.sender) } else { (self.sender, self.receiver) }
    }

    /// From which host to which one something travels that way.
    pub fn ends(&self, way: Way) -> (usize, usize) {
        match way {
            Way::Data => (self.sender, self.receiver),
            Way::Request => (self.receiver, self.sender),
        }
    }

    /// The flow of packets of the one end, or of the other.
    pub fn key_from(&self, node: usize) -> FlowKey {
        if node == self.sender {
            return self.key;
        }
        let FlowKey { src, dst, src_port, dst_port, .. } = self.key;
        FlowKey { src: dst, dst: src, src_port: dst_port, dst_port: src_port, protocol: Protocol::Tcp }
    }

    /// When something is to be done.
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

    /// Whether the SYN is to be sent again now; the time doubles. False, and closed, if it was sent too often.
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

    /// The SYN has been answered: how long that took, if that can be told; `None` if it is open already.
    pub fn opened(&mut self, now_ns: u64) -> Option<Option<u32>> {
        let Phase::Opening { sent_ns, again, .. } = self.phase else { return None };
        self.phase = Phase::Open;
        Some((again == 0).then(|| rtt_us(sent_ns, now_ns)))
    }

    /// Something came from who opens: how long that took behind the answer, if it can be told; `None` if that is known.
    pub fn accepted(&mut self, now_ns: u64) -> Option<Option<u32>> {
        let Accepting::Answered { at_ns, again } = self.accepting else { return None };
        self.accepting = Accepting::Accepted;
        Some((!again).then(|| rtt_us(at_ns, now_ns)))
    }

    /// A SYN has come, and is answered.
    pub fn answers(&mut self, now_ns: u64) {
        self.accepting = match self.accepting {
            Accepting::No => Accepting::Answered { at_ns: now_ns, again: false },
            Accepting::Answered { at_ns, .. } => Accepting::Answered { at_ns, again: true },
            Accepting::Accepted => Accepting::Accepted,
        };
    }

    /// Makes the sender of a direction whose end of the connection is established.
    pub fn establish(&mut self, now_ns: u64, way: Way, rtt_us: Option<u32>) {
        let control = match way {
            Way::Data => self.control.take(),
            // What asks is short: any congestion control does.
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
