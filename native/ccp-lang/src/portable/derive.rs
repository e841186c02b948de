//! Primitives of ccplane's own from those that CCP has, and what the agent wants to know with each report.

use super::{Clause, Work, bind, writes};
use crate::error::{Pos, Problem};
use crate::ir::{Implicit, Program, Reg};
use crate::prims::{N_PORTUS_PRIMS, PRIMITIVES};
use crate::{Source, compile};

/// How a primitive is made: from a register that lines of a program keep, or a constant.
enum From {
    /// Its register, the lines that keep it, and those whose registers they read.
    Lines { register: &'static str, lines: &'static str, after: &'static [&'static str] },
    /// Nothing happens there that would make it another value.
    Constant(u64),
}

/// In the order in which they are computed.
static DERIVED: [(&str, From); 10] = [
    ("Flow.mss", From::Lines { register: "mss_bytes", lines: "", after: &[] }),
    (
        "Flow.delivered_bytes",
        From::Lines {
            register: "delivered_bytes",
            lines: "(:= delivered_bytes (+ delivered_bytes Ack.bytes_acked))",
            after: &[],
        },
    ),
    (
        "Flow.lost",
        From::Lines {
            register: "lost_so_far",
            lines: "(:= lost_so_far (+ lost_so_far Ack.lost_pkts_sample))",
            after: &[],
        },
    ),
    (
        "Flow.min_rtt_us",
        From::Lines {
            register: "min_rtt_us",
            lines: "(:= min_rtt_us (min min_rtt_us Flow.rtt_sample_us))",
            after: &[],
        },
    ),
    // RFC 6298 section 2.3, as Linux does it, in eighths.
    (
        "Flow.srtt_us",
        From::Lines {
            register: "srtt_us",
            lines: "(:= first (== srtt8_us 0))
                    (:= sampled (< Flow.rtt_sample_us 4294967295))
                    (:= srtt8_us (if sampled (+ (- srtt8_us (/ srtt8_us 8)) Flow.rtt_sample_us)))
                    (:= srtt8_us (if first (* 8 srtt8_us)))
                    (:= srtt_us (/ srtt8_us 8))",
            after: &[],
        },
    ),
    // RFC 6582: from a loss or timeout on until all that was sent before it is acknowledged.
    (
        "Flow.ca_state",
        From::Lines {
            register: "ca_state",
            lines: "(:= ca_state (if (< recover_bytes (+ delivered_bytes 1)) 0))
                    (:= begins (|| Flow.was_timeout (&& (== ca_state 0) (> Ack.lost_pkts_sample 0))))
                    (:= recover_bytes (if begins (+ delivered_bytes (max Cwnd window_bytes))))
                    (:= ca_state (if begins 3))
                    (:= ca_state (if Flow.was_timeout 4))
                    (:= window_bytes Cwnd)",
            after: &["Flow.delivered_bytes"],
        },
    ),
    (
        "Flow.cwnd_limited",
        From::Lines {
            register: "cwnd_limited",
            lines: "(:= cwnd_limited (> (* 2 (+ Flow.bytes_in_flight Ack.bytes_acked)) Cwnd))",
            after: &[],
        },
    ),
    ("Flow.snd_ssthresh", From::Constant(u64::MAX)),
    ("Flow.local_congestion", From::Constant(0)),
    ("Flow.rate_allowed", From::Constant(0)),
];

/// Registers of the lines above: name, and what they begin with.
static REGISTERS: [(&str, u64); 10] = [
    ("mss_bytes", 0),
    ("left_bytes", 0),
    ("delivered_bytes", 0),
    ("lost_so_far", 0),
    ("min_rtt_us", u32::MAX as u64),
    ("srtt8_us", 0),
    ("srtt_us", 0),
    ("ca_state", 0),
    ("recover_bytes", 0),
    ("window_bytes", 0),
];

/// The others, that hold a flag.
static FLAGS: [&str; 4] = ["first", "sampled", "begins", "cwnd_limited"];

