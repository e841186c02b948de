//! DualPI2: a queue of low latency for scalable flows, a classic one for others, and signals that are coupled.
//!
//! Source: RFC 9332, appendix A, with overload (A.2). Its native signal is a step, which the RFC allows instead of
//! a ramp (A.1). The scheduler, which the RFC leaves open (section 4.1.1), is a weighted round robin by bytes.

use super::Notes;
use super::line::{Line, Waiting};
use super::pi::{Updates, step};
use crate::packet::{Ecn, Packet};
use crate::spec::DualPi2 as Spec;

/// Gains relative to the maximum RTT R and the interval T: alpha = 0.1 T / R^2, beta = 0.3 / R (A.1).
const ALPHA: f64 = 0.1;
const BETA: f64 = 0.3;

#[derive(Clone, Debug)]
struct Half<P> {
    line: Line<P>,
    /// Sum of probabilities since the last signal.
    sum: f64,
}

#[derive(Clone, Debug)]
pub struct DualPi2<P> {
    spec: Spec,
    low: Half<P>,
    classic: Half<P>,
    updates: Updates,
    gains_hz: (f64, f64),
    /// The base probability p'.
    base: f64,
    before_ns: u64,
    /// What the classic queue may send before the other one [bytes].
    credit_bytes: f64,
}

impl<P: Packet> DualPi2<P> {
    pub fn new(spec: Spec) -> Self {
        let half = || Half { line: Line::default(), sum: 0.0 };
        let update_us = spec.target_us.min(spec.rtt_max_us / 3);
        let rtt_max_s = spec.rtt_max_us as f64 / 1e6;
        let alpha_hz = ALPHA * update_us as f64 / 1e6 / (rtt_max_s * rtt_max_s);
        DualPi2 {
            spec,
            low: half(),
            classic: half(),
            updates: Updates::new(update_us),
            gains_hz: (alpha_hz, BETA / rtt_max_s),
            base: 0.0,
            before_ns: 0,
            credit_bytes: 0.0,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.low.line.bytes() + self.classic.line.bytes()
    }

    pub fn len(&self) -> usize {
        self.low.line.len() + self.classic.line.len()
    }

    pub fn head_bytes(&self) -> Option<u32> {
        let half = if self.is_turn_of_low() { &self.low } else { &self.classic };
        half.line.head_bytes()
    }

    fn line(&mut self, packet: &P) -> &mut Line<P> {
        let is_scalable = match packet.ecn() {
            Ecn::Ect1 | Ecn::Ce => true,
            Ecn::Ect0 => self.spec.any_ect,
            Ecn::NotEct => false,
        };
        if is_scalable { &mut self.low.line } else { &mut self.classic.line }
    }

    /// As `Queue::replace_acks`.
    pub fn replace_acks(&mut self, packet: P, dropped: impl FnMut(P)) -> Option<P> {
        self.line(&packet).replace_acks(packet, dropped)
    }

    pub fn push(&mut self, one: Waiting<P>) {
        self.line(&one.packet).push(one);
    }

    pub fn take(&mut self) -> Vec<Waiting<P>> {
        self.low.line.take().into_iter().chain(self.classic.line.take()).collect()
    }

    /// Computes the updates that are due.
    pub fn advance(&mut self, now_ns: u64) {
        while let Some(at_ns) = self.updates.due(now_ns) {
            self.update(at_ns);
            if self.base == 0.0 && self.before_ns == 0 && self.len() == 0 {
                self.updates.skip(now_ns);
            }
        }
    }

    fn update(&mut self, at_ns: u64) {
        let delay_ns = self.classic.line.head_age_ns(at_ns).max(self.low.line.head_age_ns(at_ns));
        let target_ns = self.spec.target_us.saturating_mul(1000);
        self.base += step(self.gains_hz, delay_ns, self.before_ns, target_ns);
        self.base = self.base.clamp(0.0, 1.0);
        self.before_ns = delay_ns;
    }

    pub fn pop(&mut self, now_ns: u64, notes: &mut Notes<'_, P>) -> Option<P> {
        self.advance(now_ns);
        loop {
            let is_low = self.is_turn_of_low();
            let half = if is_low { &mut self.low } else { &mut self.classic };
            let (sojourn_ns, packet) = half.line.pop(now_ns)?;
            notes.waited(sojourn_ns);
            self.pay(is_low, f64::from(packet.len_bytes()));
            let kept = if is_low { self.low(sojourn_ns, packet, notes) } else { self.classic(packet, notes) };
            if kept.is_some() {
                return kept;
            }
        }
    }

    fn is_turn_of_low(&self) -> bool {
        !self.low.line.is_empty() && (self.classic.line.is_empty() || self.credit_bytes <= 0.0)
    }

    /// Settles a turn: only while both queues have packets, the classic one gains and pays credit.
    fn pay(&mut self, is_low: bool, bytes: f64) {
        let share = self.spec.classic_share;
        if self.low.line.is_empty() || self.classic.line.is_empty() {
            self.credit_bytes = 0.0;
        } else if is_low {
            self.credit_bytes += share * bytes;
        } else {
            self.credit_bytes -= (1.0 - share) * bytes;
        }
    }

    fn low(&mut self, sojourn_ns: u64, mut packet: P, notes: &mut Notes<'_, P>) -> Option<P> {
        let coupled = self.spec.coupling * self.base;
        let is_marked = if coupled < 1.0 {
            // The last packet of a queue is not marked by the step: on slow links it takes longer.
            let stands = sojourn_ns > self.spec.step_us.saturating_mul(1000) && !self.low.line.is_empty();
            self.low.recurs(if stands { 1.0 } else { coupled })
        } else {
            if self.low.recurs(self.base * self.base) {
                notes.drop(packet);
                return None;
            }
            self.low.recurs(1.0)
        };
        if is_marked {
            notes.mark(&mut packet);
        }
        Some(packet)
    }

    fn classic(&mut self, mut packet: P, notes: &mut Notes<'_, P>) -> Option<P> {
        let squared = self.base * self.base;
        if self.classic.recurs(squared) {
            let is_overloaded = squared >= (1.0 / (self.spec.coupling * self.spec.coupling)).min(1.0);
            if packet.ecn() == Ecn::NotEct || is_overloaded {
                notes.drop(packet);
                return None;
            }
            notes.mark(&mut packet);
        }
        Some(packet)
    }
}

impl<P> Half<P> {
    /// Whether an event of this probability is due: at regular distances instead of random ones (`recur` in A.1).
    fn recurs(&mut self, probability: f64) -> bool {
        self.sum += probability;
        let is_due = self.sum >= 1.0;
        if is_due {
            self.sum -= 1.0;
        }
        is_due
    }
}

#[cfg(test)]
#[path = "dual_pi2_tests.rs"]
mod tests;
