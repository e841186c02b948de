//! The programs' constant and variables in memory layout.

use std::net::Ipv6Addr;

use ccp_int::{RATE_TIME_NS, SourceSpec};
use ccp_ioam::{EdgeToEdge, Kind, Parsed, State, header_options};

use crate::shared::{self, node_config, node_now, node_radio};
use crate::spec::{Drops, NodeSpec, Queue, Role};
use crate::{Error, Result};

/// Bytes of an IOAM option before an edge-to-edge option's first field: type, length, reserved, IOAM option
/// type, namespace, E2E type.
const EDGE_HEAD_BYTES: usize = 8;
/// Bytes of an IOAM option before its namespace.
const TRACE_HEAD_BYTES: usize = 4;
/// Bytes of the TCP state's option before its version: type, length, experiment.
const TCP_HEAD_BYTES: usize = 4;
const SEQUENCE_BYTES: usize = 8;
const MISSING: u32 = shared::NODE_MISSING;

/// The constant of the programs for this node. Errors: `int.bad_spec`, or those of [`SourceSpec::check`].
pub fn config(spec: &NodeSpec) -> Result<node_config> {
    let bit = |on: bool, bit: u32| if on { bit } else { 0 };
    let has = |role, role_bit: u32| bit(spec.roles.contains(&role), role_bit);
    let trusted = spec.trusted.unwrap_or((Ipv6Addr::UNSPECIFIED, 0));
    if spec.node_id >= 1 << 24 || spec.to.1.max(trusted.1) > 128 {
        return Err(Error::new("int.bad_spec", "invalid settings of a node").at("node_id, to, trusted").why(
            format!(
                "node ids have 24 bits ({}), prefixes at most 128: {}, {}",
                spec.node_id, spec.to.1, trusted.1
            ),
        ));
    }
    let mut config = node_config {
        roles: has(Role::Source, shared::NODE_SOURCE)
            | has(Role::Transit, shared::NODE_TRANSIT)
            | has(Role::Sink, shared::NODE_SINK)
            | bit(spec.reflects(), shared::NODE_REFLECTS)
            | has(Role::Reader, shared::NODE_READER),
        ifindex: spec.ifindex,
        link_bytes: spec.link_bytes,
        mtu_bytes: spec.mtu_bytes,
        namespace_id: spec.source.namespace_id.into(),
        node_id: spec.node_id,
        every_pkts: spec.source.every_pkts,
        is_veth: spec.is_veth.into(),
        is_wireless: spec.is_wireless.into(),
        prefix: words(spec.to.0),
        prefix_mask: mask(spec.to.1),
        trusts: spec.trusted.is_some().into(),
        trusted: words(trusted.0),
        trusted_mask: mask(trusted.1),
        rate_time_ns: RATE_TIME_NS,
        ..node_config::default()
    };
    config.tcp_state = spec.source.tcp_state.into();
    config.per_packet = spec.source.per_packet.into();
    put_template(&mut config, &spec.source)?;
    Ok(config)
}

/// The mask of a prefix of at most 128 bits.
fn mask(bits: u8) -> [u32; 4] {
    words(Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)))
}

fn words(address: Ipv6Addr) -> [u32; 4] {
    let raw = address.octets();
    std::array::from_fn(|i| u32::from_ne_bytes(std::array::from_fn(|j| raw[4 * i + j])))
}

