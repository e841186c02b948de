//! Packets and options for tests.

use proptest::prelude::*;

use crate::option::IoamOption;
use crate::{EdgeToEdge, Node, PathEcho, Snapshot, State, TcpState, TraceOption, TraceType};

/// Bytes from hexadecimal digits; blanks are ignored.
pub fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// A packet with these bytes after its first header, starting with a header of this type.
pub fn packet(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = bytes("60000000 0000 ff 40");
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet[6] = next_header;
    packet.extend(bytes("fd000000000000000000000000000001 fd000000000000000000000000000002"));
    packet.extend(payload);
    packet
}

pub fn tcp() -> Vec<u8> {
    packet(6, &bytes("0fa01451 00000001 00000002 50100100 00000000 68656c6c6f"))
}

/// All defined fields except the snapshot.
pub const ALL_FIELDS: u32 = 0xfff000;

pub fn node() -> Node {
    Node {
        hop_limit: Some(63),
        node_id: Some(0x010203),
        ingress_if: Some(11),
        egress_if: Some(12),
        timestamp_s: Some(1_700_000_000),
        timestamp_fraction: Some(999_999),
        transit_delay_ns: Some(1_500_000),
        namespace_data: Some(0xdead_beef),
        queue_depth: Some(30_280),
        checksum_complement: Some(0x0102_0304),
        hop_limit_wide: Some(63),
        node_id_wide: Some(0x01_0203_0405_0607),
        ingress_if_wide: Some(0x0001_0002),
        egress_if_wide: Some(0x0003_0004),
        namespace_data_wide: Some(0xcafe_f00d_cafe_f00d),
        buffer_occupancy: Some(65_536),
        snapshot: Some(Snapshot::Ccplane(state())),
    }
}

pub fn state() -> State {
    State {
        queue_free_pkts: Some(80),
        arrival_pkts_per_s: Some(8333),
        flow_count: Some(3),
        lost_pkts: Some(7),
        link_rate_bytes_per_s: Some(2_500_000),
        flow_missing_pkts: Some(5),
        flow_dropped_pkts: Some(2),
        rssi_dbm: Some(-61.5),
        snr_db: Some(33.25),
        data_rate_bytes_per_s: Some(8_125_000),
        mcs: Some(7),
    }
}

/// A trace with this much room, and nodes.
pub fn trace(trace_type: u32, remaining_words: u8, nodes: Vec<Node>) -> TraceOption {
    TraceOption { trace_type: TraceType(trace_type), remaining_words, nodes, ..TraceOption::default() }
}

pub fn echo() -> PathEcho {
    PathEcho {
        hops: 3,
        all_known: true,
        hop: Some(2),
        node_id: Some(7),
        queue_pkts: Some(12),
        free_pkts: Some(88),
        arrival_pkts_per_s: Some(8333),
        link_rate_bytes_per_s: Some(12_500_000),
        flow_count: Some(4),
        losses_congestion: 5,
        losses_link: 6,
        losses_unknown: 1,
        sent_s: 1_700_000_000,
        sent_us: 999_999,
    }
}

pub fn options() -> Vec<IoamOption> {
    let edge = EdgeToEdge {
        namespace_id: 0,
        e2e_type: 0xb000,
        sequence: Some(0x0102_0304_0506_0708),
        timestamp_s: Some(1_700_000_000),
        timestamp_fraction: None,
    };
    vec![
        IoamOption::Trace(trace(0xd00002, 14, vec![asked_for(node(), TraceType(0xd00002))])),
        IoamOption::EdgeToEdge(edge),
        IoamOption::TcpState(TcpState {
            cwnd_bytes: Some(14_480),
            mss_bytes: Some(1448),
            ..TcpState::default()
        }),
    ]
}

/// Numbers from which everything else is generated: a single strategy shrinks well and compiles fast.
#[derive(Clone, Debug)]
pub struct Numbers(std::vec::IntoIter<u64>);

pub fn numbers() -> impl Strategy<Value = Numbers> {
    prop::collection::vec(any::<u64>(), 0..200).prop_map(|numbers| Numbers(numbers.into_iter()))
}

