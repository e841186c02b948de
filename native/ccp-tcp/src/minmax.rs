//! Kathleen Nichols' windowed minimum, as in lib/win_minmax.c: three samples, constant work.

#[derive(Clone, Copy, Debug)]
struct Sample {
    at_us: u64,
    value: u32,
}

/// Approximate minimum of the values of the last `window_us`.
#[derive(Clone, Debug)]
pub(crate) struct WindowedMin {
    /// The best, second and third best sample, each newer than the previous one.
    best: [Sample; 3],
    window_us: u64,
}

impl WindowedMin {
    pub(crate) fn new(window_us: u64) -> Self {
        Self { best: [Sample { at_us: 0, value: u32::MAX }; 3], window_us }
    }

    pub(crate) fn get(&self) -> u32 {
        self.best[0].value
    }

    /// Adds a value, and returns the minimum.
    pub(crate) fn update(&mut self, at_us: u64, value: u32) -> u32 {
        let new = Sample { at_us, value };
        if value <= self.best[0].value || at_us - self.best[2].at_us > self.window_us {
            self.best = [new; 3];
            return value;
        }
        if value <= self.best[1].value {
            self.best[1] = new;
            self.best[2] = new;
        } else if value <= self.best[2].value {
            self.best[2] = new;
        }
        self.age(new);
        self.get()
    }

    /// Expires old samples; if one is alone for long, a newer successor is stored.
    fn age(&mut self, new: Sample) {
        let since_us = new.at_us - self.best[0].at_us;
        if since_us > self.window_us {
            self.best = [self.best[1], self.best[2], new];
            if new.at_us - self.best[0].at_us > self.window_us {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].at_us == self.best[0].at_us && since_us > self.window_us / 4 {
            self.best[1] = new;
            self.best[2] = new;
        } else if self.best[2].at_us == self.best[1].at_us && since_us > self.window_us / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_of_the_window_is_kept_and_ends_with_it() {
        let mut min = WindowedMin::new(1000);
        assert_eq!(min.update(0, 50), 50);
        assert_eq!(min.update(100, 70), 50);
        assert_eq!(min.update(300, 60), 50);
        assert_eq!(min.update(700, 80), 50);
        assert_eq!(min.update(1001, 90), 60);
        assert_eq!(min.update(1400, 55), 55);
    }

    #[test]
    fn old_samples_do_not_outlive_a_pause() {
        let mut min = WindowedMin::new(1000);
        min.update(0, 10);
        min.update(400, 20);
        assert_eq!(min.update(5000, 90), 90);
    }
}
