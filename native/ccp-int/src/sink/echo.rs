//! Echoes of the path: telemetry of a packet's path for its sender (`docs/ioam.md`).

use ccp_ioam::{IoamOption, Node, Numbers, PathEcho, State, build};

use super::Carried;
use crate::nodes;
use crate::rules::{Cause, Found, Known, LOST_BY_CONGESTION, LOST_BY_LINK, LOST_UNKNOWN, MISSING, Reported};

/// Number of TCP, the next header.
const TCP: u8 = 6;

/// A sink's state of a flow's path, while its source wants echoes.
#[derive(Debug, Default)]
pub struct Echo {
    /// Telemetry that no ACK has carried yet.
    news: Option<PathEcho>,
    known: Known,
}

impl Echo {
    /// Handles a packet with its numbers and hop limit; the sink misses `missing` packets of its flow.
    pub fn packet(&mut self, carried: &Carried, numbers: Numbers, missing: i64, hop_limit: Option<u8>) {
        let sent = carried.edge.and_then(|edge| edge.timestamp_s.zip(edge.timestamp_fraction));
        let wanted = carried.tcp.is_some_and(|tcp| tcp.wants_echo);
        let Some((sent_s, sent_us)) = sent.filter(|_| wanted) else { return };
        let path: Vec<_> = carried.nodes.iter().rev().map(reported).collect();
        let hop_limit = hop_limit.map(u32::from).or(path.first().map(|last| last.hop_limit));
        let missing = missing.rem_euclid(State::FLOW_MODULUS as i64) as u16;
        let Some(found) = self.known.packet(numbers, missing, hop_limit.unwrap_or(MISSING), &path) else {
            return;
        };
        let lost = |cause: Cause| self.known.reported[cause as usize];
        self.news = Some(PathEcho {
            losses_congestion: lost(LOST_BY_CONGESTION),
            losses_link: lost(LOST_BY_LINK),
            losses_unknown: lost(LOST_UNKNOWN),
            sent_s,
            sent_us,
            ..of_path(&carried.nodes, carried.overflow, found)
        });
    }

    /// Extension headers for an ACK, if there is new telemetry.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let headers = build(&[IoamOption::PathEcho(self.news.take()?)], TCP);
        headers.ok().map(|headers| headers.destination)
    }
}

/// A node's data in the format of the rules.
fn reported(node: &Node) -> Reported {
    let state = nodes::state(node);
    let half = |pkts: Option<u64>| pkts.map_or(0xffff, |pkts| pkts as u32);
    let word = |of: fn(&State) -> Option<u32>| state.and_then(of).unwrap_or(MISSING);
    Reported {
        id: nodes::node_id(node).map_or(MISSING, |id| id as u32),
        hop_limit: nodes::hop_limit(node).map_or(MISSING, u32::from),
        counts: half(state.and_then(|state| state.flow_missing_pkts)) << 16
            | half(state.and_then(|state| state.flow_dropped_pkts)),
        queue_pkts: state.and(node.queue_depth).unwrap_or(MISSING),
        free_pkts: word(|state| state.queue_free_pkts),
        rate_bytes_per_s: word(|state| state.link_rate_bytes_per_s),
    }
}

/// The echo for nodes in the order of the path. `overflow`: a node found no room.
fn of_path(path: &[Node], overflow: bool, found: Found) -> PathEcho {
    let echo = PathEcho {
        hops: u8::try_from(path.len()).unwrap_or(u8::MAX),
        all_known: found.all_known != 0 && !overflow,
        ..PathEcho::default()
    };
    let Some(at) = path.len().checked_sub(1 + found.from_end as usize).filter(|_| found.is_known != 0) else {
        return echo;
    };
    let node = &path[at];
    let state = nodes::state(node);
    PathEcho {
        hop: u8::try_from(at + 1).ok(),
        node_id: nodes::node_id(node).and_then(|id| u32::try_from(id).ok()),
        queue_pkts: node.queue_depth,
        free_pkts: state.and_then(|state| state.queue_free_pkts),
        arrival_pkts_per_s: state.and_then(|state| state.arrival_pkts_per_s),
        link_rate_bytes_per_s: state.and_then(|state| state.link_rate_bytes_per_s),
        flow_count: state.and_then(|state| state.flow_count),
        ..echo
    }
}

