#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    sum: f64,
    pkts: u64,
}

impl Mean {
    /// Adds a packet's value, if it has one.
    pub fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.pkts += 1;
        }
    }

    pub fn get(&self) -> Option<f64> {
        (self.pkts > 0).then(|| self.sum / self.pkts as f64)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct TimeMean {
    area: f64,
    time_ns: f64,
    last: Option<f64>,
}

impl TimeMean {
    /// Changes linearly within `ramp_ns`, then is constant until `time_ns` have passed.
    pub fn ramp(&mut self, from: f64, to: f64, ramp_ns: f64, time_ns: f64) {
        let ramp_ns = ramp_ns.min(time_ns);
        self.add((from + to) / 2.0 * ramp_ns + to * (time_ns - ramp_ns), time_ns, to);
    }

    /// Changes linearly; constant if the first value is unknown.
    pub fn between(&mut self, from: Option<f64>, to: Option<f64>, time_ns: f64) {
        if let Some(to) = to {
            self.ramp(from.unwrap_or(to), to, time_ns, time_ns);
        }
    }

    /// Adds an integral over `time_ns`, and the final value.
    pub fn add(&mut self, area: f64, time_ns: f64, last: f64) {
        self.area += area;
        self.time_ns += time_ns;
        self.last = Some(last);
    }

    /// The mean; the last value if no time passed.
    pub fn get(&self) -> Option<f64> {
        if self.time_ns > 0.0 { Some(self.area / self.time_ns) } else { self.last }
    }
}
