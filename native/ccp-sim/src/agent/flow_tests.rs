//! The flow at each event, as in `ccp.bpf.c`.

use ccp_record::Record;
use proptest::prelude::*;

use super::super::test_flow::{Bench, FLOW_ID, MAX_CWND_BYTES, MSS_BYTES, program};
use super::*;

/// Reports the bytes acknowledged by each ACK.
const EACH: &str = "(def (Report (volatile acked 0) (rounds 0)))
    (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (:= Report.rounds (+ Report.rounds 1)) (report))";
/// Adds a segment to the window at each ACK, and reports every third time.
const THIRD: &str = "(def (n 0) (Report (volatile acked 0)))
    (when true (:= Report.acked (+ Report.acked Ack.packets_acked)) (:= Cwnd (+ Cwnd 1448)) (:= n (+ n 1)) (fallthrough))
    (when (== n 3) (:= n 0) (report))";

#[test]
fn a_new_flow_reports_who_it_is_and_cubic_steers_it() {
    let bench = Bench::new();
    let shared = bench.shared.clone();
    let mut sock = bench.sock.clone();
    sock.ecn_ok = true;
    let info = ccp_flow_info { sport: 80, dport: 4242, cc_id: 5, ..ccp_flow_info::default() };
    let mut flow = AgentFlow::new(&shared, 99, info, true);
    flow.init(&mut sock);
    let records = shared.take_records();
    let Some(Record::Create(create)) = records.get(0) else { panic!("{records:?}") };
    assert_eq!(create.record.flow_id, 99);
    assert_eq!((create.record.now_us, create.record.cwnd_bytes), (1_000_000, 14_480));
    assert_eq!((create.info.sport, create.info.dport, create.info.cc_id), (80, 4242, 5));
    assert_eq!((create.info.mss, create.info.init_cwnd_bytes), (1448, 14_480));
    assert_eq!((u32::from(create.info.ecn_mode), create.info.created_us), (CCP_ECN_RFC3168, 1_000_000));
    assert!(flow.needs_ecn() && flow.fallback.steers);
    assert_eq!(shared.counters().flows_active, 2);
}

#[test]
fn the_end_of_a_flow_reports_its_figures() {
    let mut bench = Bench::with(EACH);
    bench.ack(2);
    let _ = bench.records();
    bench.sock.lost = 3;
    bench.flow.close(&bench.sock);
    let records = bench.records();
    let Some(Record::Close(close)) = records.get(0) else { panic!("{records:?}") };
    assert_eq!(close.record.flow_id, FLOW_ID);
    assert_eq!((close.stats.bytes_acked, close.stats.lost_pkts, close.stats.srtt_us), (2896, 3, 40_000));
    assert_eq!((close.stats.acks, close.counts.reports, close.counts.mail_applied), (1, 1, 1));
    assert_eq!(close.record.program, 1);
    assert_eq!(bench.shared.counters().flows_active, 0);
}

#[test]
fn a_program_begins_at_the_next_ack_and_reports() {
    let mut bench = Bench::with(EACH);
    assert!(bench.flow.fallback.steers);
    bench.ack(2);
    bench.ack(3);
    // The first ACK acknowledges segments sent before the agent arrived.
    assert_eq!(bench.reports(), [(vec![0, 1], 0), (vec![3 * MSS_BYTES, 2], 0)]);
    assert_eq!(bench.flow.snapshot().program, 1);
    assert_eq!(bench.flow.snapshot().fallback, 0);
}

#[test]
fn a_report_says_when_and_what_window_and_whose_program() {
    let mut bench = Bench::with(EACH);
    bench.ack(2);
    let records = bench.records();
    let Some(Record::Report { head, .. }) = records.get(0) else { panic!("{records:?}") };
    assert_eq!((head.flow_id, head.now_us), (FLOW_ID, 1_001_000));
    assert_eq!((head.cwnd_bytes, head.rate_bytes_per_s), (10 * MSS_BYTES, 0));
    assert_eq!((head.program, head.program_uid, head.n_fields), (1, program(EACH).uid, 2));
    assert_eq!(head.missed, 0);
}

