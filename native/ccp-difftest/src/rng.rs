//! Random numbers that are reproducible for a seed on every machine.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n as u64) as usize
    }

    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Returns a number of at most `bits` bits: mostly small, often near arithmetic limits.
    pub fn number(&mut self, bits: u32) -> u64 {
        let maximum = u64::MAX >> (64 - bits);
        let n = match self.below(10) {
            0 => 0,
            1 => 1,
            2..=5 => self.draw() % 100,
            6 => self.draw() % 100_000,
            7 => self.draw() >> self.below(64),
            8 => (1u64 << self.between(28, 63)).wrapping_add(self.draw() % 5).wrapping_sub(2),
            _ => maximum.wrapping_sub(self.draw() % 4),
        };
        n & maximum
    }
}