/// Those that begin with what the agent knows of the flow when it gets a program.
static CARRIED: [&str; 5] = ["mss_bytes", "delivered_bytes", "lost_so_far", "min_rtt_us", "srtt8_us"];

/// The window as the program left it, where a datapath took whole segments of it only: growth by less than one at each
/// ACK would never come to a segment, and a window that is to reach a threshold would not.
const WINDOW_LINES: &str = "(:= left_bytes Cwnd)
    (:= left_bytes (if (&& (< Cwnd Report.cwnd_bytes) (< Report.cwnd_bytes (+ Cwnd mss_bytes)))
        Report.cwnd_bytes))
    (:= Cwnd left_bytes)";

fn find(name: &str) -> Option<&'static From> {
    DERIVED.iter().find(|(known, _)| *known == name).map(|(_, from)| from)
}

/// Returns, as problems, the primitives that a datapath of CCP's lacks and that nothing is made of.
pub fn missing(program: &Program) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for instr in &program.instrs {
        for reg in [instr.left, instr.right] {
            let Reg::Prim(i) = reg else { continue };
            let name = PRIMITIVES[usize::from(i)].name;
            if usize::from(i) < N_PORTUS_PRIMS || find(name).is_some() {
                continue;
            }
            let problem = Problem::new(
                "lang.limit",
                Pos { line: instr.line + 1 - program.first_line, column: 1 },
                format!("no field `{name}`"),
                "it is ccplane's own: datapaths that speak CCP's wire format do not measure it",
                "write the program without it, or run it on the kernel datapath",
            );
            if !problems.iter().any(|known| known.message == problem.message) {
                problems.push(problem);
            }
        }
    }
    problems
}

