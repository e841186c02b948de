//! A packet as seen by a sink.

use ccp_int::FlowKey;
use ccp_ioam::remove_headers;

use crate::ip::Extension;
use crate::packet::Packet;

#[derive(Clone, Debug)]
pub struct Seen {
    pub at_ns: u64,
    pub flow: FlowKey,
    pub len_bytes: u32,
    pub hop_limit: Option<u8>,
    pub tcp_sequence: Option<u32>,
    pub extension: Option<Box<Extension>>,
    pub removed: bool,
}

impl Seen {
    /// Removes telemetry from a packet; other options stay, and so does what cannot be parsed. `None`: such
    /// packets carry none.
    pub fn off<P: Packet>(at_ns: u64, packet: &mut P) -> Option<Self> {
        let flow = packet.flow()?;
        let (hop_limit, tcp_sequence) = (packet.hop_limit(), packet.tcp_sequence());
        let place = packet.extension_mut()?;
        let extension = place.take();
        let mut removed = false;
        if let Some(extension) = &extension {
            *place = match remove_headers(&extension.raw, extension.first) {
                Ok((rest, first)) => {
                    removed = rest.len() < extension.raw.len();
                    (!rest.is_empty()).then(|| Box::new(Extension { first, raw: rest, later: None }))
                }
                Err(_) => Some(extension.clone()),
            };
        }
        Some(Seen { at_ns, flow, len_bytes: packet.len_bytes(), hop_limit, tcp_sequence, extension, removed })
    }
}
