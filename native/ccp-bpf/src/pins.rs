//! The pins in the BPF file system: they keep maps and registrations alive when an agent dies.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::extension::EXTENSIONS;
use crate::kernel::{open_pin, release_at_least};
use crate::{Error, Result};

/// Where the BPF file system is, unless somebody has it elsewhere.
pub(crate) const BPF_FS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// Where the maps and registrations of one datapath are pinned.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    dir: PathBuf,
}

impl Pins {
    /// The maps of the core.
    const MAPS: [&'static str; 14] = [
        "flows",
        "globals",
        "free_slots",
        "programs",
        "names",
        "records",
        "folds_on_ack",
        "folds_on_timeout",
        "finish_on_ack",
        "finish_on_timeout",
        "extensions_on_ack",
        "extensions_on_cwnd_event",
        "extensions_on_cwnd_event_tx_start",
        "extensions_on_release",
    ];

    /// The maps that programs share: the core's, and those of extensions, which may not be there.
    pub fn all_maps() -> impl Iterator<Item = &'static str> {
        Self::MAPS.into_iter().chain(EXTENSIONS.iter().flat_map(|one| one.maps).copied())
    }

    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Pins { dir: dir.into() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn map(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Dots are not allowed in names of the BPF file system; `-` is not allowed in ours.
    pub fn registration(&self, cc_name: &str) -> PathBuf {
        self.dir.join("registered").join(cc_name.replace('.', "-"))
    }

    /// Congestion-control names with a pinned registration.
    pub fn registered(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.dir.join("registered"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().replace('-', "."))
            .collect();
        names.sort();
        names
    }

    pub fn open_map(&self, name: &str) -> Result<OwnedFd> {
        let path = self.map(name);
        open_pin(&path).map_err(|e| {
            let error = Error::new("load.not_loaded", "no ccplane datapath is loaded here")
                .at(path.display().to_string());
            match e.kind() {
                io::ErrorKind::PermissionDenied => error
                    .why("opening pinned BPF maps needs CAP_BPF")
                    .fix("run as root, or give the process CAP_BPF and CAP_NET_ADMIN"),
                _ => error.why(e).fix("start an agent first: ccp run ALGORITHM"),
            }
        })
    }

    /// Makes the directories, mounting the BPF file system at `/sys/fs/bpf` where it is missing.
    pub fn create(&self) -> Result<()> {
        let fail = |e: &dyn std::fmt::Display| {
            Error::new("load.pin", "cannot make the pin directory")
                .at(self.dir.display().to_string())
                .why(e)
                .fix("run as root with a BPF file system mounted: mount -t bpf bpf /sys/fs/bpf")
        };
        let root = Path::new(BPF_FS);
        if self.dir.starts_with(root) && !is_bpffs(root) {
            mount_bpffs(root).map_err(|e| fail(&e))?;
        }
        fs::create_dir_all(self.dir.join("registered")).map_err(|e| fail(&e))?;
        if !is_bpffs(&self.dir) {
            return Err(fail(&"the directory is not in a BPF file system"));
        }
        Ok(())
    }

    /// Takes one registration away: new sockets no longer find the name, old ones keep their programs.
    pub fn unregister(&self, cc_name: &str) -> io::Result<()> {
        let path = self.registration(cc_name);
        let fd = open_pin(&path)?;
        if release_at_least(6, 4) {
            // SAFETY: a valid descriptor; detaching is what the pin was for.
            let _ = unsafe { libbpf_sys::bpf_link_detach(fd.as_raw_fd()) };
        } else {
            let zero = 0u32;
            // SAFETY: the key of a struct_ops map is one u32.
            unsafe { libbpf_sys::bpf_map_delete_elem(fd.as_raw_fd(), (&raw const zero).cast()) };
        }
        fs::remove_file(path)
    }
}

/// Whether this is in a BPF file system.
pub(crate) fn is_bpffs(path: &Path) -> bool {
    let Ok(name) = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()) else {
        return false;
    };
    // SAFETY: statfs fills the structure or fails.
    let mut info: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    let done = unsafe { libc::statfs(name.as_ptr(), &raw mut info) };
    done == 0 && i64::from(info.f_type as u32) == BPF_FS_MAGIC
}

/// Mounts a BPF file system.
pub(crate) fn mount_bpffs(place: &Path) -> io::Result<()> {
    let place = std::ffi::CString::new(place.as_os_str().as_encoded_bytes())?;
    // SAFETY: C strings, which live as long as the call.
    let done = unsafe { libc::mount(c"bpf".as_ptr(), place.as_ptr(), c"bpf".as_ptr(), 0, std::ptr::null()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Removes a datapath: every registration and every map. Sockets that use it keep running under the fallback
/// law until they close. Says what was removed; nothing there is not an error.
pub fn unload(dir: impl Into<PathBuf>) -> Result<Vec<String>> {
    let pins = Pins::new(dir);
    let fail = |path: &Path, e: &io::Error| {
        Error::new("load.unload", "cannot remove a pin")
            .at(path.display().to_string())
            .why(e)
            .fix("run as root; see what holds it with bpftool link list")
    };
    let mut removed = Vec::new();
    // A datapath without a heartbeat sends its flows to the fallback law; do not make them wait for it.
    if let Ok(shared) = crate::shared::Observer::open(pins.dir()) {
        shared.silence();
    }
    for cc_name in pins.registered() {
        pins.unregister(&cc_name).map_err(|e| fail(&pins.registration(&cc_name), &e))?;
        removed.push(format!("congestion control {cc_name}"));
    }
    for name in Pins::all_maps() {
        match fs::remove_file(pins.map(name)) {
            Ok(()) => removed.push(format!("map {name}")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(fail(&pins.map(name), &e)),
        }
    }
    for dir in [pins.dir().join("registered"), pins.dir().to_path_buf()] {
        match fs::remove_dir(&dir) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(fail(&dir, &e)),
        }
    }
    Ok(removed)
}