/// What the agent has to know of what was added.
pub struct Derived {
    pub carried: Vec<(&'static str, u8)>,
    pub head: Vec<&'static str>,
}

/// Adds what makes the primitives that a program reads, and what the agent wants to know.
pub fn splice(work: &mut Work, prims_used: u64) -> Derived {
    let uses = |name: &str| {
        let used =
            |(i, prim): (usize, &crate::prims::Primitive)| prim.name == name && prims_used >> i & 1 == 1;
        PRIMITIVES.iter().enumerate().any(used)
    };
    let wanted: Vec<&(&str, From)> = DERIVED.iter().filter(|(name, _)| uses(name)).collect();
    let is_read = |name: &str| {
        let reads =
            |(_, from): &&(&str, From)| matches!(from, From::Lines { after, .. } if after.contains(&name));
        uses(name) || wanted.iter().any(reads)
    };
    let mut lines: Vec<&str> = DERIVED
        .iter()
        .filter(|(name, _)| is_read(name))
        .filter_map(|(_, from)| match from {
            From::Lines { lines, .. } => Some(*lines),
            _ => None,
        })
        .collect();
    lines.extend(HEAD_LINES);
    if work.instrs().any(|instr| writes(instr, Implicit::Cwnd)) {
        lines.insert(0, WINDOW_LINES);
    }
    let mut added = Added::new(&lines.join("\n"), work);
    let mut carried = Vec::new();
    for name in CARRIED {
        if let Some(Reg::Control(i)) = added.register(name) {
            carried.push((name, i));
        }
    }
    let stamp = work.control(0);
    carried.push(("stamp", stamp));
    let values: Vec<(usize, Reg)> = wanted
        .iter()
        .map(|(name, from)| {
            let value = match from {
                From::Lines { register, .. } => added.register(register).unwrap_or(Reg::Imm(0)),
                From::Constant(n) => Reg::Imm(*n),
            };
            (PRIMITIVES.iter().position(|prim| prim.name == *name).unwrap_or_default(), value)
        })
        .collect();
    for instr in work.instrs() {
        for reg in [&mut instr.left, &mut instr.right] {
            if let Reg::Prim(i) = *reg
                && let Some((_, value)) = values.iter().find(|(prim, _)| *prim == usize::from(i))
            {
                *reg = *value;
            }
        }
    }
    let mut head = HEAD.to_vec();
    let line = work.clauses[0].flag.first().map_or(1, |instr| instr.line);
    added.instrs.push(bind(added.stamp, Reg::Control(stamp), line));
    let window = added.window;
    follow(work, &mut added, Implicit::Cwnd, window, line);
    if work.instrs().any(|instr| writes(instr, Implicit::Rate)) {
        let rate = work.report(false);
        follow(work, &mut added, Implicit::Rate, rate, line);
        head.push("rate_bytes_per_s");
    }
    for instr in &mut added.instrs {
        instr.line = line;
    }
    work.clauses[0].flag.splice(..0, added.instrs);
    Derived { carried, head }
}

/// Has `report` hold what a register holds at the end of a fold.
fn follow(work: &mut Work, added: &mut Added, register: Implicit, report: Reg, line: u32) {
    added.instrs.push(bind(report, Reg::Implicit(register), line));
    for Clause { body, .. } in &mut work.clauses {
        if let Some(last) = body.iter().rfind(|instr| writes(instr, register)) {
            let line = last.line;
            body.push(bind(report, Reg::Implicit(register), line));
        }
    }
}

/// Report registers of ours, in the order of [`HEAD_LINES`].
static HEAD: [&str; 6] = ["stamp", "acked_bytes", "lost_pkts", "timeouts", "rtt_us", "cwnd_bytes"];

static HEAD_LINES: [&str; 4] = [
    "(:= Report.acked_bytes (+ Report.acked_bytes Ack.bytes_acked))",
    "(:= Report.lost_pkts (+ Report.lost_pkts Ack.lost_pkts_sample))",
    "(:= Report.timeouts (if Flow.was_timeout 1))",
    "(:= Report.rtt_us (if (< Flow.rtt_sample_us 4294967295) Flow.rtt_sample_us))",
];

/// Lines of ours, compiled for their place in a program.
struct Added {
    instrs: Vec<crate::Instr>,
    names: Vec<(String, Reg)>,
    stamp: Reg,
    window: Reg,
}

impl Added {
    /// Compiles lines, and gives their registers a place in the program; the same ones if they are read by name.
    fn new(lines: &str, work: &mut Work) -> Self {
        let used = |name: &&str| lines.contains(name);
        let numbers = REGISTERS.iter().filter(|(name, _)| used(name));
        let numbers = numbers.map(|(name, init)| format!("({name} {init})"));
        let flags = FLAGS.iter().filter(|name| used(name)).map(|name| format!("({name} false)"));
        let declared = numbers.chain(flags).collect::<String>();
        let text = format!(
            "(def (Report (stamp 0) (volatile acked_bytes 0) (volatile lost_pkts 0) (volatile timeouts 0) (rtt_us 0)
                          (cwnd_bytes 0))
             {declared})
             (when true {lines})"
        );
        let source = Source { text: &text, name: "", origin: "", first_line: 1 };
        let compiled = compile(&source).expect("lines of ours compile");
        let (reports, controls) = (work.reports.len(), work.controls.len());
        let moved = |reg: Reg| match reg {
            Reg::Report(i) => Reg::Report(i + reports as u8),
            Reg::Control(i) => Reg::Control(i + controls as u8),
            other => other,
        };
        let names = (0..).zip(&compiled.controls);
        let names = names.map(|(i, register)| (register.name.clone(), moved(Reg::Control(i)))).collect();
        let instrs = compiled.body(&compiled.events[0]).iter().map(|instr| crate::Instr {
            res: moved(instr.res),
            left: moved(instr.left),
            right: moved(instr.right),
            ..*instr
        });
        let (stamp, window) = (moved(Reg::Report(0)), moved(Reg::Report(HEAD.len() as u8 - 1)));
        let added = Added { instrs: instrs.collect(), names, stamp, window };
        work.reports.extend(compiled.reports);
        work.controls.extend(compiled.controls);
        added
    }

    fn register(&self, name: &str) -> Option<Reg> {
        self.names.iter().find(|(known, _)| known == name).map(|(_, reg)| *reg)
    }
}