#[test]
fn windows_of_the_fold_are_applied_and_volatile_registers_begin_again() {
    let mut bench = Bench::with(THIRD);
    for _ in 0..6 {
        bench.ack(2);
    }
    assert_eq!(bench.sock.snd_cwnd, 16);
    assert_eq!(bench.reports(), [(vec![4], 0), (vec![6], 0)], "the first ACK is none of the agent's");
}

#[test]
fn bytes_below_a_segment_are_kept() {
    let mut bench = Bench::with("(def (Report (w 0))) (when true (:= Cwnd (+ Cwnd 400)))");
    for _ in 0..3 {
        bench.ack(1);
    }
    assert_eq!((bench.sock.snd_cwnd, bench.flow.window.cwnd_bytes), (10, 15_680));
    bench.ack(1);
    assert_eq!((bench.sock.snd_cwnd, bench.flow.window.cwnd_bytes), (11, 16_080));
}

#[test]
fn a_window_that_another_moved_is_the_algorithms_now() {
    let mut bench = Bench::with("(def (Report (w 0))) (when true (:= Report.w Cwnd) (report))");
    bench.ack(1);
    bench.sock.snd_cwnd = 4;
    bench.ack(1);
    let windows: Vec<_> = bench.reports().into_iter().map(|(fields, _)| fields[0]).collect();
    assert_eq!(windows, [10 * MSS_BYTES, 4 * MSS_BYTES]);
}

#[test]
fn a_pending_waits_for_the_next_ack_and_later_ones_add_to_it() {
    let mut bench =
        Bench::with("(def (a 1) (b 2) (Report (sum 0))) (when true (:= Report.sum (+ a b)) (report))");
    bench.ack(1);
    let _ = bench.records();
    bench.update(&Update { cwnd_bytes: Some(30_000), controls: &[(0, 10)], ..Update::default() });
    bench.update(&Update { rate_bytes_per_s: Some(500_000), controls: &[(1, 20)], ..Update::default() });
    assert_eq!(bench.sock.snd_cwnd, 10);
    bench.ack(1);
    assert_eq!(bench.reports(), [(vec![30], 0)]);
    assert_eq!((bench.sock.snd_cwnd, bench.flow.window.cwnd_bytes), (20, 30_000));
    assert_eq!((bench.sock.pacing_rate_bytes_per_s, bench.sock.is_paced), (500_000, true));
    assert_eq!(bench.flow.counts.mail_applied, 2);
    assert_eq!(bench.flow.snapshot().counts.mail_applied_us, 1_002_000);
}

#[test]
fn a_new_program_voids_registers_for_the_one_before() {
    let mut bench = Bench::with("(def (a 1) (Report (out 0))) (when true (:= Report.out a) (report))");
    bench.update(&Update { controls: &[(0, 10)], ..Update::default() });
    bench.update(&Update { program: Some(1), ..Update::default() });
    bench.ack(1);
    assert_eq!(bench.reports(), [(vec![1], 0)]);
}

#[test]
fn registers_that_come_with_the_first_program_hold() {
    let mut bench = Bench::with("(def (a 1) (Report (out 0))) (when true (:= Report.out a) (report))");
    bench.update(&Update { controls: &[(0, 10)], ..Update::default() });
    bench.ack(1);
    assert_eq!(bench.reports(), [(vec![10], 0)]);
}

#[test]
fn a_rate_of_the_fold_is_paced_at_and_infinity_ends_pacing() {
    let text = "(def (rate 250000) (Report (r 0))) (when true (:= Rate rate))";
    let mut bench = Bench::with(text);
    bench.ack(1);
    assert_eq!((bench.sock.pacing_rate_bytes_per_s, bench.sock.is_paced), (250_000, true));
    bench.update(&Update { controls: &[(0, u64::MAX)], ..Update::default() });
    bench.ack(1);
    assert!(!bench.sock.is_paced);
    // 10 segments in 40 ms: 362 kB/s, twice in slow start.
    assert_eq!(bench.sock.pacing_rate_bytes_per_s, 724_000);
    assert_eq!(bench.flow.window.rate_bytes_per_s, 0);
}

