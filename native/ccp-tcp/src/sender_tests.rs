use crate::test_path::{Fate, Path};
use crate::{Ack, CaState, Config, Cubic, Data, Reno, SackRange, Sacks, Sender, Steered};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const MSS: u64 = 1448;

/// Exact timers, so that tests can predict them.
fn exact() -> Config {
    Config { tick_ns: 0, ..Config::default() }
}

fn reno(bytes_per_s: u64, rtt_ns: u64, buffer_bytes: u64) -> Path<Reno> {
    Path::new(&exact(), Reno::default(), bytes_per_s, rtt_ns, buffer_bytes)
}

/// A sender over 20 ms that wrote so many segments at time 0.
fn with_segments(count: u64) -> Sender<Reno> {
    let mut sender = Sender::new(&exact(), Reno::default(), 0, Some(20_000));
    sender.write(0, count * MSS);
    sender
}

fn take<C: crate::Congestion>(sender: &mut Sender<C>, now_ns: u64) -> Vec<Data> {
    let sent = std::iter::from_fn(|| sender.next_segment(now_ns)).collect();
    sender.check();
    sent
}

fn numbers(sent: &[Data]) -> Vec<u64> {
    sent.iter().map(|data| data.seq / MSS).collect()
}

/// An ACK of whole segments that answers what was sent at a time.
fn ack(number: u64, sacks: &[(u64, u64)], echo_ns: u64) -> Ack {
    let mut ranges = Sacks::default();
    for (start, end) in sacks {
        assert!(ranges.push(SackRange { start: start * MSS, end: end * MSS }));
    }
    Ack { ack: number * MSS, echo_ns, sacks: ranges, window_bytes: 1 << 24, ..Ack::default() }
}

#[test]
fn bulk_data_fill_the_path_when_nothing_is_lost() {
    let mut path = reno(12_500_000, 20 * MS, 1_000_000);
    path.sender.write_endless(0);
    path.run(10 * S);
    let goodput = path.receiver.totals.in_order_bytes as f64 / 10.0 / 12_500_000.0;
    assert!(goodput > 0.93 && goodput < 1448.0 / 1500.0, "goodput {goodput}");
}

#[test]
fn every_byte_arrives_when_segments_are_lost() {
    let mut path = reno(12_500_000, 20 * MS, 100_000);
    let mut count = 0;
    path.data_fate = Box::new(move |_| {
        count += 1;
        if count % 50 == 0 { Fate::IsLost } else { Fate::Passes }
    });
    path.sender.write(0, 10_000_000);
    path.finish();
    assert_eq!(path.receiver.totals.in_order_bytes, 10_000_000);
    assert!(path.receiver.is_finished());
    let resent = u64::from(path.sender.sock.total_retrans);
    assert!(resent >= path.dropped && resent <= path.dropped + 5, "{resent} for {}", path.dropped);
    assert_eq!(path.sender.sock.ca_state, CaState::Open);
}

/// RFC 8985, section 6.2: with three later segments SACKed, a segment is lost at once.
#[test]
fn the_third_segment_after_a_hole_starts_recovery() {
    let mut sender = with_segments(30);
    assert_eq!(take(&mut sender, 0).len(), 10);
    sender.on_ack(20 * MS, &ack(0, &[(1, 2)], 0));
    assert_eq!(sender.sock.ca_state, CaState::Disorder);
    assert_eq!(numbers(&take(&mut sender, 20 * MS)), [10]);
    sender.on_ack(21 * MS, &ack(0, &[(1, 3)], 0));
    assert_eq!(numbers(&take(&mut sender, 21 * MS)), [], "a burst of two is waited for");
    sender.on_ack(22 * MS, &ack(0, &[(1, 4)], 0));
    assert_eq!((sender.sock.ca_state, sender.sock.snd_ssthresh), (CaState::Recovery, 5));
    assert_eq!((sender.sock.lost, sender.sock.lost_out), (1, 1));
    let sent = take(&mut sender, 22 * MS);
    assert_eq!(numbers(&sent), [0]);
    assert!(sent[0].is_retransmission);
}

