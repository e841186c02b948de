//! Controllers of noq-proto.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use noq_proto as proto;
use noq_proto::{
    Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple, PathId, ServerConfig,
    Transmit,
};

use crate::record::Observed;

// The same text for each stack: their types differ, their methods do not.
#[allow(clippy::duplicate_mod)]
#[path = "connection.rs"]
mod connection;
pub use connection::{flow, flow_with};

fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(config, server, true)
}

fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    data: BytesMut,
    response: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, FourTuple::from_remote(from), ecn, data, response)
}

fn poll_transmit(connection: &mut Connection, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
    let segments = NonZeroUsize::new(connection::MAX_SEGMENTS).unwrap_or(NonZeroUsize::MIN);
    connection.poll_transmit(now, segments, buffer)
}

fn observe(connection: &mut Connection) -> Observed {
    let path = connection.path_stats(PathId::ZERO).unwrap_or_default();
    Observed {
        window_bytes: path.cwnd,
        congestion_events: path.congestion_events,
        lost_bytes: path.lost_bytes,
    }
}
