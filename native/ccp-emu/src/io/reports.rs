//! Output of sinks: summaries as lines of JSON, and records of packets.

use std::fs::File;
use std::os::fd::BorrowedFd;

use ccp_int::{Lines, Summary};

use super::set_nonblocking;
use crate::int::{Int, Telemetry};
use crate::record::IntRecords;
use crate::{Error, Result};

#[derive(Debug)]
pub struct Reports {
    lines: Option<Lines<File>>,
    records: IntRecords,
    summaries: Vec<Summary>,
}

impl Reports {
    /// Creates the outputs. Errors: `emulator.cannot_write`.
    pub fn new(int: &Int, summaries: Option<BorrowedFd<'_>>) -> Result<Self> {
        let lines = summaries.map(lines).transpose()?;
        Ok(Reports { lines, records: IntRecords::new(int)?, summaries: Vec::new() })
    }

    pub fn take(&mut self, now_ns: u64, telemetry: &mut Telemetry) {
        if telemetry.due_ns().is_none_or(|due_ns| now_ns < due_ns) {
            return;
        }
        telemetry.take(now_ns, &mut self.summaries);
        for summary in self.summaries.drain(..) {
            if let Some(lines) = &mut self.lines {
                lines.write(&summary);
            }
        }
        self.records.take(telemetry);
    }

    /// Summaries dropped because the reader was too slow.
    pub fn dropped(&self) -> u64 {
        self.lines.as_ref().map_or(0, Lines::dropped)
    }

    /// Writes the rest, and completes the files. Errors: `emulator.cannot_write`.
    pub fn close(mut self, telemetry: &mut Telemetry) -> Result<()> {
        self.take(u64::MAX, telemetry);
        if let Some(lines) = &mut self.lines {
            lines.flush();
        }
        self.records.close()
    }
}

/// Lines into a descriptor, made non-blocking.
fn lines(fd: BorrowedFd<'_>) -> Result<Lines<File>> {
    let own = set_nonblocking(fd).map_err(std::io::Error::from).and_then(|()| fd.try_clone_to_owned());
    let own = own.map_err(|e| {
        Error::new("emulator.cannot_write", "cannot write summaries").at("int.summaries_fd").why(e)
    })?;
    Ok(Lines::new(own.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::int::samples::{MS, START_NS, everywhere, line, network, packet, segment};
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn summaries_are_lines_of_json_and_records_rows_of_csv() {
        let path = std::env::temp_dir().join(format!("ccp-emu-records-{}.csv", std::process::id()));
        let mut int = everywhere();
        int["sink"]["records"] = true.into();
        int["records_path"] = path.to_str().into();
        let spec = line(int);
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut reports = Reports::new(spec.int.as_ref().unwrap(), Some(writer.as_fd())).unwrap();
        let mut network = network(spec, None);
        let mut send = |from_ms: u64, until_ms: u64| {
            let (from_ns, until_ns) = (START_NS + from_ms * MS, START_NS + until_ms * MS);
            (0..2).for_each(|number| network.arrive(from_ns, 0, 1, packet(segment(number))));
            network.advance(until_ns, &mut Vec::new());
            reports.take(until_ns, network.telemetry_mut().unwrap());
        };
        // Packets take 3 and 4 ms. 10 ms later there is a summary, and one of the rest at the end.
        send(0, 15);
        send(15, 20);
        assert_eq!(reports.dropped(), 0);
        reports.close(network.telemetry_mut().unwrap()).unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.iter().all(|line| line["kind"] == "int_summary"));
        let received: Vec<_> = lines.iter().map(|line| line["received_pkts"].as_u64().unwrap()).collect();
        assert_eq!(received, [2, 2]);
        let rows = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // A header, and a row for each of three nodes per packet.
        assert_eq!(rows.lines().count(), 1 + 4 * 3);
        assert!(rows.starts_with("t_us,"));
    }
}
