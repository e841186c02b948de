//! Packet loss of a link, independent of its queue.

use crate::rng::Stream;
use crate::spec::Loss as Spec;

#[derive(Clone, Debug)]
pub struct Loss {
    spec: Option<Spec>,
    random: Stream,
    /// Gilbert-Elliott: in the bad state.
    bad: bool,
    /// Pattern: number of the next packet.
    number: u64,
    /// Pattern: index of the next entry of `drop`.
    next: usize,
}

impl Loss {
    pub fn new(spec: Option<Spec>, random: Stream) -> Self {
        Loss { spec, random, bad: false, number: 0, next: 0 }
    }

    /// Sets another process, which starts in its first state; an unchanged process continues.
    pub fn set(&mut self, spec: Option<Spec>) {
        if self.spec != spec {
            self.spec = spec;
            (self.bad, self.number, self.next) = (false, 0, 0);
        }
    }

    /// Returns whether the next packet is lost.
    pub fn loses(&mut self) -> bool {
        match &self.spec {
            None => false,
            Some(Spec::Bernoulli { ratio }) => self.random.happens(*ratio),
            Some(Spec::GilbertElliott { good_to_bad, bad_to_good, loss_bad, loss_good }) => {
                // The state changes before the decision: a burst begins with the packet that enters it.
                let change = if self.bad { bad_to_good } else { good_to_bad };
                self.bad ^= self.random.happens(*change);
                self.random.happens(if self.bad { *loss_bad } else { *loss_good })
            }
            Some(Spec::Pattern { drop, repeat_every_pkts }) => {
                let lost = drop.get(self.next) == Some(&self.number);
                self.next += usize::from(lost);
                self.number += 1;
                if Some(self.number) == *repeat_every_pkts {
                    (self.number, self.next) = (0, 0);
                }
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(spec: Spec) -> Loss {
        Loss::new(Some(spec), Stream::new(7, "l>", "loss"))
    }

    /// The number of bursts of lost packets, and of lost packets.
    fn bursts(loss: &mut Loss, packets: u64) -> (u64, u64) {
        let (mut runs, mut lost, mut before) = (0, 0, false);
        for _ in 0..packets {
            let now = loss.loses();
            runs += u64::from(now && !before);
            lost += u64::from(now);
            before = now;
        }
        (runs, lost)
    }

    #[test]
    fn bernoulli_loses_its_share_within_four_standard_deviations() {
        // n p = 2000, sqrt(n p (1 - p)) = 44.5
        let (_, lost) = bursts(&mut made(Spec::Bernoulli { ratio: 0.01 }), 200_000);
        assert!((1822..=2178).contains(&lost), "{lost}");
    }

    #[test]
    fn gilbert_elliott_has_the_stationary_loss_and_burst_length_of_its_chain() {
        // Stationary share of the bad state: 0.01 / (0.01 + 0.25) = 0.03846; mean burst: 1 / 0.25 = 4 packets.
        let spec =
            Spec::GilbertElliott { good_to_bad: 0.01, bad_to_good: 0.25, loss_bad: 1.0, loss_good: 0.0 };
        let (runs, lost) = bursts(&mut made(spec), 1_000_000);
        let share = lost as f64 / 1e6;
        assert!((share - 0.03846).abs() < 0.002, "{share}");
        let length = lost as f64 / runs as f64;
        assert!((length - 4.0).abs() < 0.2, "{length}");
    }

    #[test]
    fn a_pattern_loses_the_packets_with_its_numbers() {
        let mut loss = made(Spec::Pattern { drop: vec![0, 3], repeat_every_pkts: None });
        let lost: Vec<_> = (0..10).filter(|_| loss.loses()).collect();
        assert_eq!(lost, [0, 3]);
    }

    #[test]
    fn a_pattern_starts_again_after_its_period() {
        let mut loss = made(Spec::Pattern { drop: vec![1], repeat_every_pkts: Some(3) });
        let lost: Vec<_> = (0..9).filter(|_| loss.loses()).collect();
        assert_eq!(lost, [1, 4, 7]);
    }

    #[test]
    fn setting_the_same_process_goes_on_and_another_one_starts() {
        let pattern = Spec::Pattern { drop: vec![1], repeat_every_pkts: None };
        let mut loss = made(pattern.clone());
        assert!(!loss.loses());
        loss.set(Some(pattern));
        assert!(loss.loses());
        loss.set(Some(Spec::Pattern { drop: vec![0], repeat_every_pkts: None }));
        assert!(loss.loses());
        loss.set(None);
        assert!((0..100).all(|_| !loss.loses()));
    }
}
