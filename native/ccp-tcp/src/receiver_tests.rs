use proptest::prelude::*;

use crate::{Ack, Config, Data, Receiver, SackRange};

const MS: u64 = 1_000_000;
const MSS: u64 = 1448;

/// Exact timers, and a constant window.
fn exact() -> Config {
    Config { tick_ns: 0, rcv_window_bytes: 45 * MSS, ..Config::default() }
}

fn segment(number: u64, now_ns: u64) -> Data {
    Data {
        seq: number * MSS,
        len_bytes: MSS as u32,
        sent_ns: now_ns,
        echo_ns: 0,
        is_retransmission: false,
        ect: true,
        cwr: false,
        push: false,
        fin: false,
    }
}

/// A segment arrives; returns the ACKs.
fn take(receiver: &mut Receiver, now_ns: u64, number: u64) -> Vec<Ack> {
    receiver.on_data(now_ns, &segment(number, now_ns), false).into_iter().collect()
}

/// A receiver past its initial segments, which are acknowledged immediately.
fn warm() -> Receiver {
    let mut receiver = Receiver::new(&exact());
    for number in 0..16 {
        assert_eq!(take(&mut receiver, number * MS, number).len(), 1);
    }
    receiver
}

fn ranges(ack: &Ack) -> Vec<(u64, u64)> {
    ack.sacks.iter().map(|range| (range.start / MSS, range.end / MSS)).collect()
}

/// RFC 1122, section 4.2.3.2: an ACK for every second segment, none delayed further.
#[test]
fn every_second_segment_is_acknowledged() {
    let mut receiver = warm();
    assert_eq!(take(&mut receiver, 16 * MS, 16), []);
    assert_eq!(take(&mut receiver, 17 * MS, 17)[0].ack, 18 * MSS);
    assert_eq!(receiver.due_ns(), None);
    assert_eq!(take(&mut receiver, 18 * MS, 18), []);
    assert_eq!(receiver.due_ns(), Some(58 * MS));
    assert_eq!(receiver.on_timer(57 * MS), None);
    let late = receiver.on_timer(58 * MS).expect("it has waited 40 ms");
    assert_eq!((late.ack, late.echo_ns), (19 * MSS, 18 * MS));
    assert_eq!(receiver.due_ns(), None);
}

/// `tcp_send_delayed_ack`: a doubled delay is limited by the RTT of the handshake.
#[test]
fn no_ack_waits_longer_than_the_round_trip_time() {
    for (rtt_us, waits_ms) in
        [(None, [40, 80, 160, 200]), (Some(61_000), [40, 61, 61, 61]), (Some(5_000), [40; 4])]
    {
        let mut receiver = warm();
        receiver.establish(rtt_us);
        let mut now_ns = 16 * MS;
        for (number, wait_ms) in (16..).zip(waits_ms) {
            assert_eq!(take(&mut receiver, now_ns, number), []);
            assert_eq!(receiver.due_ns(), Some(now_ns + wait_ms * MS), "{rtt_us:?} {number}");
            receiver.on_timer(now_ns + wait_ms * MS).expect("it is due");
            // Neither earlier, which would shorten the delay, nor later, which might cause quick ACKs.
            now_ns += receiver.ato_ns;
        }
    }
}

/// `tcp_cleanup_rbuf`: the application has read everything, and nothing more may come soon.
#[test]
fn the_end_of_a_burst_or_of_a_write_is_acknowledged_at_once() {
    let mut receiver = warm();
    let pushed = Data { push: true, ..segment(16, 16 * MS) };
    assert_eq!(receiver.on_data(16 * MS, &pushed, false).into_iter().count(), 1);
    let small = Data { len_bytes: 100, ..segment(17, 17 * MS) };
    assert_eq!(receiver.on_data(17 * MS, &small, false).into_iter().count(), 1);
}

/// RFC 7323, section 4.3: an ACK of two segments echoes the first one's timestamp.
#[test]
fn the_echo_is_of_the_first_segment_that_is_acknowledged() {
    let mut receiver = warm();
    take(&mut receiver, 16 * MS, 16);
    assert_eq!(take(&mut receiver, 17 * MS, 17)[0].echo_ns, 16 * MS);
    // Data behind a gap does not count.
    assert_eq!(take(&mut receiver, 20 * MS, 19)[0].echo_ns, 16 * MS);
    assert_eq!(take(&mut receiver, 21 * MS, 18)[0].echo_ns, 21 * MS);
}

