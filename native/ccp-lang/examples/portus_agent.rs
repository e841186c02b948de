//! An agent made with portus itself, for `tests/kernel/test_serve_ccp.py`: additive increase, half after a
//! loss. Its argument is the name of its socket in /tmp/ccp; it prints each window that it sets [bytes].

use std::collections::HashMap;

use portus::ipc::{BackendBuilder, Blocking, Ipc, unix::Socket};
use portus::lang::Scope;
use portus::{CongAlg, Datapath, DatapathInfo, DatapathTrait, Flow, Report, RunBuilder};

const PROGRAM: &str = "
    (def (Report (volatile acked 0) (volatile lost 0)))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
        (fallthrough))
    (when (> Micros Flow.rtt_sample_us)
        (report)
        (:= Micros 0))";

struct Aimd;

struct AimdFlow<I: Ipc> {
    datapath: Datapath<I>,
    scope: Scope,
    mss: u64,
    cwnd_bytes: u64,
}

impl<I: Ipc> CongAlg<I> for Aimd {
    type Flow = AimdFlow<I>;

    fn name() -> &'static str {
        "aimd"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([("aimd", PROGRAM.to_string())])
    }

    fn new_flow(&self, mut datapath: Datapath<I>, info: DatapathInfo) -> AimdFlow<I> {
        let scope =
            datapath.set_program("aimd", Some(&[("Cwnd", info.init_cwnd)])).expect("the program is known");
        AimdFlow { datapath, scope, mss: u64::from(info.mss), cwnd_bytes: u64::from(info.init_cwnd) }
    }
}

impl<I: Ipc> Flow for AimdFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        let [acked, lost] = ["Report.acked", "Report.lost"]
            .map(|field| report.get_field(field, &self.scope).expect("the program reports it"));
        self.cwnd_bytes = if lost > 0 {
            (self.cwnd_bytes / 2).max(10 * self.mss)
        } else {
            self.cwnd_bytes + self.mss * acked / self.cwnd_bytes
        };
        if self.datapath.update_field(&self.scope, &[("Cwnd", self.cwnd_bytes as u32)]).is_ok() {
            println!("{}", self.cwnd_bytes);
        }
    }

    fn close(&mut self) {
        println!("closed");
    }
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "portus".to_string());
    let sock = Socket::<Blocking>::new(&name).expect("a socket in /tmp/ccp");
    let ended = RunBuilder::new(BackendBuilder { sock }).default_alg(Aimd).run();
    eprintln!("{ended:?}");
}
