//! Echoes of the path: what a packet found on its way, for its sender (`docs/ioam.md`).

use ccp_ioam::{IoamOption, Node, PathEcho, State, build};

use super::Carried;
use super::ledger::Losses;
use crate::nodes;

/// Number of TCP, which follows the header.
const TCP: u8 = 6;

/// What a sink knows of the path of one flow, while its source wants to hear of it.
#[derive(Debug, Default)]
pub struct Echo {
    /// What no ACK has brought yet.
    news: Option<PathEcho>,
    /// Packets lost so far. It never falls: what comes late is taken off those that are lost then.
    lost: Losses,
}

impl Echo {
    /// A packet came, and so much of the flow is lost.
    pub fn packet(&mut self, carried: &Carried, lost: Losses) {
        self.lost = self.lost.most(lost);
        let sent = carried.edge.and_then(|edge| edge.timestamp_s.zip(edge.timestamp_fraction));
        let wanted = carried.tcp.is_some_and(|tcp| tcp.wants_echo);
        let Some((sent_s, sent_us)) = sent.filter(|_| wanted) else { return };
        self.news = Some(PathEcho {
            losses_congestion: self.lost.congestion as u32,
            losses_link: self.lost.link as u32,
            losses_unknown: self.lost.unknown as u32,
            sent_s,
            sent_us,
            ..of_path(&carried.nodes, carried.overflow)
        });
    }

    /// Extension headers for an ACK, if there is news for it.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let headers = build(&[IoamOption::PathEcho(self.news.take()?)], TCP);
        headers.ok().map(|headers| headers.destination)
    }
}

/// What a node says of its queue, and of the link behind it.
struct Queue<'a> {
    pkts: u32,
    rate_bytes_per_s: Option<u32>,
    state: &'a State,
}

impl<'a> Queue<'a> {
    fn of(node: &'a Node) -> Option<Self> {
        let state = nodes::state(node)?;
        let rate_bytes_per_s = state.link_rate_bytes_per_s.filter(|rate| *rate > 0);
        Some(Queue { pkts: node.queue_depth?, rate_bytes_per_s, state })
    }

    /// How long the next packet waits until it is sent, in no unit.
    fn wait(&self) -> Option<u64> {
        self.rate_bytes_per_s.map(|rate| ((u64::from(self.pkts) + 1) << 31) / u64::from(rate))
    }
}

/// What nodes wrote, in the order of the path. `overflow`: a node found no room.
///
/// Where all nodes that tell their queue tell the rate of their link, too, the bottleneck is where the next packet waits
/// longest, else where the queue is deepest, and of equal ones the first.
fn of_path(path: &[Node], overflow: bool) -> PathEcho {
    let queues: Vec<_> =
        path.iter().enumerate().filter_map(|(at, node)| Some((at, Queue::of(node)?))).collect();
    let rates_known = queues.iter().all(|(_, queue)| queue.rate_bytes_per_s.is_some());
    let wait = |queue: &Queue<'_>| queue.wait().filter(|_| rates_known).unwrap_or(queue.pkts.into());
    // The last of equal ones is the greatest.
    let longest = queues.iter().rev().max_by_key(|(_, queue)| wait(queue));
    let told = queues.len() == path.len()
        && queues.iter().all(|(_, queue)| queue.state.queue_free_pkts.is_some())
        && path.is_sorted_by(is_next);
    let mut echo = PathEcho {
        hops: u8::try_from(path.len()).unwrap_or(u8::MAX),
        all_known: told && !overflow,
        ..PathEcho::default()
    };
    if let Some((at, queue)) = longest {
        echo.hop = u8::try_from(at + 1).ok();
        echo.node_id = nodes::node_id(&path[*at]).and_then(|id| u32::try_from(id).ok());
        echo.queue_pkts = Some(queue.pkts);
        echo.free_pkts = queue.state.queue_free_pkts;
        echo.arrival_pkts_per_s = queue.state.arrival_pkts_per_s;
        echo.link_rate_bytes_per_s = queue.state.link_rate_bytes_per_s;
        echo.flow_count = queue.state.flow_count;
    }
    echo
}

/// Whether nobody is between two nodes who takes from the hop limit, and does not tell of a queue.
fn is_next(node: &Node, next: &Node) -> bool {
    nodes::hop_limit(node)
        .zip(nodes::hop_limit(next))
        .is_some_and(|(here, there)| here == there.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use ccp_ioam::Snapshot;

    use super::*;

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
        let told = PathEcho {
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
        assert_eq!(echo, told);
    }

    #[test]
    fn empty_queues_are_told_by_their_links_and_equal_ones_by_their_place() {
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
        assert!(!of_path(&[near.clone(), far.clone()], true).all_known); // one found no room
        assert!(!known(&[near.clone(), node(8, 61, Some(1), None)])); // one wrote nothing
        assert!(!known(&[near.clone(), node(8, 62, None, None)]));
        assert!(!known(&[near.clone(), Node { snapshot: None, ..far }]));
        let silent = of_path(&[node(8, 62, None, None)], false);
        assert_eq!(silent, PathEcho { hops: 1, ..PathEcho::default() });
        assert_eq!(of_path(&[], false).hops, 0);
    }
}
