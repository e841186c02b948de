//! The file with what each packet brought.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ccp_int::RecordRow;

use crate::{Error, Result};

/// A CSV file.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    file: BufWriter<File>,
    /// The first thing that went wrong.
    failed: Option<std::io::Error>,
}

impl Records {
    /// Creates it.
    ///
    /// # Errors
    ///
    /// `int.cannot_write`.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| cannot_write(path, e))?;
        let mut records = Records { path: path.to_owned(), file: BufWriter::new(file), failed: None };
        records.put(RecordRow::HEADER);
        Ok(records)
    }

    /// Appends rows. What the disk says is heard when the file is closed.
    pub fn append(&mut self, rows: &[RecordRow]) {
        let mut text = String::new();
        for row in rows {
            row.write(&mut text);
        }
        self.put(&text);
    }

    fn put(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(text.as_bytes()).err();
        }
    }

    /// Writes everything.
    ///
    /// # Errors
    ///
    /// `int.cannot_write`.
    pub fn close(mut self) -> Result<()> {
        let failed = self.failed.take().map_or_else(|| self.file.flush(), Err);
        failed.map_err(|e| cannot_write(&self.path, e))
    }
}

fn cannot_write(path: &Path, e: std::io::Error) -> Error {
    Error::new("int.cannot_write", "the file for records cannot be written")
        .at(path.display().to_string())
        .why(e)
        .fix("give a path in a folder that is there, on a disk with room")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_disk_says_is_told_at_the_end() {
        assert_eq!(
            Records::create(Path::new("/nowhere/records.csv")).expect_err("no folder").slug,
            "int.cannot_write"
        );
        let full = Records::create(Path::new("/dev/full")).expect("a device");
        let error = full.close().expect_err("it is full");
        assert_eq!((error.slug, error.place.as_str()), ("int.cannot_write", "/dev/full"));
    }
}
