//! All machines with one program, run side by side.

use std::fmt::{Display, Formatter, Write};

use ccp_lang::prims::{PRIMITIVES, Prims};
use ccp_lang::{Implicit, Machine, Outcome, Program, Reg};

use crate::kernel::{Kernel, Loaded};
use crate::reference::Reference;

#[derive(Clone, Debug)]
pub struct Inputs {
    pub prims: Prims,
    pub now_us: u64,
    pub cwnd_bytes: u64,
    pub rate_bytes_per_s: u64,
    /// Registers that the agent sets before the run: control registers, Cwnd and Rate.
    pub updates: Vec<(Reg, u64)>,
}

impl Inputs {
    fn put(&self, machine: &mut Machine) {
        machine.imp[Implicit::Cwnd as usize] = self.cwnd_bytes;
        machine.imp[Implicit::Rate as usize] = self.rate_bytes_per_s;
        for (reg, value) in &self.updates {
            match reg {
                Reg::Control(i) => machine.control[*i as usize] = *value,
                Reg::Implicit(i) => machine.imp[*i as usize] = *value,
                other => unreachable!("no agent sets {other:?}"),
            }
        }
    }
}

impl Display for Inputs {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        write!(f, "now {} cwnd {} rate {}", self.now_us, self.cwnd_bytes, self.rate_bytes_per_s)?;
        for (value, prim) in self.prims.iter().zip(&PRIMITIVES) {
            write!(f, " {}={value}", prim.name)?;
        }
        write!(f, " updates {:?}", self.updates)
    }
}

#[derive(Clone, Debug)]
pub struct Ran {
    pub outcome: Outcome,
    /// The report registers, if there was a report.
    pub report: Option<Vec<u64>>,
}

/// The interpreter, and the other machines that can run the program.
pub struct Machines<'a> {
    program: &'a Program,
    interpreter: Machine,
    kernel: Option<(&'a Kernel, Loaded, Machine)>,
    libccp: Option<Reference>,
    starts: bool,
}

impl<'a> Machines<'a> {
    /// Prepares for `program`, which starts with the first run; fails if the kernel rejects it.
    pub fn new(program: &'a Program, kernel: Option<&'a Kernel>, with_libccp: bool) -> Result<Self, String> {
        Machines::alongside(program, kernel, with_libccp.then(|| Reference::new(program)))
    }

    /// The same, next to a libccp that already has the program.
    pub fn alongside(
        program: &'a Program,
        kernel: Option<&'a Kernel>,
        libccp: Option<Reference>,
    ) -> Result<Self, String> {
        let kernel = match kernel {
            Some(kernel) => Some((kernel, kernel.load(program)?, Machine::new())),
            None => None,
        };
        Ok(Machines { program, interpreter: Machine::new(), kernel, libccp, starts: true })
    }

    pub fn n_insns(&self) -> usize {
        self.kernel.as_ref().map_or(0, |(_, loaded, _)| loaded.n_insns)
    }

    pub fn restart(&mut self) {
        self.starts = true;
        if let Some(libccp) = &self.libccp {
            libccp.change_program();
        }
    }

    pub fn verified_insns(&self) -> u32 {
        self.kernel.as_ref().map_or(0, |(_, loaded, _)| loaded.verified_insns())
    }

    pub fn run(&mut self, inputs: &Inputs) -> Result<Ran, String> {
        let program = self.program;
        let starts = std::mem::replace(&mut self.starts, false);
        if starts {
            self.interpreter.reset(program, inputs.now_us);
        }
        inputs.put(&mut self.interpreter);
        let outcome = self.interpreter.invoke(program, &inputs.prims, inputs.now_us);
        let own = Seen::new(program, &mut self.interpreter, outcome);
        if let Some((kernel, loaded, registers)) = &mut self.kernel {
            if starts {
                registers.reset(program, inputs.now_us);
            }
            inputs.put(registers);
            let outcome = kernel.invoke(loaded, registers, &inputs.prims, inputs.now_us);
            own.same("kernel eBPF", &Seen::new(program, registers, outcome))?;
        }
        if let Some(libccp) = &self.libccp {
            libccp.update(program, &inputs.updates);
            let run = libccp.invoke(&inputs.prims, inputs.now_us, inputs.cwnd_bytes, inputs.rate_bytes_per_s);
            let ran = Ran { outcome: run.outcome, report: run.report };
            own.same("libccp", &Seen { ran, registers: with_plain_flag(run.registers) })?;
        }
        Ok(own.ran)
    }
}

/// No program can read EventFlag, a condition; the kernel's code tests it and keeps only the result.
fn with_plain_flag(mut machine: Machine) -> Machine {
    let flag = &mut machine.imp[Implicit::EventFlag as usize];
    *flag = u64::from(*flag != 0);
    machine
}

/// The visible state of a machine after a run.
struct Seen {
    ran: Ran,
    registers: Machine,
}

impl Seen {
    /// Does the datapath's work after a fold.
    fn new(program: &Program, machine: &mut Machine, outcome: Outcome) -> Self {
        let report = matches!(outcome, Ok(folded) if folded.report).then(|| machine.take_report(program));
        Seen { ran: Ran { outcome, report }, registers: with_plain_flag(machine.clone()) }
    }

    fn same(&self, name: &str, other: &Seen) -> Result<(), String> {
        let mut differences = String::new();
        let mut differ = |what: &str, own: &dyn std::fmt::Debug, reference: &dyn std::fmt::Debug| {
            let _ = writeln!(differences, "  {what}: interpreter {own:?}, {name} {reference:?}");
        };
        if self.ran.outcome != other.ran.outcome {
            differ("outcome", &self.ran.outcome, &other.ran.outcome);
        }
        if self.ran.report != other.ran.report {
            differ("report", &self.ran.report, &other.ran.report);
        }
        let (a, b) = (&self.registers, &other.registers);
        if a.time_zero_us != b.time_zero_us {
            differ("time_zero_us", &a.time_zero_us, &b.time_zero_us);
        }
        let arrays: [(&str, &[u64], &[u64]); 4] = [
            ("Report", &a.report, &b.report),
            ("Control", &a.control, &b.control),
            ("Local", &a.local, &b.local),
            ("Implicit", &a.imp, &b.imp),
        ];
        for (kind, own, reference) in arrays {
            for (i, (own, reference)) in own.iter().zip(reference).enumerate().filter(|(_, (a, b))| a != b) {
                differ(&format!("{kind}({i})"), own, reference);
            }
        }
        if differences.is_empty() { Ok(()) } else { Err(format!("{name} differs:\n{differences}")) }
    }
}
