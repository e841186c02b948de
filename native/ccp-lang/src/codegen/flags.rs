//! Determines which registers can hold only 0 and 1.
//!
//! `||` is a sum and aborts the fold on overflow. For known flags it cannot overflow, and a condition becomes a few
//! jumps. A register is a flag if its initial value and all values written to it are flags; control registers, which
//! the agent also writes, must be declared as flags.

use std::collections::HashSet;

use super::lower::{Dst, lower};
use crate::ir::{Program, Reg};

/// Registers that are always 0 or 1.
pub(super) type Flags = HashSet<Reg>;

pub(super) fn flags(program: &Program) -> Flags {
    let reports = program.reports.iter().enumerate().filter(|(_, r)| r.init <= 1);
    let controls = program.controls.iter().enumerate().filter(|(_, r)| r.is_bool);
    let mut flags: Flags = (0..program.n_local).map(|i| Reg::Local(i as u8)).collect();
    flags.extend(reports.map(|(i, _)| Reg::Report(i as u8)));
    flags.extend(controls.map(|(i, _)| Reg::Control(i as u8)));
    // A written value may depend on other registers being flags: start with all, and remove until stable.
    loop {
        let mut others = Vec::new();
        for event in &program.events {
            for instrs in [program.flag(event), program.body(event)] {
                let block = lower(instrs, &flags);
                others.extend(block.nodes.iter().filter_map(|node| match node.dst {
                    Dst::Mem(reg) if flags.contains(&reg) && node.range.1 > 1 => Some(reg),
                    _ => None,
                }));
            }
        }
        if others.is_empty() {
            return flags;
        }
        for reg in others {
            flags.remove(&reg);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, compile};

    #[test]
    fn a_register_is_a_flag_as_long_as_nothing_else_is_written_to_it() {
        let text = "
            (def (Report (yes true) (one 1) (seven 7) (sum false) (copy false) (average false)
                         (product false))
                 (agents false) (number 0))
            (when true
                (:= Report.yes (&& (> Micros 3) Flow.was_timeout))
                (:= Report.one Report.yes)
                (:= Report.sum (|| Report.yes Flow.was_timeout))
                (:= Report.copy Report.sum)
                (:= Report.average (ewma 9 Report.yes))
                (:= Report.product (if agents Report.yes))
                (:= local Report.product)
                (:= late number))";
        let program = compile(&Source { text, name: "p", origin: "o", first_line: 1 }).unwrap();
        let flags = flags(&program);
        let expected = [Reg::Report(0), Reg::Report(1), Reg::Report(6), Reg::Control(0), Reg::Local(0)];
        assert_eq!(flags, HashSet::from(expected));
    }
}
