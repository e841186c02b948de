//! Summaries as messages. The file is also read by the tests of `telemetry.inband.publisher`.

use std::net::IpAddr;

use crate::{FlowKey, Hop, LossCause, Summary};

fn summaries() -> [Summary; 3] {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let wide = FlowKey::of(address("fd00::1"), address("fd00::2"), 4000, 5201, 6).unwrap();
    let mapped = FlowKey::of(address("10.0.0.1"), address("10.0.0.2"), 1, 65_535, 17).unwrap();
    let bare = Summary {
        flow: (&mapped).into(),
        interval_us: 10_000,
        end_mono_us: 1,
        received_pkts: 0,
        lost_pkts: None,
        lost_congestion_pkts: None,
        lost_link_pkts: None,
        lost_unknown_pkts: None,
        latency_us: None,
        latency_max_us: None,
        jitter_us: None,
        loss_ratio: None,
        loss_cause: None,
        cwnd_bytes: None,
        has_silent_hop: false,
        hops: vec![],
    };
    let hop = Hop {
        node_id: Some(7),
        interval_us: 9876,
        queue_depth_bytes: None,
        queue_depth_pkts: Some(12.0),
        queue_free_pkts: Some(87.125),
        queue_is_unlimited: false,
        arrival_pkts_per_s: Some(8333),
        flow_count: Some(3),
        transit_delay_us: Some(1440),
        lost_pkts: Some(0),
        lost_congestion_pkts: 0,
        lost_link_pkts: 1,
        rssi_dbm: Some(-61.5),
        snr_db: Some(33.25),
        mcs: Some(7),
        data_rate_bytes_per_s: Some(8_125_000),
    };
    let full = Summary {
        flow: (&wide).into(),
        interval_us: 9_990,
        end_mono_us: 83_012_345,
        received_pkts: 77,
        lost_pkts: Some(3),
        lost_congestion_pkts: Some(2),
        lost_link_pkts: Some(1),
        lost_unknown_pkts: Some(0),
        latency_us: Some(5500),
        latency_max_us: Some(7001),
        jitter_us: Some(120),
        loss_ratio: Some(0.0375),
        loss_cause: Some(LossCause::Mixed),
        cwnd_bytes: Some(14_480),
        has_silent_hop: true,
        hops: vec![hop.clone(), Hop { queue_depth_bytes: Some(3028), interval_us: 1, ..Hop::default() }],
    };
    let one_cause = Summary { loss_cause: Some(LossCause::None), hops: vec![hop], ..bare.clone() };
    [bare, full, one_cause]
}

#[test]
fn a_summary_is_a_line_of_the_bus() {
    let lines = summaries().map(|summary| serde_json::to_string(&summary).unwrap() + "\n").concat();
    assert_eq!(lines, include_str!("summaries.jsonl"));
}
