//! Controllers of quinn-proto.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto as proto;
use quinn_proto::{
    Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, ServerConfig, Transmit,
};

use crate::record::Observed;

// The same text for each stack: their types differ, their methods do not.
#[allow(clippy::duplicate_mod)]
#[path = "connection.rs"]
mod connection;
pub use connection::{flow, flow_with};

fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(config, server, true, None)
}

fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    data: BytesMut,
    response: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, from, None, ecn, data, response)
}

fn poll_transmit(connection: &mut Connection, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
    connection.poll_transmit(now, connection::MAX_SEGMENTS, buffer)
}

fn observe(connection: &Connection) -> Observed {
    let path = connection.stats().path;
    Observed {
        window_bytes: path.cwnd,
        congestion_events: path.congestion_events,
        lost_bytes: path.lost_bytes,
    }
}