impl Numbers {
    /// A number below the limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.next().unwrap_or(0) % limit
    }

    /// The same, or missing.
    fn maybe(&mut self, limit: u64) -> Option<u64> {
        let known = self.below(5) > 0;
        known.then(|| self.below(limit))
    }

    fn maybe_u8(&mut self) -> Option<u8> {
        self.maybe(0xff).map(|value| value as u8)
    }

    fn maybe_u16(&mut self) -> Option<u16> {
        self.maybe(0xffff).map(|value| value as u16)
    }

    fn maybe_u32(&mut self) -> Option<u32> {
        self.maybe(0xffff_ffff).map(|value| value as u32)
    }

    fn maybe_decibels(&mut self) -> Option<f64> {
        self.maybe_u16().map(|steps| (f64::from(steps) - 30_000.0) / 100.0)
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn snapshot(&mut self) -> Option<Snapshot> {
        match self.below(3) {
            0 => None,
            1 => Some(Snapshot::Ccplane(State {
                queue_free_pkts: self.maybe_u32(),
                arrival_pkts_per_s: self.maybe_u32(),
                flow_count: self.maybe_u32(),
                lost_pkts: self.maybe(State::LOST_MODULUS),
                link_rate_bytes_per_s: self.maybe_u32(),
                flow_missing_pkts: self.maybe(State::FLOW_MODULUS),
                flow_dropped_pkts: self.maybe(State::FLOW_MODULUS),
                rssi_dbm: self.maybe_decibels(),
                snr_db: self.maybe_decibels(),
                data_rate_bytes_per_s: self.maybe_u32(),
                mcs: self.maybe_u8(),
            })),
            _ => Some(Snapshot::Other {
                schema_id: self.below(State::FIRST_SCHEMA_ID.into()) as u32,
                data: vec![self.below(256) as u8; self.below(4) as usize * 4],
            }),
        }
    }

    /// A node that can be written, as read back from a trace of this type.
    pub fn node(&mut self, trace_type: TraceType) -> Node {
        let node = Node {
            hop_limit: self.maybe_u8(),
            node_id: self.maybe(0xff_ffff).map(|id| id as u32),
            ingress_if: self.maybe_u16(),
            egress_if: self.maybe_u16(),
            timestamp_s: self.maybe_u32(),
            timestamp_fraction: self.maybe_u32(),
            transit_delay_ns: self.maybe((1 << 31) + 1),
            namespace_data: self.maybe_u32(),
            queue_depth: self.maybe_u32(),
            checksum_complement: self.maybe_u32(),
            hop_limit_wide: self.maybe_u8(),
            node_id_wide: self.maybe(0xff_ffff_ffff_ffff),
            ingress_if_wide: self.maybe_u32(),
            egress_if_wide: self.maybe_u32(),
            namespace_data_wide: self.maybe(u64::MAX),
            buffer_occupancy: self.maybe_u32(),
            snapshot: self.snapshot(),
        };
        asked_for(node, trace_type)
    }

    /// A type that a source may send.
    pub fn trace_type(&mut self) -> TraceType {
        let bits = self.below((1 << 13) - 1) as u32 + 1;
        TraceType((bits >> 1) << 12 | (bits & 1) << 1)
    }

    pub fn trace(&mut self) -> TraceOption {
        let trace_type = self.trace_type();
        let mut room = 61;
        let mut nodes = Vec::new();
        for _ in 0..self.below(4) {
            let node = self.node(trace_type);
            let words = node.size(trace_type) as u64 / 4;
            if words <= room {
                room -= words;
                nodes.push(node);
            }
        }
        TraceOption {
            incremental: false,
            namespace_id: self.below(1 << 16) as u16,
            overflow: self.flag(),
            loopback: self.flag(),
            active: self.flag(),
            trace_type,
            remaining_words: self.below(room + 1) as u8,
            nodes,
        }
    }

    fn edge(&mut self) -> EdgeToEdge {
        let (sequences, times) = (self.below(3) as u16, self.below(4) as u16);
        let sequence = self.below(u64::MAX);
        EdgeToEdge {
            namespace_id: self.below(1 << 16) as u16,
            e2e_type: sequences << 14 | times << 12,
            sequence: match sequences {
                0 => None,
                1 => Some(sequence & 0xffff_ffff),
                _ => Some(sequence),
            },
            timestamp_s: self.maybe_u32().filter(|_| times & 2 != 0),
            timestamp_fraction: self.maybe_u32().filter(|_| times & 1 != 0),
        }
    }

    fn echo(&mut self) -> PathEcho {
        let hops = self.below(256) as u8;
        let mut counter = || self.below(1 << 32) as u32;
        let [losses_congestion, losses_link, losses_unknown, sent_s, sent_us] =
            std::array::from_fn(|_| counter());
        PathEcho {
            hops,
            all_known: self.flag(),
            hop: self.maybe(u64::from(hops.max(1))).map(|hop| hop as u8 + 1).filter(|hop| *hop <= hops),
            node_id: self.maybe_u32(),
            queue_pkts: self.maybe_u32(),
            free_pkts: self.maybe_u32(),
            arrival_pkts_per_s: self.maybe_u32(),
            link_rate_bytes_per_s: self.maybe_u32(),
            flow_count: self.maybe_u32(),
            losses_congestion,
            losses_link,
            losses_unknown,
            sent_s,
            sent_us,
        }
    }

    pub fn option(&mut self) -> IoamOption {
        match self.below(5) {
            0 => IoamOption::TcpState(TcpState {
                cwnd_bytes: self.maybe_u32(),
                mss_bytes: self.maybe_u16(),
                wants_echo: self.flag(),
                first_sequence: self.maybe_u16(),
            }),
            4 => IoamOption::PathEcho(self.echo()),
            1 => IoamOption::EdgeToEdge(self.edge()),
            _ => IoamOption::Trace(self.trace()),
        }
    }

    pub fn options(&mut self, limit: u64) -> Vec<IoamOption> {
        (0..self.below(limit)).map(|_| self.option()).collect()
    }
}

fn asked_for(mut node: Node, trace_type: TraceType) -> Node {
    macro_rules! keep {
        ($($bit:ident: $($field:ident)*;)*) => {
            $(if !trace_type.has(TraceType::$bit) { $(node.$field = None;)* })*
        };
    }
    keep! {
        NODE: hop_limit node_id;
        INTERFACES: ingress_if egress_if;
        TIMESTAMP_S: timestamp_s;
        TIMESTAMP_FRACTION: timestamp_fraction;
        TRANSIT_DELAY: transit_delay_ns;
        NAMESPACE_DATA: namespace_data;
        QUEUE_DEPTH: queue_depth;
        CHECKSUM_COMPLEMENT: checksum_complement;
        NODE_WIDE: hop_limit_wide node_id_wide;
        INTERFACES_WIDE: ingress_if_wide egress_if_wide;
        NAMESPACE_DATA_WIDE: namespace_data_wide;
        BUFFER_OCCUPANCY: buffer_occupancy;
        SNAPSHOT: snapshot;
    }
    node
}
