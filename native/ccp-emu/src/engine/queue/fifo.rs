//! One queue, and a discipline that drops or marks.

use super::codel::CoDel;
use super::line::Line;
use super::pie::Pie;
use super::red::Red;
use super::{Action, Notes};
use crate::packet::{Ecn, Packet};
use crate::rng::Stream;

#[derive(Clone, Debug)]
pub(super) enum Discipline {
    DropTail { ce_threshold_ns: Option<u64>, ce_threshold_bytes: Option<u64> },
    Red(Red),
    CoDel(CoDel),
    Pie(Pie),
}

#[derive(Clone, Debug)]
pub(super) struct Fifo<P> {
    pub line: Line<P>,
    discipline: Discipline,
}

impl<P: Packet> Fifo<P> {
    pub fn new(discipline: Discipline) -> Self {
        Fifo { line: Line::default(), discipline }
    }

    /// The transmitter becomes idle.
    pub fn idle(&mut self, now_ns: u64) {
        if let Discipline::Red(red) = &mut self.discipline {
            red.idle(now_ns);
        }
    }

    /// The buffer is full.
    pub fn overflow(&mut self) {
        match &mut self.discipline {
            Discipline::Red(red) => red.overflow(),
            Discipline::Pie(pie) => pie.overflow(),
            Discipline::DropTail { .. } | Discipline::CoDel(_) => (),
        }
    }

    /// Decides about a packet that arrives, whether or not it fits.
    pub fn arrival(&mut self, now_ns: u64, packet: &P, rate_bytes_per_s: f64, random: &mut Stream) -> Action {
        let bytes = self.line.bytes();
        let markable = packet.ecn() != Ecn::NotEct;
        let (action, ecn) = match &mut self.discipline {
            Discipline::DropTail { ce_threshold_bytes: Some(threshold_bytes), .. }
                if bytes > *threshold_bytes && markable =>
            {
                (Action::Signal, true)
            }
            Discipline::Red(red) => (red.arrival(now_ns, bytes, rate_bytes_per_s, random), red.ecn()),
            Discipline::Pie(pie) => (pie.arrival(now_ns, bytes, random), pie.ecn()),
            Discipline::DropTail { .. } | Discipline::CoDel(_) => (Action::Pass, true),
        };
        if action == Action::Signal && !(ecn && markable) { Action::Drop } else { action }
    }

    pub fn pop(&mut self, now_ns: u64, notes: &mut Notes<'_, P>) -> Option<P> {
        while let Some((sojourn_ns, mut packet)) = self.line.pop(now_ns) {
            notes.waited(sojourn_ns);
            let markable = packet.ecn() != Ecn::NotEct;
            let left_bytes = self.line.bytes();
            let action = match &mut self.discipline {
                Discipline::CoDel(codel) => codel.departure(now_ns, sojourn_ns, left_bytes, markable),
                Discipline::DropTail { ce_threshold_ns: Some(max_ns), .. }
                    if sojourn_ns > *max_ns && markable =>
                {
                    Action::Signal
                }
                Discipline::Pie(pie) => {
                    pie.departure(now_ns, sojourn_ns, left_bytes);
                    Action::Pass
                }
                Discipline::DropTail { .. } | Discipline::Red(_) => Action::Pass,
            };
            match action {
                Action::Pass => return Some(packet),
                Action::Signal => {
                    notes.mark(&mut packet);
                    return Some(packet);
                }
                Action::Drop => notes.drop(packet),
            }
        }
        if let Discipline::CoDel(codel) = &mut self.discipline {
            codel.empty();
        }
        None
    }
}
