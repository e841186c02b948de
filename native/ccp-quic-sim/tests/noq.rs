//! noq's controllers: `cargo test --package ccp-quic-sim --features noq --test noq`.

use std::time::Duration;

use ccp_quic_sim::{Path, Simulation, noq, quinn};
use noq_proto::congestion::{Bbr3Config, CubicConfig};

const RTT: Duration = Duration::from_millis(40);

#[test]
fn bbr3_survives_shallow_buffers_and_loss() {
    // n0-computer/noq#768: before version 1.2 the estimate of data in flight at a loss overflowed.
    for (bdps, loss, minimum) in [(0.1, 0.0, 0.3), (1.0, 0.001, 0.6)] {
        let path = Path::new(50.0, RTT).buffer_bdps(bdps).loss(loss);
        let flow = noq::flow(Bbr3Config::default());
        let report = Simulation::new(path).flow(flow).run(Duration::from_secs(20)).unwrap();
        let (share, lost) = (report.goodput_share(), report.flows[0].lost_share());
        assert!(share > minimum && lost < 0.02, "{bdps} {loss}: {share}, {lost}");
    }
}

#[test]
fn controllers_of_both_stacks_share_a_path() {
    let flows =
        [noq::flow(CubicConfig::default()), quinn::flow(quinn_proto::congestion::CubicConfig::default())];
    let path = Path::new(20.0, RTT);
    let simulation = flows.into_iter().fold(Simulation::new(path), Simulation::flow);
    let report = simulation.run(Duration::from_secs(60)).unwrap();
    assert!(report.goodput_share() > 0.85, "{}", report.goodput_share());
    assert!(report.jain_index() > 0.8, "{}", report.jain_index());
}