/// RFC 6937, section 3: half as many are sent as delivered, and the window ends at the threshold.
#[test]
fn recovery_reduces_the_window_in_proportion() {
    let mut sender = with_segments(100);
    take(&mut sender, 0);
    for number in 2..=10 {
        sender.on_ack((20 + number) * MS, &ack(0, &[(1, number)], 0));
        take(&mut sender, (20 + number) * MS);
    }
    let sock = &sender.sock;
    assert_eq!(sock.ca_state, CaState::Recovery);
    // Two were sent before recovery began; 12 less the 5 of the threshold are gone.
    assert_eq!(sock.packets_in_flight(), 5, "{sock:?}");
    sender.on_ack(50 * MS, &ack(12, &[], 33 * MS));
    assert_eq!((sender.sock.ca_state, sender.sock.snd_cwnd), (CaState::Open, 5));
}

/// RFC 8985, section 7.2: two RTTs (and 2 ms in Linux) without an ACK.
#[test]
fn a_lost_tail_is_probed_before_the_timeout() {
    let mut sender = with_segments(10);
    take(&mut sender, 0);
    sender.finish(0);
    sender.on_ack(20 * MS, &ack(8, &[], 0));
    assert_eq!(numbers(&take(&mut sender, 20 * MS)), [10], "the FIN");
    assert_eq!(sender.due_ns(), Some(62 * MS));
    sender.on_timer(62 * MS);
    assert_eq!(numbers(&take(&mut sender, 62 * MS)), [10]);
    let fin = SackRange { start: 10 * MSS, end: 10 * MSS + 1 };
    let mut answer = ack(8, &[], 0);
    answer.sacks.push(fin);
    sender.on_ack(83 * MS, &answer);
    assert_eq!(sender.sock.ca_state, CaState::Recovery);
    assert_eq!(numbers(&take(&mut sender, 83 * MS)), [8]);
    sender.on_ack(103 * MS, &Ack { ack: 9 * MSS, echo_ns: 83 * MS, ..answer });
    assert_eq!(numbers(&take(&mut sender, 103 * MS)), [9]);
    assert_eq!(sender.sock.timeouts, 0);
}

/// RFC 6298, section 5: the window is one segment, and each timeout doubles the next.
#[test]
fn timeouts_back_off() {
    let mut sender = with_segments(10);
    take(&mut sender, 0);
    assert_eq!(sender.due_ns(), Some(42 * MS), "the probe");
    sender.on_timer(42 * MS);
    assert_eq!(numbers(&take(&mut sender, 42 * MS)), [9]);
    let mut now_ns = 42 * MS;
    for wait_ms in [220, 440, 880, 1760] {
        assert_eq!(sender.due_ns(), Some(now_ns + wait_ms * MS));
        now_ns += wait_ms * MS;
        sender.on_timer(now_ns);
        assert_eq!(numbers(&take(&mut sender, now_ns)), [0]);
        assert_eq!((sender.sock.ca_state, sender.sock.snd_cwnd), (CaState::Loss, 1));
    }
    assert_eq!((sender.sock.timeouts, sender.sock.snd_ssthresh, sender.sock.lost), (4, 5, 13));
    sender.on_ack(now_ns + 20 * MS, &ack(1, &[], now_ns));
    assert_eq!(numbers(&take(&mut sender, now_ns + 20 * MS)), [1, 2]);
}

/// The RTT becomes 800 ms: originals are acknowledged after the timeout (RFC 3522, RFC 5682).
#[test]
fn a_timeout_for_nothing_is_undone() {
    let mut path = reno(12_500_000, 20 * MS, 1 << 30);
    path.sender.sock.snd_ssthresh = 50;
    path.sender.write_endless(0);
    path.run(S);
    let (cwnd, resent) = (path.sender.sock.snd_cwnd, path.sender.sock.total_retrans);
    assert_eq!(resent, 0);
    path.one_way_ns = 400 * MS;
    path.run(S + 399 * MS);
    assert_eq!(path.sender.sock.ca_state, CaState::Loss);
    path.run(S + 900 * MS);
    let sock = &path.sender.sock;
    assert_eq!((sock.ca_state, sock.timeouts), (CaState::Open, 1));
    assert!(sock.snd_cwnd >= cwnd, "{} before, {} behind", cwnd, sock.snd_cwnd);
    assert!(sock.total_retrans <= 2, "{}", sock.total_retrans);
}