#[test]
fn holes_are_reported_with_the_newest_range_in_front() {
    let mut receiver = warm();
    assert_eq!(ranges(&take(&mut receiver, 20 * MS, 17)[0]), [(17, 18)]);
    assert_eq!(ranges(&take(&mut receiver, 21 * MS, 19)[0]), [(19, 20), (17, 18)]);
    assert_eq!(ranges(&take(&mut receiver, 22 * MS, 21)[0]), [(21, 22), (19, 20), (17, 18)]);
    receiver.quick();
    assert_eq!(ranges(&take(&mut receiver, 23 * MS, 23)[0]), [(23, 24), (21, 22), (19, 20)]);
    let merged = take(&mut receiver, 24 * MS, 18);
    assert_eq!(ranges(&merged[0]), [(17, 20), (23, 24), (21, 22)]);
    let filled = take(&mut receiver, 25 * MS, 16);
    assert_eq!((filled[0].ack, ranges(&filled[0])), (20 * MSS, vec![(23, 24), (21, 22)]));
    assert_eq!(receiver.totals.out_of_order_segments, 5);
}

/// RFC 2883: duplicates come first, acknowledged or in a range.
#[test]
fn duplicates_are_reported_at_once() {
    let mut receiver = warm();
    assert_eq!(ranges(&take(&mut receiver, 20 * MS, 3)[0]), [(3, 4)]);
    take(&mut receiver, 21 * MS, 17);
    assert_eq!(ranges(&take(&mut receiver, 22 * MS, 17)[0]), [(17, 18), (17, 18)]);
    assert_eq!(receiver.totals.duplicate_segments, 2);
    assert_eq!(receiver.totals.in_order_bytes, 16 * MSS);
}

/// tcp_comp_sack_delay_ns: after three of them, ACKs of out-of-order data are delayed by 5 % of the RTT.
#[test]
fn acks_out_of_order_are_compressed() {
    let mut receiver = warm();
    let mut data = segment(16, 0);
    data.echo_ns = 6 * MS;
    assert_eq!(receiver.on_data(16 * MS, &data, false).into_iter().count(), 0);
    assert_eq!(receiver.rtt_ns, 10 * MS);
    for number in 18..22 {
        assert_eq!(take(&mut receiver, 20 * MS, number).len(), usize::from(number < 21), "{number}");
    }
    assert_eq!(receiver.due_ns(), Some(20 * MS + MS / 2));
    assert_eq!(take(&mut receiver, 20 * MS, 22), []);
    let compressed = receiver.on_timer(20 * MS + MS / 2).expect("it is due");
    assert_eq!(ranges(&compressed), [(18, 23)]);
}

/// `tcp_sack_compress_send_ack`: an ACK is delayed only while the next one has room for all new ranges.
#[test]
fn compression_forgets_no_range() {
    let mut receiver = warm();
    let mut reported = Vec::new();
    for number in (18..60).step_by(2) {
        for ack in take(&mut receiver, 16 * MS, number) {
            reported.extend(ranges(&ack));
        }
    }
    let rest = receiver.due_ns().and_then(|at_ns| receiver.on_timer(at_ns));
    reported.extend(rest.iter().flat_map(ranges));
    for number in (18..60).step_by(2) {
        assert!(reported.contains(&(number, number + 1)), "{number} is missing");
    }
}

/// tcp_grow_window(): while the window grows, each segment is acknowledged.
#[test]
fn a_growing_window_is_reported_at_once() {
    let mut receiver = Receiver::new(&Config { tick_ns: 0, ..Config::default() });
    let mut single = 0;
    for number in 0..200 {
        // Ten segments in the first round trip, twenty in the second, and so on.
        let round = (number / 10 + 1_u64).ilog2();
        let now_ns = u64::from(round) * 50 * MS + number * MS / 100;
        let data = Data { echo_ns: now_ns.saturating_sub(50 * MS), ..segment(number, now_ns) };
        let acks: Vec<Ack> = receiver.on_data(now_ns, &data, false).into_iter().collect();
        single += acks.len();
    }
    assert!(single > 150, "{single}");
}

