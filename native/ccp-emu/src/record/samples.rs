//! Time series of the links, as CSV.

use std::fmt::Write;
use std::path::Path;

use super::FileWriter;
use crate::packet::Packet;
use crate::{Network, Result};

const HEADER: &str = "t_us,link,queue_bytes,queue_pkts,arrived_pkts,arrived_bytes,delivered_pkts,delivered_bytes,\
    dropped_loss_pkts,dropped_queue_pkts,dropped_aqm_pkts,dropped_policer_pkts,marked_pkts,duplicated_pkts,\
    corrupted_pkts,late_pkts,dropped_ack_pkts,dropped_mtu_pkts,sojourn_max_us\n";

#[derive(Debug)]
pub struct Samples {
    writer: FileWriter,
    names: Vec<String>,
    interval_ns: u64,
    next_ns: u64,
    last_ns: u64,
}

impl Samples {
    /// Creates the file. Errors: `emulator.cannot_write`.
    pub fn create(path: &Path, names: Vec<String>, interval_us: u64, now_ns: u64) -> Result<Self> {
        let writer = FileWriter::create(path)?;
        writer.append(HEADER.as_bytes().to_vec());
        let interval_ns = interval_us.saturating_mul(1000);
        Ok(Samples {
            writer,
            names,
            interval_ns,
            next_ns: now_ns.saturating_add(interval_ns),
            last_ns: now_ns,
        })
    }

    pub fn due_ns(&self) -> u64 {
        self.next_ns
    }

    /// Writes a due row. After a pause there is one row, not one per interval.
    pub fn take<P: Packet>(&mut self, now_ns: u64, network: &mut Network<P>) {
        if now_ns >= self.next_ns {
            self.row(now_ns, network);
            let passed = (now_ns - self.next_ns) / self.interval_ns + 1;
            self.next_ns = self.next_ns.saturating_add(passed.saturating_mul(self.interval_ns));
        }
    }

    /// Writes a last row, and completes the file. Errors: `emulator.cannot_write`.
    pub fn close<P: Packet>(mut self, now_ns: u64, network: &mut Network<P>) -> Result<()> {
        if now_ns / 1000 > self.last_ns / 1000 {
            self.row(now_ns, network);
        }
        self.writer.close()
    }

    fn row<P: Packet>(&mut self, now_ns: u64, network: &mut Network<P>) {
        let mut rows = String::with_capacity(self.names.len() * 128);
        for (link, name) in self.names.iter().enumerate() {
            let sojourn_us = network.take_sojourn_max_ns(link) / 1000;
            let sample = network.sample(link);
            let c = sample.counters;
            // Writing to a string cannot fail.
            let _ = writeln!(
                rows,
                "{},{name},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{sojourn_us}",
                now_ns / 1000,
                sample.queue_bytes,
                sample.queue_pkts,
                c.arrived_pkts,
                c.arrived_bytes,
                c.delivered_pkts,
                c.delivered_bytes,
                c.dropped_loss_pkts,
                c.dropped_queue_pkts,
                c.dropped_aqm_pkts,
                c.dropped_policer_pkts,
                c.marked_pkts,
                c.duplicated_pkts,
                c.corrupted_pkts,
                c.late_pkts,
                c.dropped_ack_pkts,
                c.dropped_mtu_pkts,
            );
        }
        self.last_ns = now_ns;
        self.writer.append(rows.into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::IpPacket;
    use crate::spec::Spec;

    const MS: u64 = 1_000_000;

    fn network() -> Network<IpPacket> {
        let json = br#"{"seed": 1, "mtu_bytes": 1500, "sample_interval_us": 10000, "routes": [[-1, 0], [1, -1]],
            "nodes": [{"name": "a", "addresses": ["10.0.0.1"]}, {"name": "b", "addresses": ["10.0.0.2"]}],
            "links": [{"name": "l>", "from": 0, "to": 1, "direction": {"rate_bytes_per_s": 1e6, "delay_us": 5000}},
                {"name": "l<", "from": 1, "to": 0, "direction": {}}]}"#;
        Network::new(Spec::from_json(json).unwrap(), 0)
    }

    #[test]
    fn rows_come_at_intervals_and_at_the_end() {
        let path = std::env::temp_dir().join(format!("ccp-emu-samples-{}.csv", std::process::id()));
        let mut network = network();
        let names = network.link_names().map(str::to_owned).collect();
        let mut samples = Samples::create(&path, names, 10_000, 0).unwrap();
        for _ in 0..2 {
            let bytes = crate::ip::samples::udp(false, 972); // 1000 bytes take 1 ms
            network.arrive(0, 0, 1, IpPacket::new(bytes, None).unwrap());
        }
        samples.take(9 * MS, &mut network); // too early
        assert_eq!(samples.due_ns(), 10 * MS);
        network.advance(10 * MS, &mut Vec::new());
        samples.take(10 * MS, &mut network);
        samples.take(35 * MS, &mut network); // two were missed
        assert_eq!(samples.due_ns(), 40 * MS);
        samples.close(38 * MS, &mut network).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let rows: Vec<_> = text.lines().filter(|row| !row.contains("l<")).collect();
        assert_eq!(
            rows,
            [
                HEADER.trim_end(),
                "10000,l>,0,0,2,2000,2,2000,0,0,0,0,0,0,0,0,0,0,1000",
                "35000,l>,0,0,2,2000,2,2000,0,0,0,0,0,0,0,0,0,0,0",
                "38000,l>,0,0,2,2000,2,2000,0,0,0,0,0,0,0,0,0,0,0",
            ]
        );
        assert_eq!(text.lines().count(), 1 + 2 * 3);
    }
}
