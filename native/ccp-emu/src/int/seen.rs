//! What a sink sees of a packet.

use ccp_int::FlowKey;
use ccp_ioam::remove_headers;

use crate::ip::Extension;
use crate::packet::Packet;

/// A packet of a flow, and the headers that it had.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub at_ns: u64,
    /// Whose packet it is.
    pub flow: FlowKey,
    /// Its size, without what was taken off.
    pub len_bytes: u32,
    /// Its hop limit.
    pub hop_limit: Option<u8>,
    /// Its TCP sequence number.
    pub tcp_sequence: Option<u32>,
    /// All extension headers that it had.
    pub extension: Option<Box<Extension>>,
    /// Whether telemetry was taken off.
    pub removed: bool,
}

impl Seen {
    /// Takes telemetry off a packet; other options stay, and so does what cannot be read. `None`: such packets carry
    /// none.
    pub fn off<P: Packet>(at_ns: u64, packet: &mut P) -> Option<Self> {
        let flow = packet.flow()?;
        let (hop_limit, tcp_sequence) = (packet.hop_limit(), packet.tcp_sequence());
        let place = packet.extension_mut()?;
        let extension = place.take();
        let mut removed = false;
        if let Some(extension) = &extension {
            *place = match remove_headers(&extension.octets, extension.first) {
                Ok((rest, first)) => {
                    removed = rest.len() < extension.octets.len();
                    (!rest.is_empty()).then(|| Box::new(Extension { first, octets: rest, later: None }))
                }
                Err(_) => Some(extension.clone()),
            };
        }
        Some(Seen { at_ns, flow, len_bytes: packet.len_bytes(), hop_limit, tcp_sequence, extension, removed })
    }
}