/// RFC 5682, section 3.1: after the timeout, a segment sent only once is SACKed.
#[test]
fn a_timeout_is_undone_when_originals_are_sacked() {
    let mut sender = with_segments(10);
    take(&mut sender, 0);
    sender.on_timer(42 * MS);
    take(&mut sender, 42 * MS);
    sender.on_timer(262 * MS);
    assert_eq!(numbers(&take(&mut sender, 262 * MS)), [0]);
    assert_eq!((sender.sock.snd_cwnd, sender.sock.lost_out), (1, 10));
    sender.on_ack(270 * MS, &ack(0, &[(1, 2)], 0));
    let sock = &sender.sock;
    assert_eq!((sock.ca_state, sock.snd_cwnd, sock.lost_out), (CaState::Disorder, 10, 0));
    assert_eq!(sock.snd_ssthresh, crate::INFINITE_SSTHRESH);
}

/// tcp_process_tlp_ack(): a probe that repaired a loss hid it from the congestion control.
#[test]
fn a_probe_that_repairs_a_loss_reduces_the_window() {
    let mut sender = with_segments(10);
    take(&mut sender, 0);
    sender.on_ack(20 * MS, &ack(9, &[], 0));
    let probe_ns = sender.due_ns().expect("a probe waits");
    assert_eq!(probe_ns, (20 + 220) * MS, "not behind the timeout, in whose place it comes");
    sender.on_timer(probe_ns);
    assert_eq!(numbers(&take(&mut sender, probe_ns)), [9]);
    sender.on_ack(probe_ns + 20 * MS, &ack(10, &[], probe_ns));
    let cwnd = sender.sock.snd_cwnd;
    sender.write(probe_ns + 20 * MS, MSS);
    take(&mut sender, probe_ns + 20 * MS);
    sender.on_ack(probe_ns + 40 * MS, &ack(11, &[], probe_ns + 20 * MS));
    assert_eq!((sender.sock.ca_state, sender.sock.snd_ssthresh), (CaState::Open, cwnd / 2));
}

#[test]
fn a_retransmission_for_nothing_is_undone_by_a_dsack() {
    let mut sender = with_segments(10);
    take(&mut sender, 0);
    for number in 2..=4 {
        sender.on_ack((20 + number) * MS, &ack(0, &[(1, number)], 0));
    }
    assert_eq!(numbers(&take(&mut sender, 24 * MS)), [0]);
    // The original comes late; its echo is too old to tell by timestamps here, so the ACK echoes the retransmission.
    sender.on_ack(30 * MS, &ack(4, &[], 24 * MS));
    assert_eq!((sender.sock.ca_state, sender.sock.snd_ssthresh), (CaState::Recovery, 5));
    sender.on_ack(44 * MS, &ack(4, &[(0, 1)], 24 * MS));
    assert_eq!((sender.sock.snd_cwnd, sender.sock.snd_ssthresh), (10, crate::INFINITE_SSTHRESH));
    assert_eq!(sender.sock.ca_state, CaState::Open);
}

/// With known reordering, 3 ms late is not a loss: a quarter of 20 ms is tolerated.
#[test]
fn reordering_is_learnt() {
    let mut path = reno(12_500_000, 20 * MS, 1 << 30);
    let mut count = 0;
    path.data_fate = Box::new(move |_| {
        count += 1;
        if count % 10 == 0 { Fate::IsLate(3 * MS) } else { Fate::Passes }
    });
    path.sender.sock.snd_ssthresh = 100;
    path.sender.write_endless(0);
    path.run(S);
    let resent = path.sender.sock.total_retrans;
    path.run(10 * S);
    assert_eq!(path.sender.sock.total_retrans, resent);
    assert!(path.receiver.totals.out_of_order_segments > 10_000);
}

#[test]
fn lost_acks_do_not_cost_retransmissions() {
    let mut path = reno(2_500_000, 20 * MS, 1 << 30);
    let mut count = 0;
    path.ack_fate = Box::new(move |_| {
        count += 1;
        if count % 3 == 0 { Fate::IsLost } else { Fate::Passes }
    });
    path.sender.sock.snd_ssthresh = 40;
    path.sender.write(0, 5_000_000);
    path.finish();
    assert_eq!((path.sender.sock.total_retrans, path.sender.sock.timeouts), (0, 0));
}