#[test]
fn pacing_that_the_application_has_stays() {
    let mut bench = Bench::with(EACH);
    bench.sock.is_paced = true;
    bench.update(&Update { rate_bytes_per_s: Some(100_000), ..Update::default() });
    bench.ack(1);
    bench.update(&Update { rate_bytes_per_s: Some(0), ..Update::default() });
    bench.ack(1);
    assert!(bench.sock.is_paced);
}

#[test]
fn windows_keep_within_two_segments_the_clamp_and_the_limit() {
    let mut bench = Bench::with(EACH);
    bench.sock.snd_cwnd_clamp = 50;
    for (asked, pkts) in [(1, 2), (0, 2), (2 * MAX_CWND_BYTES, 50), (20 * MSS_BYTES + 1447, 20)] {
        bench.update(&Update { cwnd_bytes: Some(asked), ..Update::default() });
        bench.ack(1);
        assert_eq!(bench.sock.snd_cwnd, pkts, "{asked}");
    }
    bench.sock.snd_cwnd_clamp = u32::MAX;
    bench.update(&Update { cwnd_bytes: Some(2 * MAX_CWND_BYTES), ..Update::default() });
    bench.ack(1);
    assert_eq!(u64::from(bench.sock.snd_cwnd), MAX_CWND_BYTES / MSS_BYTES);
}

#[test]
fn an_error_of_the_fold_leaves_the_window_and_marks_the_next_report() {
    let text = "(def (d 0) (Report (out 7)))
        (when true (:= Cwnd 99999) (:= Report.out (/ Ack.bytes_acked d)) (report))";
    let mut bench = Bench::with(text);
    bench.ack(1);
    assert!(bench.reports().is_empty());
    assert_eq!(bench.sock.snd_cwnd, 10);
    assert_eq!(
        (bench.flow.counts.fold_errors, bench.flow.counts.last_fold_error),
        (1, intf::CCP_FOLD_DIV_BY_ZERO)
    );
    assert_eq!(bench.shared.counters().fold_errors, 1);
    bench.update(&Update { controls: &[(0, 2)], ..Update::default() });
    bench.ack(1);
    bench.ack(1);
    let flags: Vec<_> = bench.reports().into_iter().map(|(_, flags)| flags).collect();
    assert_eq!(flags, [intf::CCP_REPORT_FOLD_ERROR as u16, 0]);
}

#[test]
fn a_timeout_is_folded_without_a_sample() {
    let text = "(def (Report (timeout 0) (rtt 0) (state 0) (cwnd 0)))
        (when (|| Flow.was_timeout false) (:= Report.timeout 1) (:= Report.rtt Flow.rtt_sample_us) (:= Report.state Flow.ca_state)
            (:= Report.cwnd Cwnd) (:= Cwnd 2896) (report))";
    let mut bench = Bench::with(text);
    bench.ack(1);
    bench.timeout();
    assert_eq!(bench.reports(), [(vec![1, 0xffff_ffff, 4, MSS_BYTES], intf::CCP_REPORT_TIMEOUT as u16)]);
    assert_eq!(bench.sock.snd_cwnd, 2);
    assert_eq!(bench.flow.counts.timeouts, 1);
}

#[test]
fn a_program_of_a_pending_folds_the_timeout_that_finds_it() {
    let text = "(def (Report (t 0))) (when true (:= Report.t Flow.was_timeout) (report))";
    let mut bench = Bench::with(text);
    bench.timeout();
    assert_eq!(bench.reports().len(), 1);
    assert!(!bench.flow.fallback.steers);
}

