use std::collections::VecDeque;
use std::time::Instant;

use crate::{Ack, Config, Congestion, Cubic, Data, Receiver, Sender, Steered};

const RTT_NS: u64 = 20_000_000;
/// Of a segment on the wire.
const SPACING_NS: u64 = 1200;
const SEGMENTS: u64 = 10_000_000;

/// Segments of a window go to the receiver and ACKs come back; one of `lost_every` is lost.
fn segments_per_s<C: Congestion>(congestion: C, cwnd: u32, lost_every: u64) -> f64 {
    let config = Config { send_buffer_bytes: u64::MAX / 2, rcv_window_bytes: 1 << 40, ..Config::default() };
    let mut sender = Sender::new(&config, congestion, 0, Some(20_000));
    sender.sock.snd_cwnd = cwnd;
    sender.sock.snd_cwnd_clamp = cwnd;
    sender.write_endless(0);
    let mut receiver = Receiver::new(&config);
    let mut data: VecDeque<(u64, Data)> = VecDeque::new();
    let mut acks: VecDeque<(u64, Ack)> = VecDeque::new();
    let (mut now_ns, mut sent, mut link_free_ns) = (0, 0, 0);
    let start = Instant::now();
    while sent < SEGMENTS {
        while let Some(segment) = sender.next_segment(now_ns) {
            sent += 1;
            link_free_ns = now_ns.max(link_free_ns) + SPACING_NS;
            // Scattered: with a fixed distance a retransmission may be lost each time.
            if (sent.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % lost_every != 0 {
                data.push_back((link_free_ns + RTT_NS / 2, segment));
            }
        }
        let at = [
            data.front().map(|(at_ns, _)| *at_ns),
            acks.front().map(|(at_ns, _)| *at_ns),
            sender.due_ns(),
            receiver.due_ns(),
        ];
        now_ns = at.into_iter().flatten().min().expect("something is under way");
        while let Some((_, segment)) = data.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            for ack in receiver.on_data(now_ns, &segment, false) {
                acks.push_back((now_ns + RTT_NS / 2, ack));
            }
        }
        while let Some((_, ack)) = acks.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            sender.on_ack(now_ns, &ack);
        }
        if sender.due_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            sender.on_timer(now_ns);
        }
        if receiver.due_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            acks.extend(receiver.on_timer(now_ns).map(|ack| (now_ns + RTT_NS / 2, ack)));
        }
    }
    sent as f64 / start.elapsed().as_secs_f64()
}

#[test]
#[ignore = "a measurement: cargo test --release -p ccp-tcp speed -- --ignored --nocapture"]
fn segments_through_sender_and_receiver_in_a_second() {
    for (name, per_s) in [
        ("window of 1000 segments, no losses", segments_per_s(Steered, 1000, u64::MAX)),
        ("window of 1000 segments, 0.1 % lost", segments_per_s(Steered, 1000, 1000)),
        ("window of 1000 segments, 1 % lost", segments_per_s(Steered, 1000, 100)),
        ("window of 10,000 segments, 0.1 % lost", segments_per_s(Steered, 10_000, 1000)),
        ("CUBIC, no losses, at most 1000 segments", segments_per_s(Cubic::default(), 1000, u64::MAX)),
        ("CUBIC, 0.1 % lost", segments_per_s(Cubic::default(), 10, 1000)),
    ] {
        println!("{name}: {:.2} million segments/s", per_s / 1e6);
    }
}