/// RFC 3168, section 6.1.2: one reduction per window, announced by CWR in the next new segment.
#[test]
fn an_echoed_mark_reduces_the_window_once() {
    let config = Config { ecn: true, ..exact() };
    let mut sender = Sender::new(&config, Reno::default(), 0, Some(20_000));
    sender.write_endless(0);
    assert!(take(&mut sender, 0).iter().all(|data| data.ect && !data.cwr));
    let mut cwr = Vec::new();
    for number in 1..=10 {
        let now_ns = (20 + number) * MS;
        sender.on_ack(now_ns, &Ack { ece: true, ..ack(number, &[], 0) });
        cwr.extend(take(&mut sender, now_ns).iter().map(|data| data.cwr));
    }
    let sock = &sender.sock;
    assert_eq!((sock.ca_state, sock.snd_ssthresh, sock.lost), (CaState::Cwr, 5, 0));
    assert_eq!((sock.delivered, sock.delivered_ce), (10, 10));
    assert_eq!(cwr.iter().filter(|cwr| **cwr).count(), 1);
    assert!(cwr[0]);
    sender.on_ack(50 * MS, &ack(11, &[], 31 * MS));
    assert_eq!((sender.sock.ca_state, sender.sock.snd_cwnd), (CaState::Open, 5));
}

#[test]
fn marks_instead_of_losses_keep_the_path_full() {
    let config = Config { ecn: true, ..exact() };
    let mut path = Path::new(&config, Cubic::default(), 2_500_000, 20 * MS, 1 << 30);
    path.mark_bytes = 50_000;
    path.sender.write_endless(0);
    path.run(20 * S);
    let sock = &path.sender.sock;
    assert_eq!(sock.total_retrans, 0);
    assert!(sock.delivered_ce > 0 && sock.delivered_ce < sock.delivered / 2);
    let goodput = path.receiver.totals.in_order_bytes as f64 / 20.0 / 2_500_000.0;
    assert!(goodput > 0.9, "goodput {goodput}");
}

/// The purpose of RFC 7661: a window that the application does not use is no evidence about the path.
#[test]
fn an_unused_window_does_not_grow() {
    let mut path = reno(12_500_000, 20 * MS, 1 << 30);
    for _ in 0..50 {
        path.sender.write(path.now_ns, 4 * MSS);
        path.send();
        path.run(path.now_ns + 25 * MS);
    }
    assert_eq!(path.sender.sock.snd_cwnd, 10);
    assert!(path.sender.sock.rate_app_limited);
}

/// net.ipv4.tcp_slow_start_after_idle: halves the window per timeout, down to the initial one.
#[test]
fn a_pause_shrinks_the_window() {
    let mut path = reno(12_500_000, 20 * MS, 1 << 30);
    path.sender.sock.snd_ssthresh = 80;
    path.sender.write(0, 5_000_000);
    path.run(5 * S);
    let cwnd = path.sender.sock.snd_cwnd;
    assert!(cwnd > 80 && path.sender.unacked_bytes() == 0);
    path.sender.write(path.now_ns, MSS);
    assert_eq!(path.sender.sock.snd_cwnd, 10);
    assert_eq!(path.sender.sock.snd_ssthresh, (cwnd / 2 + cwnd / 4).max(80));
}

#[test]
fn pacing_sends_at_its_rate() {
    let mut path = Path::new(&exact(), Steered, 12_500_000, 20 * MS, 1 << 30);
    path.sender.sock.snd_cwnd = 1000;
    path.sender.sock.is_paced = true;
    path.sender.sock.pacing_rate_bytes_per_s = 1_000_000;
    path.sender.write_endless(0);
    path.run(10 * S);
    let rate = path.sender.sock.bytes_sent as f64 / 10.0;
    assert!((rate / 1e6 - 1.0).abs() < 0.01, "{rate} bytes/s");
}

