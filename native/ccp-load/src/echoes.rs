//! The map in which nodes of in-band telemetry keep echoes of the path, by socket, for fold programs to read
//! (`ccp-bpf/src/bpf/path_echo.h`). It is pinned in the agent's pin directory by the agent or by a node, whichever is first.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use libbpf_rs::OpenObject;

use crate::bpffs;

/// Its name in objects.
const MAP: &str = "path_echoes";
/// Its directory below the pin directory. Whoever uses the map locks it.
const DIRECTORY: &str = "paths";
/// Its number is that of the map's layout.
const PIN: &str = "echoes_1";

/// A use of the map: while it lasts, the pin stays.
#[derive(Debug)]
pub struct EchoPin {
    pin_dir: PathBuf,
    _lock: File,
}

impl EchoPin {
    /// Begins to use the map of a pin directory, and makes the directories that are missing.
    /// Errors: they cannot be made or opened.
    pub fn begin(pin_dir: &Path) -> io::Result<Self> {
        let place = pin_dir.join(DIRECTORY);
        loop {
            bpffs::make(&place)?;
            let lock = File::open(&place)?;
            flock(&lock, libc::LOCK_SH)?;
            // Its last user may have removed it meanwhile.
            if fs::metadata(&place).is_ok_and(|now| now.ino() == lock.metadata().map_or(0, |m| m.ino())) {
                return Ok(EchoPin { pin_dir: pin_dir.to_owned(), _lock: lock });
            }
        }
    }

    /// Has an object use the pinned map, or pin its own where there is none yet.
    /// Errors: libbpf's.
    pub fn share(&self, open: &mut OpenObject) -> libbpf_rs::Result<()> {
        let pin = self.pin_dir.join(DIRECTORY).join(PIN);
        open.maps_mut().filter(|map| map.name() == MAP).try_for_each(|mut map| map.set_pin_path(&pin))
    }

    /// Gives directory and pin to the owner of the pin directory: the agent may run as another user than a node.
    /// Errors: the owner cannot be changed.
    pub fn hand_over(&self) -> io::Result<()> {
        let owner = fs::metadata(&self.pin_dir)?;
        let place = self.pin_dir.join(DIRECTORY);
        [place.join(PIN), place].iter().try_for_each(|path| chown(path, Some(owner.uid()), Some(owner.gid())))
    }

    /// Stops using the map, and removes pin and directories if neither an agent nor another node uses them.
    /// Errors: as [`EchoPin::remove`].
    pub fn end(self) -> io::Result<()> {
        let pin_dir = self.pin_dir.clone();
        drop(self);
        if EchoPin::remove(&pin_dir)? == Some(true) && fs::metadata(&pin_dir)?.uid() == 0 {
            let _ = fs::remove_dir(&pin_dir); // an agent's datapath may be there; another user's was made for it
        }
        Ok(())
    }

    /// Removes the pin if nothing uses it. Returns whether it did; `None` where there was none.
    /// Errors: it cannot be opened or removed.
    pub fn remove(pin_dir: &Path) -> io::Result<Option<bool>> {
        let place = pin_dir.join(DIRECTORY);
        let lock = match File::open(&place) {
            Ok(lock) => lock,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        match flock(&lock, libc::LOCK_EX | libc::LOCK_NB) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Some(false)),
            Err(e) => return Err(e),
        }
        for pin in fs::read_dir(&place)? {
            fs::remove_file(pin?.path())?; // of all layouts
        }
        fs::remove_dir(&place)?;
        Ok(Some(true))
    }
}

fn flock(file: &File, how: i32) -> io::Result<()> {
    // SAFETY: a valid descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
