//! Caps of flows whose client is limited by a token bucket, and their messages to the agent.

use ccp_record::{Record, Update, copy_out};
use ccp_rtcp_core::types::{RTCP_CAPPED, RTCP_LIMITED, RTCP_PROBING, RTCP_RAISED};
use ccp_tcp::{Congestion, RateSample};

use crate::agent::AgentFlow;
use crate::agent::test_flow::{Bench, FLOW_ID, MSS_BYTES, program};
use ccp_record::intf;
use ccp_rtcp_core::Row;

use super::*;

/// A message to the extension for rate limits: `enum rtcp_caps`.
pub(crate) fn test_message(caps: u32, options: Options) -> Vec<u8> {
    let message = Message { caps, pad: 0, options };
    // SAFETY: integers without gaps, with the size of the structure.
    let raw = unsafe { std::mem::transmute::<Message, [u8; size_of::<Message>()]>(message) };
    raw.to_vec()
}

/// Enables or disables the detection.
fn ask(bench: &mut Bench, caps: u32) {
    let raw = test_message(caps, Options::usual());
    let messages = [ccp_record::Message { extension: EXTENSION, raw: &raw }];
    bench.update(&Update { messages: &messages, ..Update::default() });
}

fn reported(record: Option<Record<'_>>) -> Option<(u64, Row)> {
    match record {
        Some(Record::Extension { head, raw }) => Some((head.flow_id, copy_out(raw)?)),
        _ => None,
    }
}

const BIG: &str =
    "(def (Report (limit 0))) (when true (:= Cwnd 1000000) (:= Report.limit Flow.rate_allowed))";

/// Calm at first; then the bucket is empty, and one of two segments is lost, 100 delivered a second: 144.8 kB/s.
struct Limited {
    bench: Bench,
    verdicts: Vec<u32>,
}

impl Limited {
    fn new(kinds: u32) -> Self {
        let mut bench = Bench::with(BIG);
        bench.sock.srtt_us = 10_000;
        bench.sock.min_rtt_us = 10_000;
        bench.sock.packets_out = 10;
        bench.sock.write_seq = 1 << 40;
        ask(&mut bench, kinds);
        Self { bench, verdicts: vec![] }
    }

    fn ack(&mut self, after_us: u64, delivered: u32, lost: u32) {
        self.bench.sock.mstamp_us += after_us - 1000;
        self.bench.sock.lost += lost;
        self.bench.ack_with(delivered, RateSample { rtt_us: 10_000, ..RateSample::default() });
        let records = self.bench.records();
        self.verdicts.extend((0..records.len()).filter_map(|i| Some(reported(records.get(i))?.1.verdict)));
    }

    fn run(&mut self) {
        for _ in 0..100 {
            self.ack(1000, 5, 0);
        }
        self.ack(1000, 5, 300);
        for _ in 0..1000 {
            self.ack(10_000, 1, 1);
        }
    }
}

#[test]
fn window_and_rate_of_a_limited_client_are_capped_and_the_agent_receives_of_it() {
    let mut limited = Limited::new(RTCP_CAP_CWND | RTCP_CAP_RATE);
    limited.run();
    assert!(limited.verdicts.contains(&RTCP_CAPPED), "{:?}", limited.verdicts);
    assert!(limited.verdicts.windows(2).all(|two| two[0] != two[1]), "only changes: {:?}", limited.verdicts);
    let known = [RTCP_CAPPED, RTCP_PROBING, RTCP_RAISED];
    assert!(limited.verdicts.iter().all(|verdict| known.contains(verdict)), "{:?}", limited.verdicts);
    // 144.8 kB/s in 10 ms are a segment: the window is the floor. Probing allows a fifth more.
    let (sock, flow) = (&limited.bench.sock, limited.bench.flow.snapshot());
    assert_eq!((sock.snd_cwnd, flow.cwnd_bytes), (3, 3 * MSS_BYTES));
    let rate = sock.pacing_rate_bytes_per_s as f64;
    assert!(sock.is_paced && (0.97 * 144_800.0..1.22 * 144_800.0).contains(&rate), "{rate}");
}

#[test]
fn a_cap_of_the_window_alone_does_not_pace() {
    let mut limited = Limited::new(RTCP_CAP_CWND);
    limited.run();
    assert_eq!((limited.bench.sock.snd_cwnd, limited.bench.sock.is_paced), (2, false));
}