/// tcp_tso_autosize(): the bytes of 1/1024 s, at least two segments.
#[test]
fn bursts_have_the_length_of_a_millisecond() {
    for (rate, pkts) in [(100_000, 2), (12_500_000, 8), (100_000_000, 45)] {
        let config = Config { init_cwnd: 200, ..exact() };
        let mut sender = Sender::new(&config, Steered, 0, Some(20_000));
        sender.sock.is_paced = true;
        sender.sock.pacing_rate_bytes_per_s = rate;
        sender.on_ack(0, &ack(0, &[], 0));
        sender.write_endless(0);
        let mut now_ns = 0;
        // The first ten segments are not paced.
        while sender.sock.snd_nxt <= 10 * MSS {
            take(&mut sender, now_ns);
            now_ns = sender.sock.wstamp_ns.max(now_ns + 1);
        }
        assert_eq!(take(&mut sender, now_ns).len(), pkts, "at {rate} bytes/s");
    }
}

/// Linux sets PSH in the last segment of a burst of several, and in the one that empties the queue.
#[test]
fn the_last_segment_of_a_burst_is_pushed() {
    let pushed = |sent: &[Data]| sent.iter().map(|data| data.push).collect::<Vec<_>>();
    let mut sender = with_segments(3);
    assert_eq!(pushed(&take(&mut sender, 0)), [false, true, true]);
    sender.write(MS, 100);
    assert_eq!(pushed(&take(&mut sender, MS)), [true]);
    let mut lone = with_segments(11);
    take(&mut lone, 0);
    lone.write(0, 10 * MSS);
    lone.on_ack(22 * MS, &ack(1, &[], 0));
    assert_eq!(pushed(&take(&mut lone, 22 * MS)), [false, true]);
}

#[test]
fn the_receivers_window_holds() {
    let config = Config { rcv_window_bytes: 20 * MSS, ..exact() };
    let mut path = Path::new(&config, Reno::default(), 125_000_000, 20 * MS, 1 << 30);
    path.sender.write_endless(0);
    path.run(5 * S);
    let sock = &path.sender.sock;
    assert_eq!(sock.packets_out, 20);
    let goodput = path.receiver.totals.in_order_bytes as f64 / 5.0 / (20.0 * 1448.0 / 0.02);
    assert!((goodput - 1.0).abs() < 0.05, "goodput {goodput}");
    assert!(sock.snd_cwnd <= 40, "{}", sock.snd_cwnd);
}

#[test]
fn the_send_buffer_holds_what_is_written() {
    let config = Config { send_buffer_bytes: 10_000, ..exact() };
    let mut path = Path::new(&config, Reno::default(), 12_500_000, 20 * MS, 1 << 30);
    path.sender.write(0, 100_000);
    // 25 bytes of data take 26 of memory.
    assert_eq!((path.sender.unsent_bytes(), path.sender.sock.write_seq), (100_000, 9_615));
    path.finish();
    assert_eq!(path.receiver.totals.in_order_bytes, 100_000);
    assert_eq!(path.sender.unacked_bytes(), 0);
}

/// RFC 2018, section 4: the first range is that of the newest segment. Ranges of one ACK are not reordering.
#[test]
fn the_order_of_ranges_is_not_that_of_arrivals() {
    let mut sender = with_segments(10);
    take(&mut sender, 0);
    sender.on_ack(20 * MS, &ack(0, &[(7, 9), (3, 5)], 0));
    assert!(!sender.rack.reordering_seen);
    sender.on_ack(21 * MS, &ack(0, &[(5, 6), (7, 9), (3, 5)], 0));
    assert!(sender.rack.reordering_seen, "this one came behind others that were sent after it");
}

/// `sk_stream_is_writeable`, over the 46,080 bytes that 10 segments get.
#[test]
fn an_application_is_woken_when_a_third_of_the_buffer_is_free() {
    let mut sender = Sender::new(&exact(), Steered, 0, Some(20_000));
    sender.sock.snd_cwnd = 10;
    sender.write_endless(0);
    assert_eq!(sender.sock.write_seq, 46_080 * 25 / 26);
    let full = sender.sock.write_seq;
    for acked in 1..=11 {
        take(&mut sender, acked * MS);
        sender.on_ack(acked * MS, &ack(acked, &[], 0));
        let is_awake = 3 * (full - acked * MSS) * 26 / 25 <= 2 * 46_080;
        assert_eq!((acked, is_awake), (acked, acked == 11));
        assert_eq!(sender.sock.write_seq, full + if is_awake { 11 * MSS } else { 0 });
    }
}