#[test]
fn an_ack_that_leaves_the_fallback_counts_for_none() {
    // As follow_agent(): counters restart when the agent takes over, so the first fold sees no bytes.
    let mut bench = Bench::new();
    bench.ack(5);
    let handle = bench.shared.install(program(EACH)).unwrap();
    bench.update(&Update { program: Some(handle), ..Update::default() });
    bench.ack(2);
    bench.ack(3);
    let acked: Vec<_> = bench.reports().into_iter().map(|(fields, _)| fields[0]).collect();
    assert_eq!(acked, [0, 3 * MSS_BYTES]);
}

#[test]
fn without_an_agent_the_fallback_steers_and_the_program_begins_again_after_it() {
    let mut bench = Bench::with(EACH);
    bench.ack(1);
    bench.ack(1);
    bench.update(&Update { rate_bytes_per_s: Some(100_000), ..Update::default() });
    bench.ack(1);
    let _ = bench.records();
    bench.shared.silence();
    bench.ack(1);
    assert!(bench.flow.fallback.steers && !bench.sock.is_paced);
    assert_eq!(bench.flow.window.rate_bytes_per_s, 0);
    assert_eq!(
        (
            bench.flow.counts.fallback_entries,
            bench.shared.counters().fallback_entries[intf::CCP_FALLBACK_SILENT as usize]
        ),
        (1, 1)
    );
    assert!(bench.reports().is_empty());
    bench.shared.heartbeat();
    bench.ack(1);
    bench.ack(1);
    assert_eq!(bench.reports(), [(vec![0, 1], 0), (vec![MSS_BYTES, 2], 0)]);
}

#[test]
fn a_program_that_was_taken_away_leaves_the_flow_to_the_fallback() {
    let mut bench = Bench::with(EACH);
    bench.ack(1);
    bench.shared.uninstall(1).unwrap();
    assert!(!bench.shared.is_installed(1));
    bench.ack(1);
    assert_eq!(bench.flow.program, 0);
    bench.ack(1);
    assert!(bench.flow.fallback.steers);
    assert_eq!(bench.shared.uninstall(1).unwrap_err().slug, "program.unknown");
}

#[test]
fn program_zero_gives_the_flow_to_the_fallback() {
    let mut bench = Bench::with(EACH);
    bench.ack(1);
    bench.update(&Update { program: Some(0), ..Update::default() });
    bench.ack(1);
    assert!(bench.flow.fallback.steers);
}

#[test]
fn a_threshold_says_only_that_slow_start_is_over() {
    let mut bench = Bench::with(EACH);
    bench.sock.snd_cwnd = 1000;
    // 0.7 by CUBIC, then 0.5.
    assert_eq!(bench.flow.ssthresh(&mut bench.sock), 700);
    bench.ack(1);
    bench.sock.snd_cwnd = 1000;
    assert_eq!(bench.flow.ssthresh(&mut bench.sock), 500);
    bench.sock.snd_cwnd = 3;
    assert_eq!(bench.flow.ssthresh(&mut bench.sock), 2);
}

#[test]
fn a_queue_of_this_host_that_refuses_is_reported_once() {
    let text = "(def (Report (n 0))) (when true (:= Report.n Flow.local_congestion) (report))";
    let mut bench = Bench::with(text);
    bench.ack(1);
    bench.flow.set_state(&mut bench.sock, CaState::Cwr);
    bench.ack(1);
    bench.ack(1);
    // An ACK with ECE increased `delivered` before the state changes.
    bench.sock.delivered += 1;
    bench.flow.set_state(&mut bench.sock, CaState::Cwr);
    bench.ack(0);
    let stated: Vec<_> = bench.reports().into_iter().map(|(fields, _)| fields[0]).collect();
    assert_eq!(stated, [0, 1, 0, 0]);
    assert_eq!(bench.flow.counts.local_congestion, 1);
}

