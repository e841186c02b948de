//! A connection of a QUIC stack, both ends. Compiled once for each stack: `super` names what differs.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use ccp_emu::{Ecn, Error, Result};

use super::proto::congestion::ControllerFactory;
use super::proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig,
    Event, ReadError, ServerConfig, StreamId, Transmit, TransportConfig, VarInt, WriteError,
};
use crate::flow::{Begin, Flow, Now, Offered, Pair};
use crate::packet::{Datagram, End};
use crate::record::Record;
use crate::tls;

/// Maximum number of datagrams that leave in one piece, as with segmentation offload on Linux.
pub(super) const MAX_SEGMENTS: usize = 10;
/// What a bulk application keeps written and unread, on top of two windows.
const AHEAD_BYTES: u64 = 1 << 20;
/// Limit of the window in that sum: a controller may return any number.
const AHEAD_MAX_BYTES: u64 = 1 << 28;
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

struct Host {
    end: End,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    peer: SocketAddr,
    /// Sent by the endpoint itself.
    responses: Vec<(Ecn, BytesMut)>,
    buffer: Vec<u8>,
}

struct Connected {
    flow: usize,
    sender: Host,
    receiver: Host,
    is_open: bool,
    outgoing: Option<StreamId>,
    incoming: Option<StreamId>,
    written_bytes: u64,
    received_bytes: u64,
    is_finished: bool,
    is_complete: bool,
}

/// Returns a flow that uses the controllers of this factory.
pub fn flow(factory: impl ControllerFactory + Send + Sync + 'static) -> Flow {
    flow_with(factory, |_| ())
}

/// Returns a flow that uses the controllers of this factory, and changes the sender's configuration. Flow control and
/// idle timeouts are off before the change.
pub fn flow_with(
    factory: impl ControllerFactory + Send + Sync + 'static,
    change: impl FnOnce(&mut TransportConfig) + 'static,
) -> Flow {
    Flow::new(move |begin| {
        let mut transport = unlimited(TransportConfig::default());
        change(&mut transport);
        transport.congestion_controller_factory(Arc::new(factory));
        connect(begin, transport)
    })
}

/// Connects to a receiver; the transport configuration is the sender's. Errors: `quic_sim.tls`, `quic_sim.connection`.
fn connect(begin: Begin, transport: TransportConfig) -> Result<Box<dyn Pair>> {
    let identity = tls::identity()?;
    let [sender_address, receiver_address] =
        [1, 2].map(|last| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 4433)));
    let mut client = ClientConfig::with_root_certificates(identity.roots).map_err(tls::bad)?;
    client.transport_config(Arc::new(transport));
    let mut server =
        ServerConfig::with_single_cert(vec![identity.certificate], identity.key).map_err(tls::bad)?;
    server.transport_config(Arc::new(unlimited(TransportConfig::default())));

    let host = |end, server: Option<ServerConfig>, peer| {
        let mut config = EndpointConfig::default();
        let mut seed = begin.seed;
        seed[0] ^= u8::from(end == End::Receiver);
        config.rng_seed(Some(seed));
        let endpoint = super::endpoint(Arc::new(config), server.map(Arc::new));
        Host { end, endpoint, connection: None, peer, responses: Vec::new(), buffer: Vec::new() }
    };
    let mut sender = host(End::Sender, None, receiver_address);
    let receiver = host(End::Receiver, Some(server), sender_address);
    let connection = sender
        .endpoint
        .connect(begin.now, client, receiver_address, tls::NAME)
        .map_err(|e| bad("the sender cannot connect", e))?;
    sender.connection = Some(connection);
    Ok(Box::new(Connected {
        flow: begin.flow,
        sender,
        receiver,
        is_open: false,
        outgoing: None,
        incoming: None,
        written_bytes: 0,
        received_bytes: 0,
        is_finished: false,
        is_complete: false,
    }))
}

/// Flow control and idle timers that never limit a simulation.
fn unlimited(mut transport: TransportConfig) -> TransportConfig {
    transport
        .max_idle_timeout(None)
        .stream_receive_window(VarInt::MAX)
        .receive_window(VarInt::MAX)
        .send_window(u64::MAX);
    transport
}

