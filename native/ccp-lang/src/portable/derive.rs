//! Derives ccplane's own primitives from CCP's, and adds what the agent needs with each report.

use super::{Clause, Target, Work, bind, writes};
use crate::error::{Pos, Problem};
use crate::ir::{Implicit, Instr, Op, Program, Reg};
use crate::prims::{N_PORTUS_PRIMS, PRIMITIVES};
use crate::{Source, compile};

/// How a primitive is derived: from a register that program lines maintain, or as a constant.
enum From {
    /// Its register, the lines that maintain it, and those whose registers they read.
    Lines { register: &'static str, lines: &'static str, after: &'static [&'static str] },
    /// Always this value in such datapaths.
    Constant(u64),
}

/// In the order of their computation.
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
    // RFC 6298 section 2.3, as in Linux, in eighths.
    (
        "Flow.srtt_us",
        From::Lines {
            register: "srtt_us",
            lines: "(:= first (== srtt8_us 0))
                    (:= srtt8_us (if sampled (+ (- srtt8_us srtt_us) Flow.rtt_sample_us)))
                    (:= srtt8_us (if first (* 8 srtt8_us)))
                    (:= srtt_us (/ srtt8_us 8))",
            after: &[],
        },
    ),
    // RFC 6582: from a loss or timeout until all data sent before is acknowledged: the window, plus a fifth
    // of it that was sent during loss detection. It must end before `recover_bytes` of `ccp_algs.episodes`,
    // which would consider a longer recovery a second one.
    (
        "Flow.ca_state",
        From::Lines {
            register: "ca_state",
            lines: "(:= ca_state (!if (< delivered_bytes recover_bytes) 0))
                    (:= loses (> Ack.lost_pkts_sample 0))
                    (:= begins (|| Flow.was_timeout (&& (== ca_state 0) loses)))
                    (:= highest_bytes (ewma 12 0))
                    (:= recover_bytes (if begins (+ delivered_bytes highest_bytes)))
                    (:= ca_state (if begins 3))
                    (:= ca_state (if Flow.was_timeout 4))",
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

/// The only values that the lines above can give this primitive.
static LEVELS: (&str, [u64; 3]) = ("Flow.ca_state", [0, 3, 4]);

/// Persistent registers of the lines above, with initial values. The others are local.
static REGISTERS: [(&str, u64); 10] = [
    ("mss_bytes", 0),
    ("left_bytes", 0),
    ("highest_bytes", 0),
    ("delivered_bytes", 0),
    ("lost_so_far", 0),
    ("min_rtt_us", u32::MAX as u64),
    ("srtt8_us", 0),
    ("srtt_us", 0),
    ("ca_state", 0),
    ("recover_bytes", 0),
];

/// Registers whose initial values come from the agent's knowledge of the flow.
static CARRIED: [&str; 6] =
    ["mss_bytes", "delivered_bytes", "lost_so_far", "min_rtt_us", "srtt8_us", "srtt_us"];

/// The window that the program set, for datapaths that apply only whole segments of it: growth by less than
/// one per ACK would never reach a segment, and a window would not reach its threshold.
const WINDOW_LINES: &str = "(:= left_bytes Cwnd)
    (:= left_bytes (if (< (- highest_bytes Cwnd) mss_bytes) highest_bytes))
    (:= Cwnd left_bytes)";

/// The present window, or the one that the program set.
const HIGHEST_LINE: &str = "(:= highest_bytes (max Cwnd Report.cwnd_bytes))";

fn find(name: &str) -> Option<&'static From> {
    DERIVED.iter().find(|(known, _)| *known == name).map(|(_, from)| from)
}

/// Returns, as problems, the primitives that CCP's datapaths lack and that cannot be derived.
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
                "datapaths that speak CCP's wire format do not measure this primitive",
                "write the program without it, or run it on the kernel datapath",
            );
            if !problems.iter().any(|known| known.message == problem.message) {
                problems.push(problem);
            }
        }
    }
    problems
}

