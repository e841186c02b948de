//! The file with each packet's telemetry.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ccp_int::RecordRow;

use crate::{Error, Result};

#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    file: BufWriter<File>,
    failed: Option<std::io::Error>,
    lost: u64,
}

impl Records {
    /// Creates the file. Errors: `int.cannot_write`.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| cannot_write(path, e))?;
        let mut records =
            Records { path: path.to_owned(), file: BufWriter::new(file), failed: None, lost: 0 };
        records.put(RecordRow::HEADER);
        Ok(records)
    }

    /// Appends rows. Rejected ones are counted; the error is reported at closing.
    pub fn append(&mut self, rows: &[RecordRow]) {
        let mut text = String::new();
        for row in rows {
            row.write(&mut text);
        }
        self.put(&text);
        if self.failed.is_some() {
            self.lost += rows.len() as u64;
        }
    }

    /// Rows that could not be written, and possibly some in the buffer.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn put(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(text.as_bytes()).err();
        }
    }

    /// Completes the file. Errors: `int.cannot_write`.
    pub fn close(mut self) -> Result<()> {
        let failed = self.failed.take().map_or_else(|| self.file.flush(), Err);
        failed.map_err(|e| cannot_write(&self.path, e))
    }
}

fn cannot_write(path: &Path, e: std::io::Error) -> Error {
    Error::new("int.cannot_write", "cannot write the file for records")
        .at(path.display().to_string())
        .why(e)
        .fix("give a path in an existing folder, on a disk with free space")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use ccp_int::FlowKey;

    use super::*;

    #[test]
    fn what_the_disk_says_is_reported_at_the_end() {
        assert_eq!(
            Records::create(Path::new("/nowhere/records.csv")).expect_err("no folder").slug,
            "int.cannot_write"
        );
        let mut full = Records::create(Path::new("/dev/full")).expect("a device");
        assert_eq!(full.lost(), 0);
        let flow = FlowKey::of(Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), 1, 2, 17);
        let row = RecordRow {
            mono_ns: 0,
            flow: flow.expect("UDP"),
            sequence: None,
            len_bytes: 100,
            latency_us: None,
            cwnd_bytes: None,
            lost_congestion_pkts: 0,
            lost_link_pkts: 0,
            lost_unknown_pkts: 0,
            hop: None,
            node: ccp_ioam::Node::default(),
        };
        full.append(&vec![row; 1000]); // more than waits in memory
        assert_eq!(full.lost(), 1000);
        let error = full.close().expect_err("it is full");
        assert_eq!((error.slug, error.place.as_str()), ("int.cannot_write", "/dev/full"));
    }
}
