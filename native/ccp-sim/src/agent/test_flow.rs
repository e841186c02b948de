//! An agent-controlled flow for tests.

use ccp_lang::{Program, Source, compile};
use ccp_record::intf::ccp_flow_info;
use ccp_record::{Record, Records, Update};
use ccp_tcp::{CaState, Congestion, RateSample, Sock};

use super::{AgentFlow, Shared};

pub(crate) const MSS_BYTES: u64 = 1448;
pub(crate) const FLOW_ID: u64 = 7 << 32 | 3;
pub(crate) const MAX_CWND_BYTES: u64 = 1 << 30;

pub(crate) fn program(text: &str) -> Program {
    compile(&Source { text, name: "default", origin: "test", first_line: 1 }).unwrap()
}

/// A connection with a window of ten segments, at 1 s.
pub(crate) struct Bench {
    pub shared: Shared,
    pub flow: AgentFlow,
    pub sock: Sock,
}

impl Bench {
    pub fn new() -> Self {
        let shared = Shared::new(MAX_CWND_BYTES);
        let mut flow = AgentFlow::new(&shared, FLOW_ID, ccp_flow_info::default(), false);
        let mut sock = Sock::new(MSS_BYTES as u32, 10);
        sock.mstamp_us = 1_000_000;
        sock.srtt_us = 40_000;
        sock.min_rtt_us = 40_000;
        flow.init(&mut sock);
        let _ = shared.take_records();
        Self { shared, flow, sock }
    }

    pub fn with(text: &str) -> Self {
        let mut bench = Self::new();
        let handle = bench.shared.install(program(text)).unwrap();
        bench.update(&Update { program: Some(handle), ..Update::default() });
        bench
    }

    pub fn update(&mut self, update: &Update<'_>) {
        self.flow.update(update);
    }

    /// An ACK of so many segments in order, 1 ms after the previous one.
    pub fn ack(&mut self, pkts: u32) {
        self.ack_with(pkts, RateSample { rtt_us: 41_000, ..RateSample::default() });
    }

    pub fn ack_with(&mut self, pkts: u32, sample: RateSample) {
        self.sock.mstamp_us += 1000;
        self.sock.delivered += pkts;
        self.sock.snd_una += u64::from(pkts) * MSS_BYTES;
        self.sock.write_seq = self.sock.write_seq.max(self.sock.snd_una);
        self.sock.bytes_acked = self.sock.snd_una;
        let sample = RateSample { acked_sacked: pkts, ..sample };
        self.flow.cong_control(&mut self.sock, &sample, false);
    }

    pub fn timeout(&mut self) {
        self.sock.snd_ssthresh = self.flow.ssthresh(&mut self.sock);
        self.sock.prior_cwnd = self.sock.snd_cwnd;
        self.sock.snd_cwnd = 1;
        self.flow.set_state(&mut self.sock, CaState::Loss);
        self.sock.ca_state = CaState::Loss;
    }

    pub fn records(&self) -> Records {
        self.shared.take_records()
    }

    /// Registers and flags of the waiting reports.
    pub fn reports(&self) -> Vec<(Vec<u64>, u16)> {
        let records = self.records();
        (0..records.len())
            .filter_map(|i| match records.get(i) {
                Some(Record::Report { head, raw }) => {
                    let fields = raw[size_of_val(&head)..].chunks(8);
                    let fields = fields.map(|f| u64::from_ne_bytes(f.try_into().unwrap())).collect();
                    Some((fields, head.flags))
                }
                _ => None,
            })
            .collect()
    }
}
