//! Manually computed rates and flows, and rates of random arrivals.

use std::net::IpAddr;

use crate::{FLOW_WINDOW_NS, FlowKey, Meter, RATE_TIME_NS};

const MS: u64 = 1_000_000;

pub fn flow(port: u16) -> FlowKey {
    let host = |n: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]);
    FlowKey::of(host(1), host(2), port, 5201, 6).unwrap()
}

#[test]
fn nothing_is_known_before_the_first_packet() {
    let meter = Meter::new();
    assert_eq!((meter.arrival_pkts_per_s(5 * MS), meter.flow_count(5 * MS)), (None, 0));
}

#[test]
fn the_rate_counts_each_packet_by_its_age() {
    let mut meter = Meter::new();
    meter.arrived(0, None);
    assert_eq!(meter.arrival_pkts_per_s(0), Some(10)); // 1 / 100 ms
    assert_eq!(meter.arrival_pkts_per_s(RATE_TIME_NS), Some(4)); // 10 / e
    meter.arrived(RATE_TIME_NS, None);
    assert_eq!(meter.arrival_pkts_per_s(RATE_TIME_NS), Some(14));
    assert_eq!(meter.arrival_pkts_per_s(1000 * MS), Some(0));
}

#[test]
fn a_steady_rate_is_found() {
    let mut meter = Meter::new();
    for n in 0..1000 {
        meter.arrived(n * MS, None); // 1000 packets/s
    }
    // A packet counts itself, so it finds more than the mean: 10 / (1 - exp(-0.01)).
    assert_eq!(meter.arrival_pkts_per_s(999 * MS), Some(1005));
    assert_eq!(meter.arrival_pkts_per_s(1099 * MS), Some(370)); // 1005 / e
}

#[test]
fn flows_count_for_a_second() {
    let mut meter = Meter::new();
    meter.arrived(0, Some(&flow(1)));
    meter.arrived(1, Some(&flow(2)));
    meter.arrived(2, Some(&flow(1)));
    meter.arrived(3, None);
    assert_eq!(meter.flow_count(3), 2);
    assert_eq!(meter.flow_count(FLOW_WINDOW_NS), 2);
    assert_eq!(meter.flow_count(FLOW_WINDOW_NS + 1), 1); // the second one is forgotten, the first came again
    assert_eq!(meter.flow_count(FLOW_WINDOW_NS + 2), 0);
    meter.arrived(FLOW_WINDOW_NS + 2, Some(&flow(3)));
    assert_eq!(meter.flow_count(FLOW_WINDOW_NS + 2), 1);
}

#[test]
fn a_flow_is_its_5_tuple() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let (a, b) = (address("10.0.0.1"), address("::ffff:10.0.0.2"));
    let key = FlowKey::of(a, b, 1, 2, 17).unwrap();
    assert_eq!(key.src, address("::ffff:10.0.0.1"));
    assert_eq!(FlowKey::of(address("::ffff:10.0.0.1"), address("10.0.0.2"), 1, 2, 17), Some(key));
    assert_ne!(FlowKey::of(a, b, 1, 2, 6), Some(key));
    assert_eq!(FlowKey::of(a, b, 1, 2, 58), None);
}
