//! What the nodes of a path do to packets, again and again: for measuring.

use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};

use ccp_ioam::{Node, Parsed, Snapshot, State, TcpState, fill_headers, read_headers, remove_headers};

use crate::{FlowKey, Result, Sink, SinkSpec, Source, SourceSpec};

const WALL_NS: u64 = 1_700_000_000_000_000_000;
/// 100,000 packets a second.
const STEP_NS: u64 = 10_000;
/// Packets of a flow after which it begins anew.
const RING_PKTS: u64 = 1024;
const NODES: u8 = 3;
const PKT_BYTES: u32 = 1440;
const TCP: u8 = 6;

/// What may be measured, by name.
pub const WORK: [&str; 5] = ["source", "fill", "read", "sink", "remove"];

/// Does one of [`WORK`] for so many packets, each with a trace of three nodes and all else that a source writes.
///
/// False if there is no such work.
///
/// # Errors
///
/// None that the specs here can cause.
pub fn work(what: &str, packets: u32) -> Result<bool> {
    let key = FlowKey::of(address(1), address(2), 4000, 5201, TCP);
    let Some(flow) = key else { return Ok(false) };
    let mut source = Source::new(SourceSpec { max_nodes: NODES, ..SourceSpec::default() })?;
    let times_ns = (0..u64::from(packets)).map(|n| n * STEP_NS);
    let tcp = || Some(TcpState { cwnd_bytes: Some(14_480), mss_bytes: Some(1448), ..TcpState::default() });
    let mut carried = |at_ns| source.headers(&flow, WALL_NS + at_ns, TCP, tcp).unwrap_or_default().to_vec();
    let empty = carried(0);
    let mut full = empty.clone();
    for _ in 0..NODES {
        fill_headers(&mut full, 0, 0, &node(0))?;
    }
    match what {
        "source" => times_ns.for_each(|at_ns| {
            black_box(source.headers(black_box(&flow), WALL_NS + at_ns, TCP, tcp));
        }),
        "fill" => {
            let mut headers = empty.clone();
            for at_ns in times_ns {
                headers.copy_from_slice(&empty);
                black_box(fill_headers(black_box(&mut headers), 0, 0, &node(at_ns))?);
            }
        }
        "read" => {
            for _ in times_ns {
                for found in read_headers(black_box(&full), 0) {
                    if let Parsed::Trace(trace) = black_box(found?.option) {
                        trace.nodes().try_for_each(|node| node.map(|node| drop(black_box(node))))?;
                    }
                }
            }
        }
        "sink" => {
            // Headers whose numbers and times go on, so that nothing looks late.
            let mut ring = Vec::new();
            for at_ns in (0..RING_PKTS).map(|n| n * STEP_NS) {
                let mut headers = carried(at_ns);
                for _ in 0..NODES {
                    fill_headers(&mut headers, 0, 0, &node(at_ns))?;
                }
                ring.push(headers);
            }
            let mut sink = Sink::new(SinkSpec::default())?;
            let mut summaries = Vec::new();
            for (at_ns, headers) in times_ns.zip(ring.iter().cycle()) {
                if at_ns % (RING_PKTS * STEP_NS) == 0 {
                    sink = Sink::new(SinkSpec::default())?;
                }
                sink.packet(at_ns, WALL_NS + at_ns, black_box(&flow), PKT_BYTES, Some((headers, 0)));
                sink.take(at_ns, &mut summaries);
                black_box(&mut summaries).clear();
            }
        }
        "remove" => {
            for _ in times_ns {
                black_box(remove_headers(black_box(&full), 0)?);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn address(last: u16) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).into()
}

/// What one of ours writes.
fn node(at_ns: u64) -> Node {
    let state = State {
        queue_free_pkts: Some(80),
        arrival_pkts_per_s: Some(100_000),
        flow_count: Some(3),
        lost_pkts: Some(7),
        ..State::default()
    };
    Node {
        hop_limit: Some(63),
        node_id: Some(7),
        ingress_if: Some(1),
        egress_if: Some(2),
        timestamp_s: Some(((WALL_NS + at_ns) / 1_000_000_000) as u32),
        timestamp_fraction: Some((at_ns / 1000 % 1_000_000) as u32),
        transit_delay_ns: Some(120_000),
        queue_depth: Some(20),
        snapshot: Some(Snapshot::Ccplane(state)),
        ..Node::default()
    }
}
