//! Super-packets and their segments, and packets counted elsewhere.

use ccp_ioam::{EdgeToEdge, IoamOption, TcpState, build};

use super::meter::flow;
use crate::{Came, Sink, SinkSpec, Summary};

const MS: u64 = 1_000_000;
const MSS_BYTES: u32 = 1000;
const DESTINATION: u8 = 60;

/// The header of a super-packet whose first segment has this number and TCP sequence number.
fn header(number: u64, first_sequence: u32) -> Vec<u8> {
    let tcp = TcpState {
        mss_bytes: Some(MSS_BYTES as u16),
        first_sequence: Some(first_sequence as u16),
        ..TcpState::default()
    };
    let edge =
        EdgeToEdge { e2e_type: EdgeToEdge::SEQUENCE_64, sequence: Some(number), ..EdgeToEdge::default() };
    build(&[IoamOption::TcpState(tcp), IoamOption::EdgeToEdge(edge)], 6).unwrap().destination
}

/// A sink, and its final summary of the only flow.
struct End(Sink);

impl End {
    fn new() -> Self {
        End(Sink::new(SinkSpec::default()).unwrap())
    }

    /// Segments of a super-packet arrive merged.
    fn came(&mut self, header: &[u8], tcp_sequence: u32, pkts: u32, plain_pkts: u64) {
        let came = Came {
            flow: &flow(1),
            len_bytes: pkts * MSS_BYTES,
            pkts,
            hop_limit: None,
            tcp_sequence: Some(tcp_sequence),
            plain_pkts: Some(plain_pkts),
            extension: Some((header, DESTINATION)),
        };
        self.0.came(MS, MS, &came);
    }

    fn summary(mut self) -> Summary {
        let mut summaries = Vec::new();
        self.0.take(u64::MAX, &mut summaries);
        summaries.remove(0)
    }
}

#[test]
fn each_lost_segment_is_found_and_what_was_merged_again_counts_as_it_was() {
    let mut end = End::new();
    // Forty segments, whose sequence numbers wrap among them.
    let (first, start) = (header(0, u32::MAX - 2999), u32::MAX - 2999);
    end.came(&first, start, 1, 0);
    for (segment, pkts) in [(2u32, 1), (3, 30), (35, 5)] {
        end.came(&first, start.wrapping_add(segment * MSS_BYTES), pkts, 0); // without 1, 33, 34
    }
    end.came(&header(40, 37_000), 37_000, 40, 0);
    end.came(&header(81, 78_000), 78_000, 1, 0); // without 80
    let summary = end.summary();
    assert_eq!((summary.received_pkts, summary.lost_pkts), (78, Some(4)));
}

#[test]
fn segments_that_come_late_or_twice_are_known() {
    let mut end = End::new();
    let first = header(0, 0);
    end.came(&first, 0, 5, 0);
    end.came(&first, 7000, 3, 0);
    end.came(&first, 5000, 2, 0);
    end.came(&first, 7000, 3, 0);
    let summary = end.summary();
    assert_eq!((summary.received_pkts, summary.lost_pkts), (10, Some(0)));
}

#[test]
fn packets_that_are_counted_elsewhere_are_not_lost() {
    let mut end = End::new();
    end.came(&header(0, 0), 0, 1, 7); // which came before counting began
    end.came(&header(6, 6000), 6000, 1, 12);
    end.0.plain_so_far(2 * MS, &flow(1), 15);
    end.0.plain_so_far(2 * MS, &flow(1), 15);
    end.0.plain_so_far(2 * MS, &flow(2), 4); // of which no packet had telemetry
    end.came(&header(10, 10_000), 10_000, 1, 2); // the count restarted
    let summary = end.summary();
    // Ten numbers after the first, with 5 + 3 + 2 others reported to the sink; 5 and 4 were expected.
    assert_eq!((summary.received_pkts, summary.lost_pkts), (13, Some(0)));
}
