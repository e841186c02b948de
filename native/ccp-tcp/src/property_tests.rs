use proptest::prelude::*;

use crate::test_path::{Fate, Path};
use crate::{Bbr, Config, Congestion, Cubic, Reno, Steered};

const MS: u64 = 1_000_000;

/// Disturbances of a path, in percent, and the seed.
#[derive(Clone, Debug)]
struct Weather {
    seed: u64,
    data_lost: u64,
    data_late: u64,
    data_doubled: u64,
    ack_lost: u64,
    ack_late: u64,
    ack_doubled: u64,
    late_ns: u64,
}

impl Weather {
    fn fates(&self, seed: u64, lost: u64, late: u64, doubled: u64) -> impl FnMut() -> Fate + use<> {
        let mut state = seed;
        let late_ns = self.late_ns;
        move || {
            let draw = next(&mut state);
            let delay_ns = 1 + next(&mut state) % late_ns;
            match draw % 100 {
                percent if percent < lost => Fate::IsLost,
                percent if percent < lost + late => Fate::IsLate(delay_ns),
                percent if percent < lost + late + doubled => Fate::IsDoubled(delay_ns),
                _ => Fate::Passes,
            }
        }
    }

    fn on<C: Congestion>(&self, path: &mut Path<C>) {
        let mut data = self.fates(self.seed, self.data_lost, self.data_late, self.data_doubled);
        path.data_fate = Box::new(move |_| data());
        let mut acks = self.fates(!self.seed, self.ack_lost, self.ack_late, self.ack_doubled);
        path.ack_fate = Box::new(move |_| acks());
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn weather() -> impl Strategy<Value = Weather> {
    (any::<u64>(), 0..40u64, 0..30u64, 0..20u64, 0..40u64, 0..30u64, 0..20u64, 1..200u64).prop_map(
        |(seed, data_lost, data_late, data_doubled, ack_lost, ack_late, ack_doubled, late_ms)| Weather {
            seed,
            data_lost,
            data_late,
            data_doubled,
            ack_lost,
            ack_late,
            ack_doubled,
            late_ns: late_ms * MS,
        },
    )
}

fn config(init_cwnd: u32, ecn: bool, accurate_ecn: bool) -> Config {
    Config { init_cwnd, ecn, accurate_ecn, ..Config::default() }
}

/// Writes some bytes occasionally, finishes, and checks that everything arrived; returns comparable results.
fn transfer<C: Congestion>(mut path: Path<C>, weather: &Weather, writes: &[(u64, u64)]) -> String {
    weather.on(&mut path);
    let mut total_bytes = 0;
    for (pause_ms, bytes) in writes {
        path.run(path.now_ns + pause_ms * MS);
        path.sender.write(path.now_ns, *bytes);
        total_bytes += bytes;
    }
    path.finish();
    let (sock, totals) = (&path.sender.sock, &path.receiver.totals);
    assert!(path.receiver.is_finished());
    assert_eq!(totals.in_order_bytes, total_bytes);
    assert_eq!(sock.bytes_acked, total_bytes);
    assert_eq!(sock.bytes_sent - sock.bytes_retrans, total_bytes);
    assert_eq!((sock.packets_out, sock.lost_out, sock.retrans_out, sock.sacked_out), (0, 0, 0, 0));
    assert_eq!(sock.delivered, path.sent as u32 - sock.total_retrans);
    format!("{} {} {sock:?} {totals:?}", path.now_ns, path.sent)
}

fn on_path<C: Congestion>(
    congestion: C,
    config: &Config,
    bytes_per_s: u64,
    rtt_ms: u64,
    buffer_bytes: u64,
    weather: &Weather,
    writes: &[(u64, u64)],
) -> String {
    let mut path = Path::new(config, congestion, bytes_per_s, rtt_ms * MS, buffer_bytes);
    path.mark_bytes = buffer_bytes / 2;
    transfer(path, weather, writes)
}

/// Without reordering each loss costs one retransmission, however many there are at once.
#[test]
fn nothing_is_sent_again_that_arrived() {
    fn duplicates<C: Congestion>(
        congestion: C,
        bytes_per_s: u64,
        rtt_ms: u64,
        buffer_bytes: u64,
    ) -> (u64, u64) {
        let mut path = Path::new(&Config::default(), congestion, bytes_per_s, rtt_ms * MS, buffer_bytes);
        path.sender.write_endless(0);
        path.run(4000 * MS);
        assert!(path.dropped > 10, "the path is never full");
        (path.receiver.totals.duplicate_segments, u64::from(path.sender.sock.timeouts))
    }
    for (bytes_per_s, rtt_ms, buffer_bytes) in [
        (12_500_000, 40, 500_000),
        (12_500_000, 40, 60_000),
        (2_500_000, 10, 25_000),
        (125_000_000, 5, 600_000),
    ] {
        assert_eq!(duplicates(Reno::default(), bytes_per_s, rtt_ms, buffer_bytes), (0, 0));
        assert_eq!(duplicates(Cubic::default(), bytes_per_s, rtt_ms, buffer_bytes), (0, 0));
        assert_eq!(duplicates(Bbr::default(), bytes_per_s, rtt_ms, buffer_bytes), (0, 0));
    }
}

proptest! {
    #[test]
    fn every_byte_arrives_once_whatever_happens(
        weather in weather(),
        writes in prop::collection::vec((0..400u64, 1..60_000u64), 1..6),
        rtt_ms in 1..200u64,
        kbytes_per_s in 100..20_000u64,
        buffer_segments in 2..200u64,
        init_cwnd in 1..40u32,
        control in 0..3u32,
        ecn in 0..3u32,
    ) {
        let config = config(init_cwnd, ecn > 0, ecn > 1);
        let rate = kbytes_per_s * 1000;
        let buffer = buffer_segments * 1500;
        let run = || match control {
            0 => on_path(Reno::default(), &config, rate, rtt_ms, buffer, &weather, &writes),
            1 => on_path(Cubic::default(), &config, rate, rtt_ms, buffer, &weather, &writes),
            _ => on_path(Bbr::default(), &config, rate, rtt_ms, buffer, &weather, &writes),
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn a_steered_paced_sender_ends_as_well(
        weather in weather(),
        bytes in 1..300_000u64,
        cwnd in 2..80u32,
        kbytes_per_s in 50..5_000u64,
    ) {
        let mut path = Path::new(&Config::default(), Steered, 2_000_000, 30 * MS, 60_000);
        path.sender.sock.snd_cwnd = cwnd;
        path.sender.sock.is_paced = true;
        path.sender.sock.pacing_rate_bytes_per_s = kbytes_per_s * 1000;
        transfer(path, &weather, &[(0, bytes)]);
    }
}