/// RFC 3168, section 6.1.3: ECE until CWR.
#[test]
fn a_mark_is_echoed_until_the_sender_answers() {
    let mut receiver = Receiver::new(&Config { ecn: true, ..exact() });
    let echo = |receiver: &mut Receiver, number: u64, ce: bool, cwr: bool| {
        let data = Data { cwr, ..segment(number, 0) };
        receiver.on_data(number, &data, ce).into_iter().map(|ack| ack.ece).collect::<Vec<_>>()
    };
    assert_eq!(echo(&mut receiver, 0, false, false), [false]);
    assert_eq!(echo(&mut receiver, 1, true, false), [true]);
    assert_eq!(echo(&mut receiver, 2, false, false), [true]);
    assert_eq!(echo(&mut receiver, 3, false, true), [false]);
    assert_eq!(receiver.totals.ce_segments, 1);
}

/// RFC 8257, section 3.2: when the mark changes, earlier segments are acknowledged with the previous mark.
#[test]
fn a_receiver_of_dctcp_reports_each_change_of_the_mark() {
    let config = Config { ecn: true, accurate_ecn: true, ..exact() };
    let mut receiver = Receiver::new(&config);
    for number in 0..16 {
        take(&mut receiver, number, number);
    }
    assert_eq!(take(&mut receiver, 16, 16), []);
    let acks: Vec<Ack> = receiver.on_data(17, &segment(17, 17), true).into_iter().collect();
    let reported: Vec<(u64, bool)> = acks.iter().map(|ack| (ack.ack / MSS, ack.ece)).collect();
    assert_eq!(reported, [(17, false), (18, true)]);
    let marked: Vec<Ack> = (18..20).flat_map(|n| receiver.on_data(n, &segment(n, n), true)).collect();
    assert_eq!(marked.iter().map(|ack| ack.ece).collect::<Vec<_>>(), [true]);
}

#[test]
fn a_fin_is_acknowledged_at_once() {
    let mut receiver = warm();
    let fin = Data { len_bytes: 100, fin: true, ..segment(16, 20 * MS) };
    let acks: Vec<Ack> = receiver.on_data(20 * MS, &fin, false).into_iter().collect();
    assert_eq!(acks[0].ack, 16 * MSS + 101);
    assert!(receiver.is_finished());
    assert_eq!(receiver.totals.in_order_bytes, 16 * MSS + 100);
}

#[test]
fn nothing_beyond_the_window_is_taken() {
    let mut receiver = Receiver::new(&Config { rcv_window_bytes: 10 * MSS, ..exact() });
    assert_eq!(ranges(&take(&mut receiver, 0, 10)[0]), []);
    assert_eq!(ranges(&take(&mut receiver, 0, 9)[0]), [(9, 10)]);
}

proptest! {
    /// With ranges in any order and overlap, delivered plus reported data is what arrived.
    #[test]
    fn ranges_are_those_of_the_bytes_that_came(pieces in prop::collection::vec((0..60u64, 1..12u64), 1..60)) {
        let mut receiver = Receiver::new(&exact());
        let mut came = [false; 80];
        for (at, (start, len)) in pieces.into_iter().enumerate() {
            let data = Data { seq: start, len_bytes: len as u32, ..segment(0, 0) };
            came[start as usize..(start + len) as usize].fill(true);
            let acks = receiver.on_data(at as u64, &data, false);
            let in_order = came.iter().take_while(|byte| **byte).count() as u64;
            prop_assert_eq!(receiver.totals.in_order_bytes, in_order);
            for ack in acks {
                prop_assert_eq!(ack.ack, in_order);
                for SackRange { start, end } in ack.sacks.iter().copied() {
                    prop_assert!(came[start as usize..end as usize].iter().all(|byte| *byte));
                    prop_assert!(start < end);
                }
                for (first, second) in ack.sacks.iter().zip(ack.sacks.iter().skip(1)).skip(1) {
                    prop_assert!(first.end < second.start || second.end < first.start);
                }
            }
        }
    }
}
