//! Runs a random program on random inputs on all machines.

use std::fmt::Write;

use ccp_lang::bytecode::{self, Bytecode};
use ccp_lang::prims::{MAX_PRIMITIVES, PRIMITIVES};
use ccp_lang::{Implicit, Program, Reg, Source, compile};

use crate::generate::{self, Size, Temper};
use crate::kernel::Kernel;
use crate::machines::{Inputs, Machines};
use crate::reference::{self, Reference};
use crate::rng::Rng;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub programs: usize,
    /// Programs that libccp also ran.
    pub with_libccp: usize,
    pub invocations: usize,
    pub reports: usize,
    pub fold_errors: usize,
    pub insns: usize,
    /// Instructions of the largest program.
    pub max_instrs: usize,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.programs += other.programs;
        self.with_libccp += other.with_libccp;
        self.invocations += other.invocations;
        self.reports += other.reports;
        self.fold_errors += other.fold_errors;
        self.insns += other.insns;
        self.max_instrs = self.max_instrs.max(other.max_instrs);
    }
}

/// CCP's primitives that libccp keeps in 64 bits; the others have 32 bits there.
const WIDE_IN_LIBCCP: [&str; 3] = ["Flow.rate_incoming", "Flow.rate_outgoing", "Flow.rtt_sample_us"];

/// Generates the program of `seed` and runs it everywhere. Returns a description of the first difference.
pub fn try_seed(seed: u64, kernel: Option<&Kernel>, tally: &mut Tally) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    // Three of four programs also run on libccp.
    let for_libccp = !seed.is_multiple_of(4);
    let size = match (for_libccp, seed % 64) {
        (true, _) => generate::FOR_LIBCCP,
        (false, 0) => generate::HUGE,
        (false, _) => generate::WIDE,
    };
    let temper = Temper::random(&mut rng);
    let (text, program) = sized_program(&mut rng, &size, temper, for_libccp)?;
    let mut account = format!("seed {seed}\n{text}\n{program:?}");
    let mut trial = Trial { rng, program: &program, temper, for_libccp };
    trial.run(kernel, tally, &mut account).map_err(|difference| {
        format!("{account}\n{difference}\nto repeat: CCP_DIFF_SEED={seed} CCP_DIFF_PROGRAMS=1")
    })
}

pub type Sent = (u32, u32, Vec<u8>);

/// Generates a text of `seed`, has `compiled` convert it to bytes, and runs these everywhere: libccp
/// directly, the others as decoded. Returns a description of the first difference.
pub fn try_sent(
    seed: u64,
    compiled: impl Fn(&str) -> Option<Sent>,
    kernel: Option<&Kernel>,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let temper = Temper::random(&mut rng);
    let sent = || {
        let text = generate::program(&mut rng, &generate::FOR_PORTUS, temper);
        let sent = compiled(&text)?;
        (sent.1 as usize <= reference::MAX_INSTRS).then_some((text, sent))
    };
    // portus does not accept every text.
    let (text, (n_events, n_instrs, raw)) =
        std::iter::repeat_with(sent).take(1000).flatten().next().expect("portus takes one of a thousand");
    let code = Bytecode { n_events, n_instrs, raw: &raw, name: "sent", origin: "<generated>" };
    let program = bytecode::decode(&code).map_err(|error| format!("seed {seed}\n{text}\n{error}"))?;
    let machines = Machines::alongside(&program, kernel, Some(Reference::given(&code)))?;
    let mut account = format!("seed {seed}\n{text}\n{program:?}");
    let mut trial = Trial { rng, program: &program, temper, for_libccp: true };
    trial.run_on(machines, tally, &mut account).map_err(|difference| format!("{account}\n{difference}"))
}

fn sized_program(
    rng: &mut Rng,
    size: &Size,
    temper: Temper,
    for_libccp: bool,
) -> Result<(String, Program), String> {
    loop {
        let text = generate::program(rng, size, temper);
        let source = Source { text: &text, name: "default", origin: "<generated>", first_line: 1 };
        match compile(&source) {
            Ok(program) if for_libccp && reference::n_instrs(&program) > reference::MAX_INSTRS => continue,
            Ok(program) => return Ok((text, program)),
            Err(error) if error.slug == "lang.limit" => continue,
            Err(error) => return Err(format!("{text}\n{error}")),
        }
    }
}

struct Trial<'a> {
    rng: Rng,
    program: &'a Program,
    temper: Temper,
    for_libccp: bool,
}

impl Trial<'_> {
    /// Runs the program several times; `account` collects the log.
    fn run(
        &mut self,
        kernel: Option<&Kernel>,
        tally: &mut Tally,
        account: &mut String,
    ) -> Result<(), String> {
        let machines = Machines::new(self.program, kernel, self.for_libccp)?;
        self.run_on(machines, tally, account)
    }

    fn run_on(
        &mut self,
        mut machines: Machines,
        tally: &mut Tally,
        account: &mut String,
    ) -> Result<(), String> {
        tally.programs += 1;
        tally.with_libccp += self.for_libccp as usize;
        tally.insns += machines.n_insns();
        tally.max_instrs = tally.max_instrs.max(self.program.instrs.len());
        let mut now_us = 1 + self.rng.number(40);
        for i in 0..self.rng.between(4, 10) {
            now_us += self.rng.number(24);
            if i > 0 && self.rng.chance(10) {
                let _ = writeln!(account, "the program starts anew");
                machines.restart();
            }
            let inputs = self.inputs(now_us);
            let _ = writeln!(account, "run {i}: {inputs}");
            let ran = machines.run(&inputs)?;
            tally.invocations += 1;
            tally.fold_errors += ran.outcome.is_err() as usize;
            tally.reports += ran.report.is_some() as usize;
        }
        Ok(())
    }

    fn inputs(&mut self, now_us: u64) -> Inputs {
        let (rng, temper) = (&mut self.rng, self.temper);
        let mut prims = [0; MAX_PRIMITIVES];
        for (value, prim) in prims.iter_mut().zip(&PRIMITIVES) {
            let bits = match prim {
                prim if prim.is_bool => 1,
                prim if self.for_libccp && !WIDE_IN_LIBCCP.contains(&prim.name) => 32,
                _ => 64,
            };
            *value = rng.number(temper.bits(bits));
            // The datapath writes the value for no sample; libccp does it internally.
            if prim.name == "Flow.rtt_sample_us" && *value == 0 {
                *value = u64::from(u32::MAX);
            }
        }
        let controls = (0..self.program.controls.len()).map(|i| Reg::Control(i as u8));
        let imps = [Implicit::Cwnd, Implicit::Rate].map(Reg::Implicit);
        let mut updates = Vec::new();
        for reg in controls.chain(imps) {
            // Agents can set a flag only to 0 and 1.
            let is_flag = matches!(reg, Reg::Control(i) if self.program.controls[i as usize].is_bool);
            if rng.chance(10) {
                updates.push((reg, rng.number(if is_flag { 1 } else { temper.bits(64) })));
            }
        }
        let (cwnd_bytes, rate_bytes_per_s) = (rng.number(temper.bits(32)), rng.number(temper.bits(64)));
        Inputs { prims, now_us, cwnd_bytes, rate_bytes_per_s, updates }
    }
}
