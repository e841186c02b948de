//! Files written by a separate thread, so that disks do not delay packets.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use crate::{Error, Result};

#[derive(Debug)]
pub struct FileWriter {
    path: PathBuf,
    /// None after closing.
    sender: Option<Sender<Vec<u8>>>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl FileWriter {
    /// Creates the file. Errors: `emulator.cannot_write`.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| cannot_write(path, &e))?;
        let (sender, receiver) = channel::<Vec<u8>>();
        let write = move || {
            let mut file = BufWriter::new(file);
            // Available data is written together; the buffer is flushed before waiting.
            while let Ok(first) = receiver.recv() {
                file.write_all(&first)?;
                while let Ok(next) = receiver.try_recv() {
                    file.write_all(&next)?;
                }
                file.flush()?;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new()
            .name("emulator-writer".to_owned())
            .spawn(write)
            .map_err(|e| cannot_write(path, &e))?;
        Ok(FileWriter { path: path.to_owned(), sender: Some(sender), thread: Some(thread) })
    }

    /// Appends. Errors are reported at closing.
    pub fn append(&self, bytes: Vec<u8>) {
        if let Some(sender) = &self.sender {
            let _ended_early = sender.send(bytes);
        }
    }

    /// Writes all data. Errors: `emulator.cannot_write`.
    pub fn close(mut self) -> Result<()> {
        self.finish().map_err(|e| cannot_write(&self.path, &e))
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.sender = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            Some(Err(_)) => Err(std::io::Error::other("the thread that writes ended")),
            None => Ok(()),
        }
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        // After an error elsewhere, which is the one reported.
        let _ = self.finish();
    }
}

fn cannot_write(path: &Path, e: &std::io::Error) -> Error {
    Error::new("emulator.cannot_write", "cannot write a file of the emulator")
        .at(path.display().to_string())
        .why(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_there_in_order_when_it_is_closed() {
        let path = std::env::temp_dir().join(format!("ccp-emu-writer-{}", std::process::id()));
        let writer = FileWriter::create(&path).unwrap();
        for number in 0..1000 {
            writer.append(format!("{number}\n").into_bytes());
        }
        writer.close().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let expected: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let error = FileWriter::create(Path::new("/nowhere/file.csv")).unwrap_err();
        assert_eq!((error.slug, error.place.as_str()), ("emulator.cannot_write", "/nowhere/file.csv"));
    }

    #[test]
    fn a_full_disk_is_reported_at_the_end() {
        let writer = FileWriter::create(Path::new("/dev/full")).unwrap();
        writer.append(vec![0; 100]);
        assert_eq!(writer.close().unwrap_err().slug, "emulator.cannot_write");
    }
}