pub struct Derived {
    pub carried: Vec<(&'static str, u8, u64)>,
    pub head: Vec<(&'static str, u8)>,
}

/// Adds the derivation of primitives that a program reads, and the agent's values. `looks_at_last`: the last
/// condition is evaluated in every fold.
pub fn splice(work: &mut Work, prims_used: u64, looks_at_last: bool, target: &Target) -> Derived {
    let uses = |name: &str| {
        let used = |(i, prim): (usize, &ccp_record::Fact)| prim.name == name && prims_used >> i & 1 == 1;
        PRIMITIVES.iter().enumerate().any(used)
    };
    let wanted: Vec<&(&str, From)> = DERIVED.iter().filter(|(name, _)| uses(name)).collect();
    let is_read = |name: &str| {
        let reads =
            |(_, from): &&(&str, From)| matches!(from, From::Lines { after, .. } if after.contains(&name));
        uses(name) || wanted.iter().any(reads)
    };
    let totals = TOTALS.map(|(name, prim)| (name, own_total(work, prim)));
    let own = |line: &str| totals.iter().any(|(name, own)| own.is_some() && line.contains(name));
    let mut lines: Vec<&str> = HEAD_LINES.into_iter().filter(|line| !own(line)).collect();
    lines.push(HIGHEST_LINE);
    if work.instrs().any(|instr| writes(instr, Implicit::Cwnd)) {
        lines.push(WINDOW_LINES);
    }
    let derived = DERIVED.iter().filter(|(name, _)| is_read(name));
    lines.extend(derived.filter_map(|(_, from)| match from {
        From::Lines { lines, .. } => Some(*lines),
        _ => None,
    }));
    let mine: Vec<&'static str> =
        HEAD.into_iter().filter(|name| !totals.iter().any(|(own, at)| own == name && at.is_some())).collect();
    let registers = wanted.iter().filter_map(|(_, from)| match from {
        From::Lines { register, .. } => Some(*register),
        From::Constant(_) => None,
    });
    let mut added = Added::new(&lines.join("\n"), &registers.collect::<Vec<_>>(), &mine, work);
    let mut carried = Vec::new();
    for name in CARRIED {
        if let Some(Reg::Control(i)) = added.register(name) {
            carried.push((name, i, 1));
        }
    }
    let stamp = work.control(0);
    carried.push(("stamp", stamp, 1));
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
    work.clauses
        .iter_mut()
        .flat_map(|clause| [&mut clause.flag, &mut clause.body])
        .for_each(|run| level(run));
    for instr in work.instrs() {
        for reg in [&mut instr.left, &mut instr.right] {
            if let Reg::Prim(i) = *reg
                && let Some((_, value)) = values.iter().find(|(prim, _)| *prim == usize::from(i))
            {
                *reg = *value;
            }
        }
    }
    let mut head: Vec<_> = mine.iter().map(|name| (*name, added.report(&mine, name))).collect();
    head.extend(totals.iter().filter_map(|(name, own)| own.map(|at| (*name, at))));
    let line = work.clauses[0].flag.first().map_or(1, |instr| instr.line);
    let [said, window] = ["stamp", "cwnd_bytes"].map(|name| Reg::Report(added.report(&mine, name)));
    added.instrs.push(bind(said, Reg::Control(stamp), line));
    follow(work, &mut added, Implicit::Cwnd, window, looks_at_last);
    if work.instrs().any(|instr| writes(instr, Implicit::Rate)) {
        let rate = work.report(false);
        follow(work, &mut added, Implicit::Rate, rate, looks_at_last);
        if let Reg::Report(at) = rate {
            head.push(("rate_bytes_per_s", at));
        }
    }
    for instr in &mut added.instrs {
        instr.line = line;
    }
    work.clauses[0].flag.splice(..0, added.instrs);
    if target.is_tight {
        carry_products(work, &mut carried);
    }
    Derived { carried, head }
}

/// Replaces a comparison of a primitive with few values by one with such a value.
fn level(run: &mut [Instr]) {
    let (name, levels) = LEVELS;
    let is_it = |reg| matches!(reg, Reg::Prim(i) if PRIMITIVES[usize::from(i)].name == name);
    let highest = |below: u64| levels.iter().filter(|level| **level < below).max().copied();
    for i in 0..run.len() {
        // Above one value and below another may leave a single one.
        if let [above, below, both] = &run[i..run.len().min(i + 3)]
            && (above.op, below.op, both.op) == (Op::Gt, Op::Lt, Op::Mul)
            && is_it(above.left)
            && is_it(below.left)
            && (both.left, both.right) == (above.res, below.res)
            && let (Reg::Imm(low), Reg::Imm(high)) = (above.right, below.right)
            && let [level] = levels
                .iter()
                .filter(|level| (low.saturating_add(1)..high).contains(level))
                .collect::<Vec<_>>()[..]
        {
            run[i + 2] = Instr { op: Op::Equiv, left: above.left, right: Reg::Imm(*level), ..*both };
        }
        let instr = &mut run[i];
        let Reg::Imm(n) = instr.right else { continue };
        if is_it(instr.left) {
            instr.right = Reg::Imm(match instr.op {
                Op::Gt => highest(n.saturating_add(1)).unwrap_or(n),
                Op::Lt => highest(n).map_or(n, |level| level + 1),
                _ => n,
            });
        }
    }
}

/// Maintains in `report` a register's value at the end of a fold.
fn follow(work: &mut Work, added: &mut Added, register: Implicit, report: Reg, looks_at_last: bool) {
    let last = work.clauses.len() - 1;
    if !looks_at_last {
        added.instrs.push(bind(report, Reg::Implicit(register), 1));
    }
    for (i, Clause { flag, body }) in work.clauses.iter_mut().enumerate() {
        if looks_at_last && i == last {
            let end = flag.len() - 1;
            flag.insert(end, bind(report, Reg::Implicit(register), flag[end].line));
        }
        if (i == last || !looks_at_last)
            && let Some(last) = body.iter().rfind(|instr| writes(instr, register))
        {
            let line = last.line;
            body.push(bind(report, Reg::Implicit(register), line));
        }
    }
}

/// Returns the Report register in which the program itself sums up a primitive, on every ACK from 0 on.
fn own_total(work: &Work, prim: &str) -> Option<u8> {
    let prim = Reg::Prim(crate::prims::find(prim)?);
    let first = &work.clauses[0];
    let always = matches!(first.flag.last(), Some(Instr { op: Op::Bind, right: Reg::Imm(n), .. }) if *n != 0);
    let run = if always { &first.body } else { &first.flag };
    (0..).zip(&work.reports).filter(|(_, register)| register.volatile && register.init == 0).find_map(
        |(i, _)| {
            let total = Reg::Report(i);
            let writers = |run: &[Instr]| run.iter().filter(|instr| instr.res == total).count();
            let all: usize =
                work.clauses.iter().map(|clause| writers(&clause.flag) + writers(&clause.body)).sum();
            let at = run.iter().position(|instr| instr.res == total)?;
            let sum = run[..at].last()?;
            let adds = sum.op == Op::Add
                && [(total, prim), (prim, total)].contains(&(sum.left, sum.right))
                && (run[at].op, run[at].right) == (Op::Bind, sum.res);
            (adds && all == 1).then_some(i)
        },
    )
}

/// Lets the agent send multiples of the MSS, which are constant for a flow.
fn carry_products(work: &mut Work, carried: &mut Vec<(&'static str, u8, u64)>) {
    let Some(&(name, mss, _)) = carried.iter().find(|(name, ..)| *name == "mss_bytes") else { return };
    let mut made: Vec<(u64, u8)> = Vec::new();
    let mut clauses = std::mem::take(&mut work.clauses);
    for instr in clauses.iter_mut().flat_map(|clause| clause.flag.iter_mut().chain(&mut clause.body)) {
        let mss = Reg::Control(mss);
        let (Op::Mul, (Reg::Imm(factor), reg) | (reg, Reg::Imm(factor))) =
            (instr.op, (instr.left, instr.right))
        else {
            continue;
        };
        if reg != mss || factor > u64::from(u8::MAX) {
            continue;
        }
        let known = made.iter().find(|(one, _)| *one == factor).map(|(_, at)| *at);
        let product = known.unwrap_or_else(|| work.control(0));
        if known.is_none() {
            made.push((factor, product));
        }
        *instr = bind(instr.res, Reg::Control(product), instr.line);
    }
    work.clauses = clauses;
    carried.extend(made.into_iter().map(|(factor, at)| (name, at, factor)));
}

/// Additional report registers.
static HEAD: [&str; 6] = ["stamp", "acked_bytes", "lost_pkts", "timeouts", "rtt_us", "cwnd_bytes"];

/// Totals that many programs report themselves.
static TOTALS: [(&str, &str); 2] =
    [("acked_bytes", "Ack.bytes_acked"), ("lost_pkts", "Ack.lost_pkts_sample")];

static HEAD_LINES: [&str; 5] = [
    "(:= sampled (< Flow.rtt_sample_us 4294967295))",
    "(:= Report.acked_bytes (+ Report.acked_bytes Ack.bytes_acked))",
    "(:= Report.lost_pkts (+ Report.lost_pkts Ack.lost_pkts_sample))",
    "(:= Report.timeouts (if Flow.was_timeout 1))",
    "(:= Report.rtt_us (if sampled Flow.rtt_sample_us))",
];

/// Additional lines, compiled for their place in a program.
struct Added {
    instrs: Vec<crate::Instr>,
    names: Vec<(String, Reg)>,
    first_report: u8,
}

impl Added {
    /// Compiles lines, and places their registers in the program; registers read by name are shared.
    fn new(lines: &str, registers: &[&str], reports: &[&str], work: &mut Work) -> Self {
        let used = |name: &&str| lines.contains(name) || registers.contains(name);
        let numbers = REGISTERS.iter().filter(|(name, _)| used(name));
        let numbers = numbers.map(|(name, init)| format!("({name} {init})"));
        let declared = numbers.collect::<String>();
        let volatile =
            |name| if ["acked_bytes", "lost_pkts", "timeouts"].contains(&name) { "volatile " } else { "" };
        let reports: String = reports.iter().map(|name| format!("({}{name} 0)", volatile(*name))).collect();
        let text = format!("(def (Report {reports}) {declared}) (when true {lines})");
        let source = Source { text: &text, name: "", origin: "", first_line: 1 };
        let compiled = compile(&source).expect("the additional lines compile");
        let (reports, controls, locals) = (work.reports.len(), work.controls.len(), work.n_local);
        let moved = |reg: Reg| match reg {
            Reg::Report(i) => Reg::Report(i + reports as u8),
            Reg::Control(i) => Reg::Control(i + controls as u8),
            Reg::Local(i) => Reg::Local(i + locals as u8),
            other => other,
        };
        let lasting =
            (0..).zip(&compiled.controls).map(|(i, one)| (one.name.clone(), moved(Reg::Control(i))));
        let passing = (0..).zip(&compiled.locals).map(|(i, name)| (name.clone(), moved(Reg::Local(i))));
        let names = lasting.chain(passing).collect();
        let instrs = compiled.body(&compiled.events[0]).iter().map(|instr| crate::Instr {
            res: moved(instr.res),
            left: moved(instr.left),
            right: moved(instr.right),
            ..*instr
        });
        let added = Added { instrs: instrs.collect(), names, first_report: reports as u8 };
        work.reports.extend(compiled.reports);
        work.controls.extend(compiled.controls);
        work.n_local += compiled.n_local;
        added
    }

    fn report(&self, reports: &[&str], name: &str) -> u8 {
        let at = reports.iter().position(|known| *known == name).expect("it is an additional register");
        self.first_report + at as u8
    }

    fn register(&self, name: &str) -> Option<Reg> {
        self.names.iter().find(|(known, _)| known == name).map(|(_, reg)| *reg)
    }
}
