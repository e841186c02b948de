//! Random numbers: each process of each link direction has its own stream, derived from the scenario's seed,
//! the link direction and the process. A change of one link or process leaves all other streams unchanged.

use rand::RngExt;
use rand_seeder::Seeder;
use rand_xoshiro::Xoshiro256PlusPlus;

#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    pub fn new(seed: u64, link: &str, process: &str) -> Self {
        Stream(Seeder::from((seed, link, process)).into_rng())
    }

    /// True with this probability, 0 to 1. Draws nothing if it is 0.
    pub fn happens(&mut self, ratio: f64) -> bool {
        ratio > 0.0 && self.unit() < ratio
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// A number from 0 to `most`, inclusive.
    pub fn up_to(&mut self, maximum: u64) -> u64 {
        if maximum == 0 { 0 } else { self.0.random_range(0..=maximum) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(mut stream: Stream) -> Vec<u64> {
        (0..8).map(|_| stream.up_to(u64::MAX - 1)).collect()
    }

    #[test]
    fn a_stream_is_the_same_every_time() {
        assert_eq!(draws(Stream::new(1, "l>", "loss")), draws(Stream::new(1, "l>", "loss")));
    }

    #[test]
    fn seed_link_and_process_make_another_stream() {
        let one = draws(Stream::new(1, "l>", "loss"));
        for other in
            [Stream::new(2, "l>", "loss"), Stream::new(1, "l<", "loss"), Stream::new(1, "l>", "jitter")]
        {
            assert_ne!(one, draws(other));
        }
    }

    #[test]
    fn certain_things_are_certain() {
        let mut stream = Stream::new(1, "l>", "loss");
        assert!((0..100).all(|_| !stream.happens(0.0)));
        assert!((0..100).all(|_| stream.happens(1.0)));
        assert_eq!(stream.up_to(0), 0);
    }
}
