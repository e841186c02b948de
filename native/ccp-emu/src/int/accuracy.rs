//! Compares sinks' summaries with the network's own queues and counters, in every interval.

use ccp_int::{Hop, Summary};
use proptest::prelude::*;
use serde_json::json;

use super::samples::{
    LEFT_ID, REAL_OFFSET_NS, START_NS, US, carried, everywhere, line, network, packet, segment,
};
use crate::engine::{Network, Sample};
use crate::ip::IpPacket;
use crate::ip::samples::Tcp;
use crate::rng::Stream;
use crate::spec::{Buffer, Direction, Loss};

/// The link from the left router to the right one.
const LINK: usize = 2;
const INTERVALS: u64 = 8;
const INTERVAL_NS: u64 = 1_000_000_000;

struct Watched {
    network: Network<IpPacket>,
    /// The link's state after each event.
    samples: Vec<(u64, Sample)>,
    /// Arrival times at the link of packets with telemetry that reached the sink.
    came_ns: Vec<u64>,
    /// Numbers of the first of them, before which no loss can be known, and of the last.
    sequences: Option<(u64, u64)>,
    /// Summaries, with the number of packets that the sink had seen.
    summaries: Vec<(usize, Summary)>,
}

impl Watched {
    /// The link has a queue of `buffer_pkts` packets and random loss; sinks summarise every second.
    fn new(buffer_pkts: u64, loss_ratio: f64, every_pkts: u32) -> Self {
        let mut int = everywhere();
        int["sink"]["interval_us"] = (INTERVAL_NS / US).into();
        int["source"]["every_pkts"] = every_pkts.into();
        int["nodes"][1]["roles"] = json!(["transit"]);
        let mut spec = line(int);
        spec.links[LINK].direction.buffer = Some(Buffer::Packets(buffer_pkts));
        spec.links[LINK].direction.loss = Some(Loss::Bernoulli { ratio: loss_ratio });
        let mut network = network(spec, None);
        network.tap("l2>").unwrap();
        let samples = vec![(START_NS, network.sample(LINK))];
        Watched { network, samples, came_ns: Vec::new(), sequences: None, summaries: Vec::new() }
    }

    fn pass(&mut self, until_ns: u64) {
        loop {
            let due_ns = self.network.telemetry_mut().and_then(|telemetry| telemetry.due_ns());
            let next_ns = self.network.next_event_ns().into_iter().chain(due_ns).min();
            let Some(next_ns) = next_ns.filter(|next_ns| *next_ns <= until_ns) else { return };
            self.network.advance(next_ns, &mut Vec::new());
            self.samples.push((next_ns, self.network.sample(LINK)));
            for mut tapped in self.network.take_tapped() {
                let (nodes, edge, _) = carried(&mut tapped.packet);
                let Some(left) = nodes.iter().find(|node| node.node_id == Some(LEFT_ID)) else { continue };
                let s = u64::from(left.timestamp_s.unwrap());
                let us = u64::from(left.timestamp_fraction.unwrap());
                let sequence = edge.and_then(|edge| edge.sequence).unwrap();
                let first = self.sequences.map_or(sequence, |(first, _)| first);
                self.sequences = Some((first, sequence));
                self.came_ns.push(s * 1_000_000_000 + us * US - REAL_OFFSET_NS);
            }
            let mut summaries = Vec::new();
            self.network.telemetry_mut().unwrap().take(next_ns, &mut summaries);
            self.summaries.extend(summaries.into_iter().map(|summary| (self.came_ns.len(), summary)));
        }
    }

    /// Bursts of a flow with telemetry and of an IPv4 flow without, with all events at distinct times.
    fn load(mut self, seed: u64, pause_us: u64) -> Self {
        let mut random = Stream::new(seed, "test", "bursts");
        let end_ns = START_NS + INTERVALS * INTERVAL_NS;
        let (mut now_ns, mut number) = (START_NS, 0);
        while now_ns < end_ns {
            for _ in 0..=random.up_to(7) {
                now_ns += US;
                self.pass(now_ns);
                let v6 = random.up_to(3) > 0;
                self.network.arrive(now_ns, 0, 1, packet(Tcp { v6, ..segment(number) }));
                number += 1;
            }
            now_ns += random.up_to(pause_us) * US;
        }
        self.pass(end_ns + 10 * INTERVAL_NS);
        self
    }

    /// Sends `pkts` further packets of the flow without loss, so that all earlier losses become known.
    fn end(mut self, pkts: u32) -> Self {
        let start_ns = START_NS + (INTERVALS + 20) * INTERVAL_NS;
        self.network.set_link(start_ns, "l1>", Direction::default(), &mut Vec::new()).unwrap();
        (0..pkts).for_each(|number| self.network.arrive(start_ns, 0, 1, packet(segment(number))));
        self.pass(start_ns + 10 * INTERVAL_NS);
        self
    }