#[cfg(test)]
mod tests {
    use ccp_ioam::Snapshot;

    use super::*;

    fn of_path(path: &[Node], overflow: bool) -> PathEcho {
        let path_reported: Vec<_> = path.iter().rev().map(reported).collect();
        let end = path_reported.first().map_or(MISSING, |last| last.hop_limit);
        let found = Known::default().packet(Numbers { first: 1, pkts: 1 }, 0, end, &path_reported).unwrap();
        super::of_path(path, overflow, found)
    }

    fn node(id: u32, hop_limit: u8, depth: Option<u32>, rate: Option<u32>) -> Node {
        let state = State {
            queue_free_pkts: Some(50 + id),
            arrival_pkts_per_s: Some(1000 + id),
            flow_count: Some(id),
            link_rate_bytes_per_s: rate,
            ..State::default()
        };
        Node {
            hop_limit: Some(hop_limit),
            node_id: Some(id),
            queue_depth: depth,
            snapshot: Some(Snapshot::Ccplane(state)),
            ..Node::default()
        }
    }

    #[test]
    fn the_bottleneck_is_where_a_packet_waits_longest() {
        let path = [
            node(7, 63, Some(30), Some(12_500_000)),
            node(8, 62, Some(4), Some(1_250_000)), // 5 packets at a tenth of the rate: as 50
            node(9, 61, Some(40), Some(12_500_000)),
        ];
        let echo = of_path(&path, false);
        let reported = PathEcho {
            hops: 3,
            all_known: true,
            hop: Some(2),
            node_id: Some(8),
            queue_pkts: Some(4),
            free_pkts: Some(58),
            arrival_pkts_per_s: Some(1008),
            link_rate_bytes_per_s: Some(1_250_000),
            flow_count: Some(8),
            ..PathEcho::default()
        };
        assert_eq!(echo, reported);
    }

    #[test]
    fn empty_queues_are_reported_by_their_links_and_equal_ones_by_their_place() {
        let hop = |path: &[Node]| of_path(path, false).hop;
        let slow_and_fast = [node(7, 63, Some(0), Some(2000)), node(8, 62, Some(0), Some(1000))];
        assert_eq!(hop(&slow_and_fast), Some(2));
        assert_eq!(hop(&[node(7, 63, Some(3), Some(1000)), node(8, 62, Some(3), Some(1000))]), Some(1));
    }

    #[test]
    fn where_a_rate_is_unknown_the_deepest_queue_is_it() {
        let path =
            [node(7, 63, Some(30), None), node(8, 62, Some(4), Some(1000)), node(9, 61, Some(5), None)];
        assert_eq!(of_path(&path, false).hop, Some(1));
    }

    #[test]
    fn whoever_is_silent_is_said_to_be() {
        let known = |path: &[Node]| of_path(path, false).all_known;
        let (near, far) = (node(7, 63, Some(1), None), node(8, 62, Some(1), None));
        assert!(known(&[near.clone(), far.clone()]));
        assert!(!of_path(&[near.clone(), far.clone()], true).all_known); // a node found no room
        assert!(!known(&[near.clone(), node(8, 61, Some(1), None)])); // a node wrote nothing
        assert!(!known(&[near.clone(), node(8, 62, None, None)]));
        assert!(!known(&[near.clone(), Node { snapshot: None, ..far }]));
        let silent = of_path(&[node(8, 62, None, None)], false);
        assert_eq!(silent, PathEcho { hops: 1, ..PathEcho::default() });
        assert_eq!(of_path(&[], false).hops, 0);
    }
}