#[test]
fn an_application_that_writes_portions_waits_when_less_than_a_third_is_free() {
    let mut sender = Sender::new(&exact(), Steered, 0, Some(20_000));
    sender.sock.snd_cwnd = 10;
    sender.write_portions(0, 10_000);
    assert_eq!(sender.sock.write_seq, 30_000, "after 20,000 bytes of 46,080 a third was still free");
    for acked in 1..=8 {
        take(&mut sender, acked * MS);
        sender.on_ack(acked * MS, &ack(acked, &[], 0));
        let written = if acked == 8 { 50_000 } else { 40_000 };
        assert_eq!(sender.sock.write_seq, written, "{acked} segments acknowledged");
    }
    sender.source.portion_bytes = u64::MAX;
    take(&mut sender, 15 * MS);
    sender.on_ack(15 * MS, &ack(15, &[], 0));
    assert_eq!(sender.sock.write_seq, 15 * MSS + 46_080 * 25 / 26, "it fills the buffer");
}

/// `tcp_sndbuf_expand`: two windows of segments of 2,304 bytes, if the window is not filled.
#[test]
fn the_send_buffer_grows_with_the_window_that_it_keeps_from_being_filled() {
    let mut sender = Sender::new(&exact(), Steered, 0, Some(20_000));
    sender.sock.snd_cwnd = 100;
    sender.write_endless(0);
    take(&mut sender, 0);
    assert_eq!(sender.sock.packets_out, 31, "what the first buffer holds");
    sender.on_ack(20 * MS, &ack(20, &[], 0));
    assert_eq!(sender.sock.write_seq - sender.sock.snd_una, 2 * 100 * 2_304 * 25 / 26);
    sender.sock.snd_cwnd = 10_000;
    take(&mut sender, 21 * MS);
    sender.on_ack(40 * MS, &ack(170, &[], 21 * MS));
    assert_eq!(sender.sock.write_seq - sender.sock.snd_una, (4 << 20) * 25 / 26, "net.ipv4.tcp_wmem");
}

/// Minshall's variant: a small segment waits for the ACK of the previous small one, not of a full one.
#[test]
fn small_segments_wait_for_each_other() {
    let mut sender = with_segments(1);
    assert_eq!(take(&mut sender, 0).len(), 1);
    sender.write(MS, 100);
    assert_eq!(take(&mut sender, MS).len(), 1);
    sender.write(2 * MS, 100);
    assert_eq!(take(&mut sender, 2 * MS).len(), 0);
    sender.on_ack(21 * MS, &Ack { ack: MSS + 100, window_bytes: 1 << 24, ..Ack::default() });
    assert_eq!(take(&mut sender, 21 * MS).len(), 1);
    let config = Config { nagle: false, ..exact() };
    let mut eager = Sender::new(&config, Reno::default(), 0, Some(20_000));
    for _ in 0..3 {
        eager.write(0, 100);
        assert_eq!(take(&mut eager, 0).len(), 1);
    }
}

/// draft-cheng-iccrg-delivery-rate-estimation: delivered over the longer of sending and receiving.
#[test]
fn the_rate_of_delivery_is_that_of_the_bottleneck() {
    let mut path = reno(2_500_000, 20 * MS, 1 << 30);
    path.sender.sock.snd_ssthresh = 60;
    path.sender.write_endless(0);
    path.run(5 * S);
    let sock = &path.sender.sock;
    let rate = u64::from(sock.rate_delivered_pkts) * MSS * 1_000_000 / u64::from(sock.rate_interval_us);
    let maximum = 2_500_000.0 * 1448.0 / 1500.0;
    assert!((rate as f64 / maximum - 1.0).abs() < 0.05, "{rate} bytes/s");
    assert!(!sock.rate_app_limited);
}

#[test]
fn a_source_without_data_ends_with_a_fin_alone() {
    let mut path = reno(2_500_000, 20 * MS, 1 << 30);
    path.finish();
    assert!(path.receiver.is_finished());
    assert_eq!((path.sender.sock.bytes_acked, path.receiver.totals.in_order_bytes), (0, 0));
}

#[test]
fn an_endless_source_ends_with_its_send_buffer() {
    let mut path = reno(2_500_000, 20 * MS, 1 << 30);
    path.sender.write_endless(0);
    path.run(S);
    let written = path.sender.sock.write_seq;
    path.finish();
    assert_eq!(path.receiver.totals.in_order_bytes, written);
}