#[test]
fn who_asks_for_no_caps_is_not_looked_at_and_who_ends_them_is_free() {
    let mut limited = Limited::new(0);
    limited.run();
    assert_eq!((limited.verdicts.len(), limited.bench.sock.snd_cwnd), (0, 690));
    let mut limited = Limited::new(RTCP_CAP_CWND | RTCP_CAP_RATE);
    limited.run();
    ask(&mut limited.bench, 0);
    limited.ack(10_000, 1, 1);
    assert_eq!((limited.bench.sock.snd_cwnd, limited.bench.sock.is_paced), (690, false));
}

#[test]
fn who_observes_is_reported_and_not_capped() {
    let mut limited = Limited::new(0);
    let raw = test_message(RTCP_CAP_CWND | RTCP_CAP_RATE, Options { observe: 1, ..Options::usual() });
    let messages = [ccp_record::Message { extension: EXTENSION, raw: &raw }];
    limited.bench.update(&Update { messages: &messages, ..Update::default() });
    limited.run();
    assert_eq!(limited.verdicts, [RTCP_LIMITED]);
    assert_eq!((limited.bench.sock.snd_cwnd, limited.bench.sock.is_paced), (690, false));
}

#[test]
fn without_an_agent_there_are_no_caps() {
    let mut limited = Limited::new(RTCP_CAP_CWND | RTCP_CAP_RATE);
    limited.run();
    limited.bench.shared.silence();
    limited.ack(10_000, 1, 0);
    let window = limited.bench.sock.snd_cwnd;
    limited.bench.sock.is_cwnd_limited = true;
    for _ in 0..50 {
        limited.ack(10_000, 10, 0);
    }
    assert!(limited.bench.sock.snd_cwnd > window && !limited.bench.sock.is_paced);
}

#[test]
fn a_second_connection_to_the_client_shares_its_rate_from_the_start() {
    let mut limited = Limited::new(RTCP_CAP_CWND | RTCP_CAP_RATE);
    limited.run();
    let shared = limited.bench.shared.clone();
    let info = intf::ccp_flow_info::default();
    let mut second = AgentFlow::new(&shared, FLOW_ID + 1, info, false);
    let mut sock = limited.bench.sock.clone();
    second.init(&mut sock);
    let _ = shared.take_records();
    let raw = test_message(RTCP_CAP_RATE, Options::usual());
    let messages = [ccp_record::Message { extension: EXTENSION, raw: &raw }];
    let handle = shared.install(program(BIG)).unwrap();
    second.update(&Update { program: Some(handle), messages: &messages, ..Update::default() });
    second.cong_control(&mut sock, &RateSample::default(), false);
    let records = shared.take_records();
    let reported = (0..records.len()).find_map(|i| reported(records.get(i)));
    assert_eq!(reported.map(|(flow_id, row)| (flow_id, row.active_flows)), Some((FLOW_ID + 1, 2)));
    let own = limited.bench.sock.pacing_rate_bytes_per_s;
    assert!(sock.pacing_rate_bytes_per_s <= own && sock.is_paced);
    limited.ack(10_000, 1, 1);
    let halved = limited.bench.sock.pacing_rate_bytes_per_s;
    assert!(2 * halved <= own + own / 4, "{halved} {own}");
    second.close(&sock);
    for _ in 0..3 {
        limited.ack(10_000, 1, 1);
    }
    assert!(limited.bench.sock.pacing_rate_bytes_per_s > halved);
}

#[test]
fn options_that_the_core_has_no_room_for_cap_nothing() {
    let mut bench = Bench::with(BIG);
    let raw = test_message(RTCP_CAP_CWND, Options { n_candidates: 99, ..Options::usual() });
    let messages = [ccp_record::Message { extension: EXTENSION, raw: &raw }];
    bench.update(&Update { messages: &messages, ..Update::default() });
    bench.ack(1);
    assert_eq!(bench.sock.snd_cwnd, 690);
}

#[test]
fn a_message_to_none_or_of_another_size_is_refused() {
    let shared = Bench::new().shared;
    let check = |extension, raw| {
        shared.extension_of(&ccp_record::Message { extension, raw }).map(drop).map_err(|e| e.slug)
    };
    assert_eq!(check("other", &[1]), Err("load.extension"));
    assert_eq!(check("other", &[]), Ok(())); // nothing to detach
    assert_eq!(check(EXTENSION, &[1]), Err("update.extension"));
    assert_eq!(check(EXTENSION, &test_message(0, Options::usual())), Ok(()));
}