impl Host {
    fn receive(&mut self, now: Instant, ecn: Ecn, data: BytesMut) -> Result<()> {
        self.buffer.clear();
        let ecn = EcnCodepoint::from_bits(bits(ecn));
        match super::handle(&mut self.endpoint, now, self.peer, ecn, data, &mut self.buffer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut self.buffer, None);
                self.connection =
                    Some(accepted.map_err(|e| bad("the receiver refused the connection", &e.cause))?);
            }
            Some(DatagramEvent::Response(transmit)) => self.responses.extend(split(&transmit, &self.buffer)),
            None => (),
        }
        Ok(())
    }

    fn expire(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|due| due <= now)
        {
            connection.handle_timeout(now);
        }
    }

    /// Adds what is sent.
    fn transmit(&mut self, now: Now, flow: usize, sent: &mut Vec<Datagram>) {
        let from = self.end;
        let datagram = |(ecn, data)| Datagram { flow, from, ecn, data, sent: now.at };
        sent.extend(self.responses.drain(..).map(datagram));
        let Some((handle, connection)) = &mut self.connection else { return };
        loop {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            self.buffer.clear();
            let Some(transmit) = super::poll_transmit(connection, now.instant, &mut self.buffer) else {
                return;
            };
            sent.extend(split(&transmit, &self.buffer).map(datagram));
        }
    }

    /// Calls back for each event. Errors: `quic_sim.connection` if the connection is lost.
    fn events(&mut self, mut happened: impl FnMut(&Event)) -> Result<()> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        while let Some(event) = connection.poll() {
            if let Event::ConnectionLost { reason } = &event {
                return Err(bad("the connection was lost", reason));
            }
            happened(&event);
        }
        Ok(())
    }

    fn due(&mut self) -> Option<Instant> {
        self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout())
    }
}

impl Connected {
    fn observe(&mut self, now: Now, record: &mut Record) {
        if let Some((_, connection)) = &mut self.sender.connection {
            record.observe(now.at, super::observe(connection));
        }
    }

    fn write(&mut self, offered: Offered, window_bytes: u64) -> Result<()> {
        let is_open = &mut self.is_open;
        self.sender.events(|event| *is_open |= matches!(event, Event::Connected))?;
        let Some((_, connection)) = self.sender.connection.as_mut().filter(|_| self.is_open) else {
            return Ok(());
        };
        if self.outgoing.is_none() {
            self.outgoing = connection.streams().open(Dir::Uni);
        }
        let Some(id) = self.outgoing else { return Ok(()) };
        let (until_bytes, is_end) = match offered {
            Offered::Endless => {
                (self.received_bytes + 2 * window_bytes.min(AHEAD_MAX_BYTES) + AHEAD_BYTES, false)
            }
            Offered::Bytes { total, is_end } => (total, is_end),
        };
        let mut stream = connection.send_stream(id);
        while self.written_bytes < until_bytes {
            let piece = (until_bytes - self.written_bytes).min(ZEROS.len() as u64) as usize;
            match stream.write(&ZEROS[..piece]) {
                Ok(bytes) => self.written_bytes += bytes as u64,
                Err(WriteError::Blocked) => break,
                Err(e) => return Err(bad("the sender cannot write", e)),
            }
        }
        if is_end && self.written_bytes == until_bytes && !self.is_finished {
            stream.finish().map_err(|e| bad("the sender cannot end the stream", e))?;
            self.is_finished = true;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        self.receiver.events(|_| ())?;
        let Some((_, connection)) = &mut self.receiver.connection else { return Ok(()) };
        if self.incoming.is_none() {
            self.incoming = connection.streams().accept(Dir::Uni);
        }
        let Some(id) = self.incoming.filter(|_| !self.is_complete) else { return Ok(()) };
        let mut stream = connection.recv_stream(id);
        let mut chunks = stream.read(true).map_err(|e| bad("the receiver cannot read", e))?;
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.received_bytes += chunk.bytes.len() as u64,
                Ok(None) => {
                    self.is_complete = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(e) => return Err(bad("the receiver cannot read", e)),
            }
        }
        // Whether flow control has to be extended is known to the connection, which is asked next.
        let _ = chunks.finalize();
        Ok(())
    }
}

impl Pair for Connected {
    fn receive(&mut self, now: Now, at: End, ecn: Ecn, data: BytesMut, record: &mut Record) -> Result<()> {
        match at {
            End::Sender => self.sender.receive(now.instant, ecn, data)?,
            End::Receiver => self.receiver.receive(now.instant, ecn, data)?,
        }
        self.observe(now, record);
        Ok(())
    }

    fn advance(
        &mut self,
        now: Now,
        offered: Offered,
        record: &mut Record,
        sent: &mut Vec<Datagram>,
    ) -> Result<()> {
        self.read()?;
        self.receiver.expire(now.instant);
        self.receiver.transmit(now, self.flow, sent);
        self.sender.expire(now.instant);
        self.observe(now, record);
        self.write(offered, record.last.window_bytes)?;
        self.sender.transmit(now, self.flow, sent);
        self.observe(now, record);
        Ok(())
    }

    fn due(&mut self) -> Option<Instant> {
        [self.sender.due(), self.receiver.due()].into_iter().flatten().min()
    }

    fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

fn split<'a>(transmit: &Transmit, buffer: &'a [u8]) -> impl Iterator<Item = (Ecn, BytesMut)> + use<'a> {
    let ecn = Ecn::from_bits(transmit.ecn.map_or(0, |ecn| ecn as u8));
    let segment_bytes = transmit.segment_size.unwrap_or(transmit.size).max(1);
    buffer[..transmit.size].chunks(segment_bytes).map(move |data| (ecn, BytesMut::from(data)))
}

fn bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

fn bad(message: &str, why: impl std::fmt::Display) -> Error {
    Error::new("quic_sim.connection", message).why(why)
}