#[test]
fn micros_count_from_the_start_of_the_program() {
    let text = "(def (Report (t 0))) (when (> Micros 1500) (:= Report.t Micros) (:= Micros 0) (report))";
    let mut bench = Bench::with(text);
    for _ in 0..6 {
        bench.ack(1);
    }
    let times: Vec<_> = bench.reports().into_iter().map(|(fields, _)| fields[0]).collect();
    assert_eq!(times, [2000, 2000]);
}

#[test]
fn figures_are_refreshed_every_ten_milliseconds() {
    let mut bench = Bench::new();
    bench.ack(1);
    assert_eq!(bench.flow.snapshot().stats.now_us, 1_000_000);
    for _ in 0..10 {
        bench.ack(1);
    }
    assert_eq!(bench.flow.snapshot().stats.now_us, 1_011_000);
    assert_eq!(bench.flow.snapshot().stats.acks, 11);
}

#[test]
fn handles_are_given_in_turn_until_there_are_none() {
    let shared = Shared::new(MAX_CWND_BYTES);
    let one = program(EACH);
    assert_eq!(shared.install(one.clone()).unwrap(), 1);
    shared.uninstall(1).unwrap();
    assert_eq!(shared.install(one.clone()).unwrap(), 2, "the longest unused first");
    for _ in 0..1022 {
        shared.install(one.clone()).unwrap();
    }
    assert_eq!(shared.install(one).unwrap_err().slug, "program.table_full");
    assert!(!shared.is_installed(0) && !shared.is_installed(5000));
}

proptest! {
    #[test]
    fn windows_stay_within_their_bounds_whatever_happens(
        events in prop::collection::vec((0..8u8, 0..40u32, any::<u64>()), 1..200)
    ) {
        let mut bench = Bench::with(THIRD);
        let mut reported = 0;
        for (kind, pkts, number) in events {
            match kind {
                0 => bench.timeout(),
                1 => bench.update(&Update { cwnd_bytes: Some(number), ..Update::default() }),
                2 => bench.update(&Update { rate_bytes_per_s: Some(number), ..Update::default() }),
                3 => bench.update(&Update { program: Some(number as u32 % 2), ..Update::default() }),
                4 if number % 4 == 0 => bench.shared.silence(),
                4 => bench.shared.heartbeat(),
                5 => {
                    bench.sock.snd_cwnd = bench.flow.undo_cwnd(&mut bench.sock);
                    bench.sock.ca_state = CaState::Open;
                }
                _ => bench.ack(pkts),
            }
            prop_assert!(bench.sock.snd_cwnd >= 1);
            prop_assert!(u64::from(bench.sock.snd_cwnd) <= MAX_CWND_BYTES / MSS_BYTES + 40);
            reported += bench.reports().len() as u64;
        }
        prop_assert_eq!(bench.flow.counts.reports, reported);
    }
}

/// As `restart_after_idle` of `idle.h` of `ccp-bpf`; `tests/kernel/test_idle.py` compares it with the kernel's CUBIC.
#[test]
fn after_an_idle_time_the_window_starts_again_unless_the_algorithm_paces() {
    for (rate, idle_us, window) in
        [(0, 600_000, 80), (0, 600_001, 40), (0, 60_000_000, 10), (5, 60_000_000, 160)]
    {
        let mut bench = Bench::with("(def (Report (window 0))) (when true (:= Report.window Cwnd) (report))");
        bench.ack(1);
        let _ = bench.reports();
        bench.update(&Update { rate_bytes_per_s: Some(rate), ..Update::default() });
        (bench.sock.snd_cwnd, bench.sock.rto_us, bench.sock.data_segs_out) = (160, 300_000, 1);
        bench.sock.last_sent_us = bench.sock.mstamp_us;
        bench.sock.mstamp_us += idle_us;
        bench.flow.tx_start(&mut bench.sock);
        bench.ack(1);
        assert_eq!(bench.reports(), [(vec![window * MSS_BYTES], 0)]);
        assert_eq!(bench.sock.snd_ssthresh, ccp_tcp::INFINITE_SSTHRESH);
    }
}