/// The headers, with the offsets at which programs write into them.
fn put_template(config: &mut node_config, spec: &SourceSpec) -> Result<()> {
    let made = spec.headers()?;
    let headers = [made.hop_by_hop, made.destination].concat();
    let too_long = || {
        Error::new("int.bad_spec", "the headers are too long")
            .at("max_nodes")
            .why(format!("their size is {} bytes, the limit {}", headers.len(), shared::NODE_TEMPLATE_BYTES))
            .fix("reserve room for fewer nodes")
    };
    config.template_.get_mut(..headers.len()).ok_or_else(too_long)?.copy_from_slice(&headers);
    config.template_bytes = headers.len() as u32;
    let hop_by_hop_bytes = headers.get(1).map_or(0, |length| (usize::from(*length) + 1) * 8);
    config.next_header_at = hop_by_hop_bytes as u32;
    for found in header_options(Kind::HopByHop, &headers[..hop_by_hop_bytes])? {
        config.trace_at = (found?.at + TRACE_HEAD_BYTES) as u32;
    }
    for found in header_options(Kind::Destination, &headers[hop_by_hop_bytes..])? {
        let found = found?;
        let at = hop_by_hop_bytes + found.at;
        match found.option {
            Parsed::EdgeToEdge(EdgeToEdge { .. }) => {
                config.sequence_at = (at + EDGE_HEAD_BYTES) as u32;
                config.timestamp_at = (at + EDGE_HEAD_BYTES + SEQUENCE_BYTES) as u32;
            }
            Parsed::TcpState(_) => {
                config.tcp_state_at = (at + TCP_HEAD_BYTES) as u32;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Sets the queue's part of the variables. `sees_drops`: the kernel reports dropped packets.
pub fn put_queue(now: &mut node_now, queue: &Queue, sees_drops: bool) {
    now.drops = match queue.drops {
        Drops::Early if sees_drops => shared::NODE_DROPS_EARLY,
        Drops::Late if sees_drops => shared::NODE_DROPS_LATE,
        _ => shared::NODE_DROPS_UNKNOWN,
    };
    now.queue_known = queue.known.into();
    now.limit_pkts =
        if queue.unlimited { shared::NODE_UNLIMITED } else { queue.limit_pkts.unwrap_or(MISSING) };
    now.limit_bytes = queue.limit_bytes.unwrap_or(MISSING);
    now.packet_bytes = queue.packet_bytes;
    now.air_fresh_ns = queue.air.map_or(0, |air| air.fresh_ns);
    now.air_limit_pkts = queue.air.and_then(|air| air.limit_pkts).unwrap_or(MISSING);
    let rate = queue.link_rate_bytes_per_s.unwrap_or(0);
    now.link_rate_bytes_per_s = rate.min(State::MAX_BYTES_PER_S.into()) as u32;
}

/// The wireless words of a snapshot. Errors: `ioam.cannot_write`.
pub fn radio(state: &State) -> Result<node_radio> {
    let mut raw = [u8::MAX; (shared::NODE_WIRELESS_WORDS as usize - 1) * 4];
    state.write(&mut raw)?;
    let word = |i: usize| u32::from_be_bytes(std::array::from_fn(|j| raw[4 * i + j]));
    Ok(node_radio { lost_pkts: word(3), rssi_snr: word(6), data_rate_bytes_per_s: word(7), mcs: word(8) })
}

#[cfg(test)]
mod tests {
    use ccp_int::SinkSpec;
    use ccp_ioam::{IoamOption, decode_header};

    use super::*;

    fn spec() -> NodeSpec {
        NodeSpec {
            ifindex: 3,
            roles: vec![Role::Source, Role::Sink],
            node_id: 7,
            link_bytes: 14,
            is_veth: true,
            is_wireless: false,
            mtu_bytes: 1500,
            to: ("fd00:1234::".parse().expect("an address"), 33),
            trusted: Some(("fd00::".parse().expect("an address"), 8)),
            source: SourceSpec { namespace_id: 5, ..SourceSpec::default() },
            sink: SinkSpec::default(),
            pin_dir: "/sys/fs/bpf/ccplane".into(),
        }
    }

    #[test]
    fn what_programs_write_lands_in_the_options_that_it_is_for() {
        let mut config = config(&spec()).expect("a good spec");
        let put = |template: &mut [u8], at: u32, raw: &[u8]| {
            template[at as usize..][..raw.len()].copy_from_slice(raw);
        };
        put(&mut config.template_, config.sequence_at, &41u64.to_be_bytes());
        put(&mut config.template_, config.timestamp_at, &[0, 0, 0, 9, 0, 0, 0, 8]);
        put(&mut config.template_, config.tcp_state_at + 1, &[5, 5, 160, 0, 0, 56, 64, 171, 205]);
        let (start, end) = (config.next_header_at as usize, config.template_bytes as usize);
        let decoded =
            decode_header(Kind::Destination, &config.template_[start..end]).expect("a whole header");
        assert!(decoded.errors.is_empty(), "{:?}", decoded.errors);
        let options: Vec<_> = decoded.options.into_iter().map(|placed| placed.option).collect();
        let [IoamOption::TcpState(tcp), IoamOption::EdgeToEdge(edge)] = options.as_slice() else {
            panic!("{options:?}")
        };
        assert_eq!((edge.namespace_id, edge.sequence), (5, Some(41)));
        assert_eq!((edge.timestamp_s, edge.timestamp_fraction), (Some(9), Some(8)));
        assert_eq!((tcp.mss_bytes, tcp.cwnd_bytes), (Some(1440), Some(14_400)));
        assert_eq!(tcp.first_sequence, Some(0xabcd));
    }

    #[test]
    fn a_prefix_is_a_mask_in_the_packets_order() {
        let config = config(&spec()).expect("a good spec");
        assert_eq!(config.prefix[0].to_ne_bytes(), [0xfd, 0, 0x12, 0x34]);
        let mask: Vec<_> = config.prefix_mask.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(mask[..6], [0xff, 0xff, 0xff, 0xff, 0x80, 0]);
        assert_eq!((config.trusted[0], config.trusted_mask[0]), (u32::from_ne_bytes([0xfd, 0, 0, 0]), 0xff));
        assert_eq!(config.trusts, 1);
        assert_eq!((config.roles, config.ifindex), (shared::NODE_SOURCE | shared::NODE_SINK, 3));
    }

    #[test]
    fn no_sender_is_trusted_without_a_prefix() {
        assert_eq!(config(&NodeSpec { trusted: None, ..spec() }).expect("a good spec").trusts, 0);
    }

    #[test]
    fn a_prefix_or_number_that_cannot_be_is_refused() {
        for broken in [
            NodeSpec { node_id: 1 << 24, ..spec() },
            NodeSpec { to: (Ipv6Addr::LOCALHOST, 129), ..spec() },
            NodeSpec { trusted: Some((Ipv6Addr::LOCALHOST, 129)), ..spec() },
        ] {
            assert_eq!(config(&broken).expect_err("too large").slug, "int.bad_spec");
        }
    }

    #[test]
    fn mac80211s_queues_count_while_something_reads_them() {
        let mut now = node_now { air_fresh_ns: 1, ..node_now::default() };
        put_queue(&mut now, &Queue::default(), true);
        assert_eq!((now.air_fresh_ns, now.air_limit_pkts), (0, MISSING));
        let reported: Queue = serde_json::from_str(
            r#"{"known": false, "packet_bytes": 1514, "drops": "early", "air": {"fresh_ns": 9, "limit_pkts": 40}}"#,
        )
        .expect("a queue");
        put_queue(&mut now, &reported, true);
        assert_eq!((now.air_fresh_ns, now.air_limit_pkts), (9, 40));
        assert_eq!((now.queue_known, now.drops), (0, shared::NODE_DROPS_EARLY));
        put_queue(&mut now, &reported, false);
        assert_eq!(now.drops, shared::NODE_DROPS_UNKNOWN);
    }

    #[test]
    fn the_air_is_written_as_in_snapshots() {
        assert_eq!(shared::NODE_SCHEMA, State::SCHEMA_ID);
        let state = State { lost_pkts: Some(2), rssi_dbm: Some(-50.5), mcs: Some(7), ..State::default() };
        let air = radio(&state).expect("in range");
        assert_eq!(state.size(), (shared::NODE_WIRELESS_WORDS as usize - 1) * 4);
        assert_eq!(State::default().size(), (shared::NODE_WIRED_WORDS as usize - 1) * 4);
        assert_eq!((air.lost_pkts, air.rssi_snr), (2, 24_950 << 16 | 0xffff));
        assert_eq!((air.data_rate_bytes_per_s, air.mcs), (MISSING, 0x07ff_ffff));
        // Losses may be known without the rest.
        let wired = radio(&State { lost_pkts: Some(9), ..State::default() }).expect("in range");
        assert_eq!((wired.lost_pkts, wired.rssi_snr, wired.mcs), (9, MISSING, MISSING));
    }
}
