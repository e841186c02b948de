//! What a simulation shows of each flow, for assertions.

use std::time::Duration;

use ccp_emu::Counters;

use crate::record::{Record, Reduction};

/// Result of a simulation.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order in which the flows were added.
    pub flows: Vec<FlowReport>,
    /// Packets and drops at the bottleneck.
    pub bottleneck: Counters,
    /// Longest time that a packet waited at the bottleneck.
    pub queue_max: Duration,
    pub duration: Duration,
    pub(crate) path_bytes_per_s: f64,
}

impl Report {
    /// Application bytes of all flows relative to what the bottleneck can carry in the whole simulation.
    pub fn goodput_share(&self) -> f64 {
        let received = self.flows.iter().filter_map(|flow| flow.received.last());
        let bytes: u64 = received.map(|(_, bytes)| *bytes).sum();
        bytes as f64 / self.duration.as_secs_f64() / self.path_bytes_per_s
    }

    /// Jain's index of the flows' goodput: 1 if all are equal, 1/n if one flow has everything.
    pub fn jain_index(&self) -> f64 {
        let rates = || self.flows.iter().map(FlowReport::goodput_bytes_per_s);
        let squares: f64 = rates().map(|rate| rate * rate).sum();
        rates().sum::<f64>().powi(2) / (self.flows.len() as f64 * squares)
    }
}

/// Result of a flow. Times are since the start of the simulation.
#[derive(Clone, Debug)]
pub struct FlowReport {
    pub name: String,
    pub start: Duration,
    /// The end of the simulation, or of a transfer that was complete before.
    pub end: Duration,
    /// Whether a transfer arrived with its end.
    pub is_complete: bool,
    /// Bytes that the receiving application has read, after each reading.
    pub received: Vec<(Duration, u64)>,
    /// The window after each change.
    pub windows: Vec<(Duration, u64)>,
    /// For each delivered packet of the sender: its time through the network and that of an ACK without a queue.
    pub rtts: Vec<(Duration, Duration)>,
    /// Each congestion event that reduced the window.
    pub reductions: Vec<Reduction>,
    /// Congestion events, with and without a reduction.
    pub congestion_events: u64,
    /// UDP payload sent by the sender, with retransmissions.
    pub sent_bytes: u64,
    /// What the sender declared lost.
    pub lost_bytes: u64,
    /// Maximum number of bytes sent at one time, without time between them.
    pub burst_max_bytes: u64,
    /// For each message of [`Traffic::Messages`](crate::Traffic::Messages) that arrived: time from writing to reading.
    pub message_delays: Vec<Duration>,
    /// Messages written.
    pub messages: u64,
    /// Longest time without progress while data waited.
    pub longest_stall: Duration,
    pub(crate) path_bytes_per_s: f64,
}

impl FlowReport {
    /// Application bytes received per second, from the flow's start to its end.
    pub fn goodput_bytes_per_s(&self) -> f64 {
        self.goodput_between(self.start, self.end)
    }

    /// Application bytes received per second between two times.
    pub fn goodput_between(&self, from: Duration, to: Duration) -> f64 {
        let bytes = at(&self.received, to).saturating_sub(at(&self.received, from));
        bytes as f64 / to.saturating_sub(from).as_secs_f64()
    }

    /// Goodput relative to the bottleneck's rate. Headers take about 5 % of it.
    pub fn goodput_share(&self) -> f64 {
        self.goodput_bytes_per_s() / self.path_bytes_per_s
    }

    /// Bytes declared lost relative to bytes sent.
    pub fn lost_share(&self) -> f64 {
        if self.sent_bytes == 0 { 0.0 } else { self.lost_bytes as f64 / self.sent_bytes as f64 }
    }

    /// A percentile of the round-trip times, 0 to 100; zero without any.
    pub fn rtt(&self, percentile: f64) -> Duration {
        percentile_of(self.rtts.iter().map(|(_, rtt)| *rtt).collect(), percentile)
    }

    /// A percentile of the messages' delays; zero without any.
    pub fn message_delay(&self, percentile: f64) -> Duration {
        percentile_of(self.message_delays.clone(), percentile)
    }

    /// The window at a time.
    pub fn window_at(&self, time: Duration) -> u64 {
        at(&self.windows, time)
    }

    pub fn window_max_bytes(&self) -> u64 {
        self.windows.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    pub(crate) fn new(record: Record, application: Application, path_bytes_per_s: f64) -> Self {
        let Application { name, start, end, is_complete, received, message_delays, messages, longest_stall } =
            application;
        FlowReport {
            name,
            start,
            end,
            is_complete,
            received,
            windows: record.windows,
            rtts: record.rtts,
            reductions: record.reductions,
            congestion_events: record.last.congestion_events,
            sent_bytes: record.sent_bytes,
            lost_bytes: record.last.lost_bytes,
            burst_max_bytes: record.burst_max_bytes,
            message_delays,
            messages,
            longest_stall,
            path_bytes_per_s,
        }
    }
}

/// What the applications of a flow saw.
pub(crate) struct Application {
    pub name: String,
    pub start: Duration,
    pub end: Duration,
    pub is_complete: bool,
    pub received: Vec<(Duration, u64)>,
    pub message_delays: Vec<Duration>,
    pub messages: u64,
    pub longest_stall: Duration,
}

/// The value at a time of a series of changes; 0 before the first.
fn at(series: &[(Duration, u64)], time: Duration) -> u64 {
    let after = series.partition_point(|(at, _)| *at <= time);
    after.checked_sub(1).map_or(0, |index| series[index].1)
}

fn percentile_of(mut times: Vec<Duration>, percentile: f64) -> Duration {
    if times.is_empty() {
        return Duration::ZERO;
    }
    let last = times.len() - 1;
    let index = (percentile.clamp(0.0, 100.0) / 100.0 * last as f64).round() as usize;
    *times.select_nth_unstable(index.min(last)).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_series_has_the_value_of_its_last_change() {
        let series = [(ms(1), 10), (ms(3), 20)];
        assert_eq!([0, 1, 2, 3, 9].map(|time| at(&series, ms(time))), [0, 10, 10, 20, 20]);
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let times = || (1..=101).rev().map(ms).collect();
        assert_eq!([0.0, 50.0, 95.0, 100.0].map(|p| percentile_of(times(), p)), [1, 51, 96, 101].map(ms));
        assert_eq!(percentile_of(Vec::new(), 50.0), Duration::ZERO);
    }
}
