//! Records of packets with telemetry, as CSV.

use ccp_int::RecordRow;

use super::FileWriter;
use crate::Result;
use crate::int::{Int, Telemetry};

/// The file, if records are enabled.
#[derive(Debug)]
pub struct IntRecords(Option<FileWriter>);

impl IntRecords {
    /// Creates the file. Errors: `emulator.cannot_write`.
    pub fn new(int: &Int) -> Result<Self> {
        let writer = int.records_path.as_deref().map(FileWriter::create).transpose()?;
        if let Some(writer) = &writer {
            writer.append(RecordRow::HEADER.as_bytes().to_vec());
        }
        Ok(IntRecords(writer))
    }

    /// Writes new records of sinks.
    pub fn take(&self, telemetry: &mut Telemetry) {
        if let Some(writer) = &self.0 {
            let mut rows = String::new();
            telemetry.take_records().for_each(|row| row.write(&mut rows));
            writer.append(rows.into_bytes());
        }
    }

    /// Completes the file. Errors: `emulator.cannot_write`.
    pub fn close(self) -> Result<()> {
        self.0.map_or(Ok(()), FileWriter::close)
    }
}
