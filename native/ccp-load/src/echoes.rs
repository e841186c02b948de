//! The map with echoes of the path by socket, written by nodes of in-band telemetry and read by fold programs
//! (`ccp-bpf/src/bpf/path_echo.h`). The first agent or node pins it in the agent's pin directory.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use libbpf_rs::OpenObject;

use crate::bpffs;

const MAP: &str = "path_echoes";
/// Its directory below the pin directory, locked by users of the map.
const DIRECTORY: &str = "paths";
/// The number is the version of the map's layout.
const PIN: &str = "echoes_2";

/// A use of the map, during which the pin stays.
#[derive(Debug)]
pub struct EchoPin {
    pin_dir: PathBuf,
    _lock: File,
}

impl EchoPin {
    /// Starts using the map of a pin directory, creating missing directories. Errors: they cannot be created or opened.
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

    /// Makes an object use the pinned map, or pin its own. Errors: libbpf's.
    pub fn share(&self, open: &mut OpenObject) -> libbpf_rs::Result<()> {
        let pin = self.pin_dir.join(DIRECTORY).join(PIN);
        open.maps_mut().filter(|map| map.name() == MAP).try_for_each(|mut map| map.set_pin_path(&pin))
    }

    /// Gives directory and pin to the owner of the pin directory: agent and node may run as different users.
    /// Errors: the owner cannot be changed.
    pub fn hand_over(&self) -> io::Result<()> {
        let owner = fs::metadata(&self.pin_dir)?;
        let place = self.pin_dir.join(DIRECTORY);
        [place.join(PIN), place].iter().try_for_each(|path| chown(path, Some(owner.uid()), Some(owner.gid())))
    }

    /// Stops using the map, and removes pin and directories if they are unused. Errors: as for
    /// [`EchoPin::remove`].
    pub fn end(self) -> io::Result<()> {
        let pin_dir = self.pin_dir.clone();
        drop(self);
        if EchoPin::remove(&pin_dir)? == Some(true) && fs::metadata(&pin_dir)?.uid() == 0 {
            let _ = fs::remove_dir(&pin_dir); // an agent's datapath may be there; another user's directory was created for it
        }
        Ok(())
    }

    /// Removes the pin if it is unused. Returns whether it did; `None` if there was none. Errors: it cannot
    /// be opened or removed.
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