    fn at(&self, ns: u64) -> Sample {
        let next = self.samples.partition_point(|(at_ns, _)| *at_ns <= ns);
        self.samples[next - 1].1
    }

    fn queue_pkts(&self, from_ns: u64, to_ns: u64) -> f64 {
        let area: f64 = self
            .samples
            .windows(2)
            .map(|pair| {
                let (start_ns, end_ns) = (pair[0].0.max(from_ns), pair[1].0.min(to_ns));
                pair[0].1.queue_pkts as f64 * end_ns.saturating_sub(start_ns) as f64
            })
            .sum();
        area / (to_ns - from_ns) as f64
    }

    /// Intervals with telemetry after the first: start and end at the link, and the sink's summary.
    fn intervals(&self) -> impl Iterator<Item = (u64, u64, &Hop)> {
        self.summaries.windows(2).filter_map(|pair| {
            let last_ns = |seen: usize| self.came_ns[seen - 1];
            let left = pair[1].1.hops.iter().find(|hop| hop.node_id == Some(LEFT_ID.into()))?;
            Some((last_ns(pair[0].0), last_ns(pair[1].0), left))
        })
    }
}

/// Whether a number of packets is within 2 % of the truth; for a nearly empty queue, within 0.16 packets:
/// changes between two packets with telemetry cannot be seen.
fn is_right(reported_pkts: Option<f64>, truth_pkts: f64) -> bool {
    reported_pkts.is_some_and(|reported_pkts| (reported_pkts - truth_pkts).abs() < 0.02 * truth_pkts.max(8.0))
}

#[test]
fn means_of_every_whole_interval_are_those_of_the_link() {
    // Low load, high load, and overload.
    for (seed, pause_us) in [(1, 16_000), (2, 9_000), (3, 6_000)] {
        let watched = Watched::new(60, 0.0, 1).load(seed, pause_us);
        let whole: Vec<_> =
            watched.intervals().filter(|(from_ns, to_ns, _)| to_ns - from_ns > INTERVAL_NS / 2).collect();
        assert!(whole.len() as u64 >= INTERVALS - 2);
        for (from_ns, to_ns, left) in whole {
            let queue_pkts = watched.queue_pkts(from_ns, to_ns);
            let came_pkts =
                watched.at(to_ns).counters.arrived_pkts - watched.at(from_ns).counters.arrived_pkts;
            let rate = came_pkts as f64 * 1e9 / (to_ns - from_ns) as f64;
            assert!(is_right(left.queue_depth_pkts, queue_pkts), "{left:?} {queue_pkts}");
            assert!(is_right(left.queue_free_pkts, 60.0 - queue_pkts), "{left:?} {queue_pkts}");
            let reported_rate = left.arrival_pkts_per_s.unwrap() as f64;
            assert!((reported_rate / rate - 1.0).abs() < 0.02, "{left:?} {rate}");
            assert_eq!(left.flow_count, Some(2));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn losses_are_those_of_the_link_and_every_packet_came_or_was_lost(
        seed in any::<u64>(), loss in 0.0..0.3f64, buffer_pkts in 5u64..40, every_pkts in 1u32..4,
    ) {
        let watched = Watched::new(buffer_pkts, loss, every_pkts).load(seed, 6_000).end(every_pkts);
        let by_node: u64 = watched.intervals().map(|(_, _, left)| left.lost_pkts.unwrap()).sum();
        let (first, last) = (watched.summaries[0].0, watched.came_ns.len());
        let lost = |seen: usize| watched.at(watched.came_ns[seen - 1]).counters.dropped_loss_pkts;
        prop_assert_eq!(by_node, lost(last) - lost(first));
        let sum = |of: fn(&Summary) -> Option<u64>| -> u64 {
            watched.summaries.iter().map(|(_, reported)| of(reported).unwrap()).sum()
        };
        let lost_pkts = sum(|reported| reported.lost_pkts);
        // All nodes count, so each loss has a cause in the end: the queue's drops, or the link's losses.
        prop_assert_eq!(sum(|reported| reported.lost_congestion_pkts) + sum(|reported| reported.lost_link_pkts), lost_pkts);
        let reported = sum(|reported| Some(reported.received_pkts)) + lost_pkts;
        // After the last packet with telemetry, some came without.
        let (first_sequence, last_sequence) = watched.sequences.unwrap();
        let behind = reported - (last_sequence + 1 - first_sequence);
        prop_assert!(behind < every_pkts.into(), "{} behind", behind);
    }
}
