use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;

use ccp_lang::{Source, compile};

use super::*;

const MSS: u16 = 1000;
const MS: Duration = Duration::from_millis(1);
const CWND: u64 = 50_000;

/// Counts allocations of this thread.
struct Counting;

thread_local!(static ALLOCATED: Cell<u64> = const { Cell::new(0) });

// SAFETY: it is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|n| n.set(n.get() + 1));
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Wire {
    agent: UnixDatagram,
    link: Arc<Link>,
    directory: PathBuf,
}

impl Wire {
    fn new(name: &str) -> Wire {
        let directory = std::env::temp_dir().join(format!("ccp-quic-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let agent = UnixDatagram::bind(directory.join("agent")).unwrap();
        agent.set_nonblocking(true).unwrap();
        let wire = Wire { link: Link::open(&directory.join("agent")).unwrap(), agent, directory };
        assert_eq!(wire.to_bytes()[0], 5, "Ready");
        wire
    }

    /// The next message sent so far.
    fn to_bytes(&self) -> Vec<u8> {
        let mut buffer = [0; MAX_MEASURE_BYTES];
        let n = self.agent.recv(&mut buffer).expect("a message");
        buffer[..n].to_vec()
    }

    fn fields(&self) -> Vec<u64> {
        self.to_bytes()[16..].chunks(8).map(|field| u64::from_le_bytes(field.try_into().unwrap())).collect()
    }

    fn is_empty(&self) -> bool {
        self.agent.recv(&mut [0]).is_err()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

fn program(text: &str) -> Numbered {
    let program = compile(&Source { text, name: "test", origin: "<test>", first_line: 1 }).unwrap();
    Numbered { number: 1, program: Arc::new(program) }
}

fn fold(began: Instant, text: &str) -> Fold {
    Fold::new(began, CWND, 1, program(text), &Values::default())
}

const EVERYTHING: &str = "
    (def (Report (acked 0) (packets 0) (misordered 0) (ecn_bytes 0) (ecn_packets 0) (lost 0) (now 0) (flight 0)
        (pending 0) (flight_packets 0) (incoming 0) (outgoing 0) (rtt 0) (timeout false) (window 0) (rate 0)))
    (when true
        (:= Report.acked Ack.bytes_acked) (:= Report.packets Ack.packets_acked)
        (:= Report.misordered (+ Ack.bytes_misordered Ack.packets_misordered))
        (:= Report.ecn_bytes Ack.ecn_bytes) (:= Report.ecn_packets Ack.ecn_packets)
        (:= Report.lost Ack.lost_pkts_sample) (:= Report.now Ack.now)
        (:= Report.flight Flow.bytes_in_flight) (:= Report.pending Flow.bytes_pending)
        (:= Report.flight_packets Flow.packets_in_flight) (:= Report.incoming Flow.rate_incoming)
        (:= Report.outgoing Flow.rate_outgoing) (:= Report.rtt Flow.rtt_sample_us)
        (:= Report.timeout Flow.was_timeout) (:= Report.window Cwnd) (:= Report.rate Rate)
        (report))";

#[test]
fn a_program_reads_what_an_ack_and_a_loss_say() {
    let wire = Wire::new("everything");
    let began = Instant::now();
    let mut fold = fold(began, EVERYTHING);
    for i in 0..10 {
        fold.sent(began + i * MS, 1000);
    }
    let now = began + 20 * MS;
    assert_eq!(fold.acked(now, began, 1000, 9000), Some(20 * MS));
    assert_eq!(fold.acked(now + MS, began + 2 * MS, 2000, 7000), Some(19 * MS));
    let rtt = fold.acked(now + 2 * MS, began + MS, 1000, 6500);
    assert_eq!(rtt, None, "of an overtaken packet");
    let acked = Happened { acked_bytes: 1000, acked_pkts: 1, rtt: Some(18 * MS), ..Happened::default() };
    fold.run(now + 2 * MS, &acked, MSS, 7, &wire.link);
    // 3000 bytes since the third packet was sent, 2 ms after the first; nothing had been delivered then.
    let (incoming, outgoing) = (3_000_000 / 21, 1_500_000);
    let expected = [1000, 1, 0, 0, 0, 0, 22_000, 6500, 1000, 7, incoming, outgoing, 18_000, 0, CWND, 0];
    assert_eq!(wire.fields(), expected);

    fold.lost(2500);
    let lost = Happened {
        lost_bytes: 2500,
        lost_pkts: 3,
        was_timeout: true,
        is_app_limited: true,
        ..Happened::default()
    };
    fold.run(now + 3 * MS, &lost, MSS, 7, &wire.link);
    let none = u64::from(u32::MAX);
    assert_eq!(wire.fields(), [0, 0, 0, 0, 0, 3, 23_000, 4000, 0, 4, incoming, outgoing, none, 1, CWND, 0]);

    fold.run(now + 4 * MS, &Happened { is_marked: true, ..Happened::default() }, MSS, 7, &wire.link);
    assert_eq!(wire.fields()[3..6], [1000, 1, 0]);
}

#[test]
fn what_an_ack_delivered_may_be_sent_for_after_the_losses_that_it_shows() {
    let wire = Wire::new("conserves");
    let began = Instant::now();
    let text = "(def (Report (flight 0))) (when true (:= Report.flight Flow.bytes_in_flight) (report))";
    let mut fold = fold(began, text);
    let now = began + 20 * MS;
    let rtt = fold.acked(now, began, 2000, 8000);
    fold.run(
        now,
        &Happened { acked_bytes: 2000, acked_pkts: 2, rtt, ..Happened::default() },
        MSS,
        7,
        &wire.link,
    );
    assert_eq!(wire.fields(), [8000]);
    let lost = Happened { lost_bytes: 3000, ..Happened::default() };
    fold.lost(3000);
    fold.run(now, &lost, MSS, 7, &wire.link);
    assert_eq!(wire.fields(), [8000 - 3000 + 2000]);
    // Detected by a timer.
    fold.lost(1000);
    fold.run(now + MS, &Happened { lost_bytes: 1000, ..Happened::default() }, MSS, 7, &wire.link);
    assert_eq!(wire.fields(), [4000]);
}

#[test]
fn a_rate_bounds_the_window_and_neither_is_ever_0() {
    let mut fold = fold(Instant::now(), "(def (Report (a 0))) (when true (report))");
    assert_eq!(fold.window_bytes(20 * MS, MSS), CWND);
    for (rate_bytes_per_s, window) in [(1_000_000, 20_000), (100, 2000), (u64::MAX, CWND), (0, CWND)] {
        fold.apply(0, rate_bytes_per_s);
        assert_eq!(fold.window_bytes(20 * MS, MSS), window, "{rate_bytes_per_s}");
    }
    fold.apply(0, u64::from(u32::MAX));
    assert_eq!(fold.window_bytes(MS / 1000, MSS), CWND, "no rate");
    fold.apply(1, 0);
    assert_eq!(fold.window_bytes(20 * MS, MSS), 2000);
}

#[test]
fn reports_for_which_there_is_no_room_come_later_with_the_sum() {
    let wire = Wire::new("room");
    let began = Instant::now();
    let text = "(def (Report (volatile acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
        (when (> Ack.packets_acked 1) (report))";
    let mut fold = fold(began, text);
    let happened = Happened { acked_bytes: 1000, acked_pkts: 2, ..Happened::default() };
    while !fold.is_due {
        fold.run(began, &happened, MSS, 7, &wire.link);
    }
    fold.run(began, &happened, MSS, 7, &wire.link);
    while !wire.is_empty() {}
    fold.run(began, &Happened { acked_pkts: 1, ..happened }, MSS, 7, &wire.link);
    assert_eq!(wire.fields(), [3000]);
    fold.run(began, &Happened { acked_pkts: 1, ..happened }, MSS, 7, &wire.link);
    assert!(wire.is_empty());
}

#[test]
fn a_fold_that_stops_half_way_changes_and_reports_nothing() {
    let wire = Wire::new("stops");
    let began = Instant::now();
    let mut fold =
        fold(began, "(def (Report (a 0))) (when true (:= Cwnd 9000) (:= Report.a (- 0 1)) (report))");
    fold.run(began, &Happened::default(), MSS, 7, &wire.link);
    assert_eq!(fold.window_bytes(MS, MSS), CWND);
    assert!(wire.is_empty());
}

#[test]
fn the_path_of_an_ack_allocates_nothing() {
    let wire = Wire::new("allocates");
    let began = Instant::now();
    let mut fold = fold(began, EVERYTHING);
    let happened = Happened { acked_bytes: 1000, acked_pkts: 1, ..Happened::default() };
    let before = ALLOCATED.get();
    for i in 0..3000 {
        fold.sent(began + i * MS, 1000);
        let rtt = fold.acked(began + (i + 10) * MS, began + i * MS, 1000, 9000);
        fold.run(began + (i + 10) * MS, &Happened { rtt, ..happened }, MSS, 7, &wire.link);
        wire.is_empty();
        fold.window_bytes(MS, MSS);
    }
    assert_eq!(ALLOCATED.get(), before);
}
