//! An agent controls real connections of quinn, ends, and returns.

mod common;

use std::path::Path;
use std::sync::Arc;

use ccp_quic::wire::Message;
use ccp_quic::{CcpConfig, Link};
use quinn::{Connection, TransportConfig};

use common::{
    Agent, CONTROL, CWND, Directory, IMPLICIT, RATE, WATCH, change, connected, install, send_on, update,
    wait_for,
};

const CWND_BYTES: u64 = 100_000;

async fn began(agent: &Path) -> (Connection, Arc<Link>) {
    let link = Link::open(agent).unwrap();
    let mut transport = TransportConfig::default();
    let config = CcpConfig::new(Arc::clone(&link)).algorithm("watched");
    transport.congestion_controller_factory(Arc::new(config));
    let connection = connected(transport).await;
    send_on(&connection);
    (connection, link)
}

async fn wait_for_fallback(link: &Link) {
    wait_for("law", || (link.flows() == (1, 0)).then_some(())).await;
}

async fn goes_on(connection: &Connection) {
    let sent = connection.stats().udp_tx.bytes;
    wait_for("progress", || (connection.stats().udp_tx.bytes > sent + 10_000_000).then_some(())).await;
}

#[tokio::test]
async fn an_agent_has_the_window_the_rate_and_the_program() {
    let place = Directory::new();
    let agent = Agent::serve(&place.agent(), WATCH, CWND_BYTES);
    let (connection, link) = began(&place.agent()).await;
    let flow = wait_for("flow", || agent.created().first().copied()).await;
    let [Message::Ready { .. }, Message::Create { mss_bytes, algorithm, src_ip, dst_port, .. }] =
        &agent.said()[..2]
    else {
        panic!("{:?}", agent.said())
    };
    assert_eq!((*mss_bytes, algorithm.as_str(), *src_ip, *dst_port), (1200, "watched", 0, 0));
    let agent = &agent;
    let reported = |program, window, step| {
        let found = move |fields: &Vec<u64>| fields[1] == window && fields[2] == step;
        wait_for("report", move || agent.reports(program).into_iter().find(found))
    };
    reported(1, CWND_BYTES, 1).await;
    assert_eq!(connection.stats().path.cwnd, CWND_BYTES + 1);

    agent.emit(&update(flow, &[(IMPLICIT, CWND, 2 * CWND_BYTES), (CONTROL, 0, 5)]));
    reported(1, 2 * CWND_BYTES, 5).await;

    agent.emit(&install(2, WATCH));
    agent.emit(&change(flow, 2, &[(IMPLICIT, CWND, 3 * CWND_BYTES)]));
    assert!(reported(2, 3 * CWND_BYTES, 1).await[0] > 0);

    agent.emit(&update(flow, &[(IMPLICIT, RATE, 1)]));
    let minimum = 2 * u64::from(connection.stats().path.current_mtu) + 1;
    wait_for("window for that rate", || (connection.stats().path.cwnd == minimum).then_some(())).await;

    drop(connection.congestion_state()); // a copy for display, not a flow
    connection.close(0u32.into(), b"");
    drop(connection);
    wait_for("end of the flow", || agent.closed(flow).then_some(())).await;
    assert_eq!((agent.created(), link.flows()), (vec![flow], (0, 0)));
}

#[tokio::test]
async fn agents_that_are_killed_stall_nothing_and_get_the_flow_again() {
    let place = Directory::new();
    let (connection, link) = began(&place.agent()).await;
    goes_on(&connection).await;
    assert_eq!(link.flows(), (1, 0));
    for round in 1..=4 {
        let window = round * CWND_BYTES;
        let agent = Agent::serve(&place.agent(), WATCH, window);
        wait_for("report", || agent.reports(1).into_iter().find(|fields| fields[1] == window)).await;
        assert_eq!(link.flows(), (1, 1));
        drop(agent);
        wait_for_fallback(&link).await;
        goes_on(&connection).await;
    }
}

#[tokio::test]
async fn agents_that_read_nothing_are_none_and_what_they_send_does_no_harm() {
    let place = Directory::new();
    let agent = Agent::serve(&place.agent(), WATCH, CWND_BYTES);
    let (connection, link) = began(&place.agent()).await;
    let flow = wait_for("flow", || agent.created().first().copied()).await;
    wait_for("report", || agent.reports(1).pop()).await;
    for raw in [&b""[..], b"abc"] {
        agent.report_bytes(raw);
    }
    for message in [
        change(flow, 7, &[]),
        update(flow, &[(IMPLICIT, 3, 1)]),
        update(flow, &[(CONTROL, 1, 1), (IMPLICIT, CWND, 1)]),
        update(flow + 1, &[(IMPLICIT, CWND, 1)]),
    ] {
        agent.emit(&message);
    }
    agent.emit(&update(flow, &[(CONTROL, 0, 9)]));
    let fields = wait_for("report", || agent.reports(1).into_iter().find(|fields| fields[2] == 9)).await;
    assert_eq!(fields[1], CWND_BYTES);
    drop(agent);

    let deaf = Agent::deaf(&place.agent());
    wait_for_fallback(&link).await;
    goes_on(&connection).await;
    drop(deaf);
    let agent = Agent::serve(&place.agent(), WATCH, CWND_BYTES);
    wait_for("report", || agent.reports(1).pop()).await;
}

#[tokio::test]
async fn a_link_ends_with_its_last_flow() {
    let place = Directory::new();
    let (connection, link) = began(&place.agent()).await;
    drop(link);
    assert_eq!(place.sockets(), 1);
    connection.close(0u32.into(), b"");
    drop(connection);
    wait_for("end", || (place.sockets() == 0).then_some(())).await;
}
