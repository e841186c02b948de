//! Loads the datapath as an agent does, without registering it, and unloads it: for `ccp doctor`.

use std::io;
use std::path::{Path, PathBuf};
use std::{env, ffi::CString, fs, process};

use ccp_load::bpffs;

use crate::kernel::Kernel;
use crate::object::{self, Registration, Sizes};
use crate::pins::{self, Pins};
use crate::{Error, Result, extension};

/// A part, and whether it loaded.
pub type Outcome = (String, Result<()>);

/// Minimal sizes: the programs are tested.
const SIZES: Sizes = Sizes { max_flows: 1, ring_bytes: 4096 };

/// Loads the core, and then each extension by name and object, without disturbing a running agent.
pub fn try_load(extensions: &[(&str, &[u8])]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let core = Scratch::new().and_then(|scratch| {
        outcomes = load_in(&scratch.pins, extensions)?;
        Ok(())
    });
    outcomes.insert(0, ("datapath".to_owned(), core));
    outcomes
}

fn load_in(pins: &Pins, extensions: &[(&str, &[u8])]) -> Result<Vec<Outcome>> {
    let kernel = Kernel::read()?;
    let registration = Registration { cc_name: "ccp", cc_id: 0, needs_ecn: false, load: 0 };
    let _core = object::load(&kernel, pins, SIZES, &registration)?;
    let outcome = |(name, object): &(&str, &[u8])| {
        let loaded = extension::load(&kernel, pins, SIZES, name, object);
        (format!("extension {name}"), loaded.map(drop))
    };
    Ok(extensions.iter().map(outcome).collect())
}

struct Scratch {
    pins: Pins,
    /// A private BPF file system, if the machine has none.
    mounted: Option<PathBuf>,
}

impl Scratch {
    fn new() -> Result<Self> {
        let name = format!("ccplane-doctor-{}", process::id());
        let mut scratch = Scratch { pins: Pins::new(Path::new(bpffs::ROOT).join(&name)), mounted: None };
        if !bpffs::is_mounted(Path::new(bpffs::ROOT)) {
            let made = tempfile::Builder::new().prefix("ccplane-doctor-").tempdir();
            let place = made.map_err(|e| no_file_system(&env::temp_dir(), &e))?.keep();
            bpffs::mount(&place).map_err(|e| {
                let _ = fs::remove_dir(&place);
                no_file_system(&place, &e)
            })?;
            scratch = Scratch { pins: Pins::new(place.join("pins")), mounted: Some(place) };
        }
        scratch.pins.create()?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = pins::unload(self.pins.dir());
        if let Some(place) = &self.mounted {
            if let Ok(path) = CString::new(place.as_os_str().as_encoded_bytes()) {
                // SAFETY: a C string; the mount is private.
                unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
            }
            let _ = fs::remove_dir(place);
        }
    }
}

fn no_file_system(place: &Path, e: &io::Error) -> Error {
    Error::new("load.pin", "cannot mount a BPF file system to test the datapath")
        .at(place.display().to_string())
        .why(e)
        .fix(format!("run as root, or mount a BPF file system: mount -t bpf bpf {}", bpffs::ROOT))
}
