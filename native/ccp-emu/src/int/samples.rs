//! A network with telemetry, for tests.

use ccp_ioam::{EdgeToEdge, Node, Parsed, TcpState, read_headers};
use serde_json::{Value, json};

use super::{Telemetry, Windows};
use crate::Result;
use crate::engine::Network;
use crate::ip::IpPacket;
use crate::ip::samples::Tcp;
use crate::packet::Packet;
use crate::spec::Spec;

pub const US: u64 = 1000;
pub const MS: u64 = 1_000_000;
/// 2023-11-14T22:13:20Z, less 2 s.
pub const REAL_OFFSET_NS: u64 = 1_699_999_998_000_000_000;
pub const START_NS: u64 = 2_000 * MS;
pub const LEFT_ID: u32 = 2;
/// Size of the test sources' packets: 1,480 bytes with headers.
pub const PACKET_BYTES: u32 = 1480;

/// Two hosts at the ends of two routers: 0 - 2 - 3 - 1. Links are 0, 2, 4 to the right and 1, 3, 5 back; the
/// one between the routers takes 1 ms per packet of 1,480 bytes, and has a buffer of 10 packets.
pub fn line(int: Value) -> Spec {
    checked_line(int).unwrap()
}

pub fn checked_line(int: Value) -> Result<Spec> {
    let bottleneck = json!({"rate_bytes_per_s": 1_480_000.0, "delay_us": 2000, "buffer": {"packets": 10}});
    let wire = json!({"delay_us": 100, "buffer": {"bytes": 30_000}});
    let link = |name: &str, from: usize, to: usize, direction: &Value| json!({"name": name, "from": from, "to": to, "direction": direction});
    let spec = json!({
        "seed": 1, "mtu_bytes": 1500, "sample_interval_us": 1000,
        "nodes": [
            {"name": "a", "addresses": ["fd00::1", "10.0.0.1"]}, {"name": "b", "addresses": ["fd00::2", "10.0.0.2"]},
            {"name": "left", "addresses": []}, {"name": "right", "addresses": []},
        ],
        "links": [
            link("l0>", 0, 2, &wire), link("l0<", 2, 0, &wire), link("l1>", 2, 3, &bottleneck),
            link("l1<", 3, 2, &wire), link("l2>", 3, 1, &wire), link("l2<", 1, 3, &wire),
        ],
        "routes": [[-1, 0, 0, 0], [5, -1, 5, 5], [1, 2, -1, 2], [3, 4, 3, -1]],
        "int": int,
    });
    Spec::from_json(spec.to_string().as_bytes())
}

/// Telemetry at the routers, ended at the hosts.
pub fn everywhere() -> Value {
    json!({
        "source": {"wireless_nodes": true}, "sink": {},
        "nodes": [
            {"node": 0, "roles": ["source", "transit"], "node_id": 1},
            {"node": 2, "roles": ["source", "transit", "sink"], "node_id": 2},
            {"node": 3, "roles": ["transit"], "node_id": 3,
                "radio": {"rssi_dbm": -61.5, "snr_db": 33.25, "mcs": 7, "data_rate_bytes_per_s": 8_125_000}},
            {"node": 1, "roles": ["sink"], "node_id": 4},
        ],
    })
}

pub fn network(spec: Spec, windows: Option<Windows>) -> Network<IpPacket> {
    let mut network = Network::new(spec.clone(), START_NS);
    let mut telemetry = Telemetry::new(&spec, spec.int.as_ref().unwrap(), windows).unwrap();
    telemetry.set_real_offset_ns(REAL_OFFSET_NS);
    network.set_telemetry(telemetry);
    network
}

/// A segment that has the described length with a source's headers for three wireless nodes, and no window.
pub fn packet(tcp: Tcp) -> IpPacket {
    IpPacket::new(tcp.bytes(), Some(tcp.partial())).unwrap()
}

pub fn segment(number: u32) -> Tcp {
    let overhead =
        ccp_int::SourceSpec { wireless_nodes: true, ..Default::default() }.overhead_bytes().unwrap();
    let payload_bytes = PACKET_BYTES as usize - overhead - 72;
    Tcp { v6: true, sequence: number, payload_bytes, ..Tcp::default() }
}

/// A packet's telemetry: nodes in the order of the path, and the source's data.
pub fn carried(packet: &mut IpPacket) -> (Vec<Node>, Option<EdgeToEdge>, Option<TcpState>) {
    let mut carried = (Vec::new(), None, None);
    let Some(Some(extension)) = packet.extension_mut() else { return carried };
    for found in read_headers(&extension.raw, extension.first) {
        match found.unwrap().option {
            Parsed::Trace(trace) => carried.0 = trace.to_option().unwrap().nodes,
            Parsed::EdgeToEdge(edge) => carried.1 = Some(edge),
            Parsed::TcpState(state) => carried.2 = Some(state),
            Parsed::PathEcho(_) => {}
            Parsed::Other(..) => panic!("unexpected header"),
        }
    }
    carried
}
