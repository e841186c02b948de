//! Pins in the BPF file system: they keep maps and registrations alive when an agent dies.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ccp_load::{EchoPin, bpffs};

use crate::head::Head;
use crate::kernel::{open_pin, release_at_least};
use crate::names;
use crate::namespaces::instead_of;
use crate::walk::Walk;
use crate::{Error, Result};

/// Maximum wait for another agent that starts, or for an agent that looks whether one does.
const OPENING: Duration = Duration::from_secs(1);
const NEXT: &str = "-next";

#[derive(Clone, Debug)]
pub(crate) struct Pins {
    dir: PathBuf,
    /// Directory of the map shared with nodes of in-band telemetry: a stage uses that of the place it will take.
    shared: PathBuf,
}

impl Pins {
    const MAPS: [&'static str; 18] = [
        "flows",
        "globals",
        "free_slots",
        "holders",
        "programs",
        "names",
        "records",
        "folds_on_ack",
        "folds_on_timeout",
        "finish_on_ack",
        "finish_on_timeout",
        "extensions",
        "extensions_on_ack",
        "extensions_on_fold",
        "extensions_on_cwnd_event",
        "extensions_on_cwnd_event_tx_start",
        "extensions_on_release",
        "moving",
    ];

    pub fn core_maps() -> impl Iterator<Item = &'static str> {
        Self::MAPS.into_iter()
    }

    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Pins { shared: dir.clone(), dir }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn shared(&self) -> &Path {
        &self.shared
    }

    pub fn map(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn extensions(&self) -> PathBuf {
        self.dir.join("extension")
    }

    fn registrations(&self) -> PathBuf {
        self.dir.join("registered")
    }

    /// Where the successor of this datapath is assembled.
    pub fn stage(&self) -> Pins {
        Pins { dir: self.dir.join("next"), shared: self.shared.clone() }
    }

    /// Replaces the maps here by those of a stage, each atomically.
    pub fn adopt_maps(&self, stage: &Pins) -> Result<()> {
        for name in Self::core_maps() {
            let place = self.map(name);
            fs::rename(stage.map(name), &place).map_err(|e| no_directory(&place, e))?;
        }
        stage.remove_directories(false)
    }

    /// Removes empty directories; `in_use`: the outermost is not empty.
    fn remove_directories(&self, in_use: bool) -> Result<()> {
        let outermost = (!in_use).then(|| self.dir.clone());
        for dir in [self.extensions(), self.registrations()].into_iter().chain(outermost) {
            match fs::remove_dir(&dir) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                // Whoever started this agent created the directory, and allows it to write only there.
                Err(e) if dir == self.dir && made_for_us(&e) => {}
                Err(e) => return Err(unpinned(&dir, &e)),
            }
        }
        Ok(())
    }

    pub fn extension_map(&self, extension: &str, name: &str) -> PathBuf {
        self.extensions().join(extension).join(name)
    }

    pub fn create_extension(&self, name: &str) -> Result<()> {
        let place = self.extensions().join(name);
        fs::create_dir_all(&place).map_err(|e| no_directory(&place, e))
    }

    /// Puts an extension's maps in the place of those of `name`, which get its place, if there are any.
    pub fn exchange_extensions(&self, from: &str, name: &str) -> Result<()> {
        let [from, to] = [from, name].map(|one| self.extensions().join(one));
        let flags = if to.exists() { libc::RENAME_EXCHANGE } else { 0 };
        let paths = [&from, &to].map(|path| CString::new(path.as_os_str().as_encoded_bytes()));
        let [Ok(source), Ok(target)] = paths else {
            return Err(no_directory(&to, "its name has a zero byte"));
        };
        // SAFETY: two C strings.
        let done = unsafe {
            libc::renameat2(libc::AT_FDCWD, source.as_ptr(), libc::AT_FDCWD, target.as_ptr(), flags)
        };
        if done == 0 { Ok(()) } else { Err(no_directory(&to, io::Error::last_os_error())) }
    }

    /// Puts the extensions of a stage here, in place of those that are here.
    pub fn adopt_extensions(&self, stage: &Pins) -> Result<()> {
        for name in self.extension_names() {
            self.forget_extension(&name)?;
        }
        for name in stage.extension_names() {
            self.create_extension(&name)?; // an empty directory, which the rename replaces
            let to = self.extensions().join(&name);
            fs::rename(stage.extensions().join(&name), &to).map_err(|e| no_directory(&to, e))?;
        }
        Ok(())
    }

    /// Removes a stage that was not put into use: it has no registrations, and no sockets.
    pub fn discard(&self) -> Result<()> {
        if !self.dir.exists() {
            return Ok(());
        }
        for name in self.extension_names() {
            self.forget_extension(&name)?;
        }
        for name in Self::core_maps() {
            match fs::remove_file(self.map(name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(unpinned(&self.map(name), &e)),
                _ => {}
            }
        }
        self.remove_directories(false)
    }

    /// Removes what a successor left here that did not put it into use. Errors leave it to the next attempt.
    pub fn tidy(&self) {
        let _ = self.stage().discard();
        for name in self.extension_names().iter().filter(|name| name.ends_with(NEXT)) {
            let _ = self.forget_extension(name);
        }
        let Ok(table) = names::read(self) else { return };
        let known: Vec<_> = table.into_iter().flatten().filter(|name| name.registered).collect();
        for cc_name in self.registered() {
            if !known.iter().any(|name| name.cc_name == cc_name) {
                let _ = self.unregister(&cc_name);
            }
        }
    }

    /// Where the maps of an extension's next version are made. Names of extensions have no `-`.
    pub fn next_of(extension: &str) -> String {
        format!("{extension}{NEXT}")
    }

    /// Removes an extension's maps; its programs keep them while they are called.
    pub fn forget_extension(&self, name: &str) -> Result<()> {
        let place = self.extensions().join(name);
        match clear(&place) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(unpinned(&place, &e)),
            _ => {}
        }
        let _ = fs::remove_dir(self.extensions()); // stays if it has other extensions
        Ok(())
    }

    pub fn extension_names(&self) -> Vec<String> {
        entries(&self.extensions())
    }

    /// The pinned maps: the core's, and those of extensions.
    pub fn pinned_maps(&self) -> Vec<PathBuf> {
        let core = Self::core_maps().map(|name| self.map(name)).filter(|path| path.exists());
        let own = self.extension_names().into_iter().flat_map(|one| {
            let place = self.extensions().join(one);
            entries(&place).into_iter().map(move |map| place.join(map))
        });
        core.chain(own).collect()
    }

    /// The BPF file system forbids dots in names, and ccplane's names have no `-`.
    pub fn registration(&self, cc_name: &str) -> PathBuf {
        self.registrations().join(cc_name.replace('.', "-"))
    }

    /// Congestion-control names with a pinned registration.
    pub fn registered(&self) -> Vec<String> {
        entries(&self.registrations()).iter().map(|name| name.replace('-', ".")).collect()
    }

    pub fn open_map(&self, name: &str) -> Result<OwnedFd> {
        self.open(&self.map(name))
    }

    pub fn open(&self, path: &Path) -> Result<OwnedFd> {
        open_pin(path).map_err(|e| {
            let error = Error::new("load.not_loaded", "no ccplane datapath is loaded here")
                .at(path.display().to_string());
            match e.kind() {
                io::ErrorKind::PermissionDenied => error
                    .why("opening pinned BPF maps requires CAP_BPF")
                    .fix("run as root, or give the process CAP_BPF and CAP_NET_ADMIN"),
                _ => error.why(e).fix("start an agent: ccp run ALGORITHM"),
            }
        })
    }

    /// Creates the directories, mounting the BPF file system at `/sys/fs/bpf` if necessary.
    pub fn create(&self) -> Result<()> {
        // Any process that may open the directory may lock it.
        bpffs::make(&self.registrations())
            .and_then(|()| fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o700)))
            .map_err(|e| self.not_made(e))
    }

    pub fn not_made(&self, why: io::Error) -> Error {
        no_directory(&self.dir, why)
    }

    /// Locks the directory for this agent until the descriptor is closed in any way. The lock is next to the
    /// maps: agents that share the maps, in containers with separate `/run` directories, share the lock.
    pub fn hold(&self) -> Result<OwnedFd> {
        self.lock(&self.dir)
    }

    /// Whether no agent has the lock.
    pub fn is_free(&self) -> bool {
        self.hold().is_ok()
    }

    /// The lock of an agent that starts, until it has the other one. See `handover.rs`.
    pub fn hold_opening(&self) -> Result<OwnedFd> {
        let end = Instant::now() + OPENING;
        loop {
            match self.try_opening() {
                Err(e) if e.slug == "load.already_running" && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                held => return held,
            }
        }
    }

    pub fn try_opening(&self) -> Result<OwnedFd> {
        self.lock(&self.registrations())
    }

    /// Whether an agent starts.
    pub fn is_opening(&self) -> bool {
        self.try_opening().is_err()
    }

    fn lock(&self, place: &Path) -> Result<OwnedFd> {
        let failed = |e| self.not_made(e);
        loop {
            let dir = fs::File::open(place).map_err(failed)?;
            // SAFETY: a valid descriptor.
            if unsafe { libc::flock(dir.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                let e = io::Error::last_os_error();
                return Err(if e.kind() == io::ErrorKind::WouldBlock { self.taken() } else { failed(e) });
            }
            // The previous owner may have removed it meanwhile, and another agent created it again.
            let locked = dir.metadata().map_err(failed)?;
            if fs::metadata(place).is_ok_and(|now| now.ino() == locked.ino()) {
                return Ok(dir.into());
            }
            self.create()?;
        }
    }

    fn taken(&self) -> Error {
        let pid = Head::open(self).map_or(0, |head| head.agent_pid());
        let who = if pid == 0 { "unknown".to_owned() } else { pid.to_string() };
        let stop = if pid == 0 { "stop it".to_owned() } else { format!("stop it (kill {pid})") };
        Error::new(
            "load.already_running",
            format!("another agent (pid {who}) controls the flows of {}", self.dir.display()),
        )
        .why("a datapath has one agent: two would overwrite each other's windows")
        .fix(format!("{stop}, or take over its flows with --take-over"))
    }

    /// Removes one registration: new sockets cannot choose the name, existing ones keep their programs.
    pub fn unregister(&self, cc_name: &str) -> io::Result<()> {
        let path = self.registration(cc_name);
        let fd = open_pin(&path)?;
        if release_at_least(6, 4) {
            // SAFETY: a valid descriptor; the pin is removed as well.
            let _ = unsafe { libbpf_sys::bpf_link_detach(fd.as_raw_fd()) };
        } else {
            let zero = 0u32;
            // SAFETY: the key of a struct_ops map is one u32.
            unsafe { libbpf_sys::bpf_map_delete_elem(fd.as_raw_fd(), (&raw const zero).cast()) };
        }
        fs::remove_file(path)
    }
}

fn no_directory(place: &Path, why: impl std::fmt::Display) -> Error {
    Error::new("load.pin", "cannot create or lock the pin directory")
        .at(place.display().to_string())
        .why(why)
        .fix("run as root with a BPF file system mounted: mount -t bpf bpf /sys/fs/bpf")
}

fn made_for_us(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EROFS | libc::EACCES | libc::EPERM | libc::EBUSY))
}

fn unpinned(place: &Path, e: &io::Error) -> Error {
    Error::new("load.unload", "cannot remove a pin")
        .at(place.display().to_string())
        .why(e)
        .fix("run as root; bpftool link list shows what uses the pin")
}

/// Sorted names in a directory; none if it does not exist.
fn entries(place: &Path) -> Vec<String> {
    let found = fs::read_dir(place).into_iter().flatten().flatten();
    let mut names: Vec<_> = found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn clear(place: &Path) -> io::Result<()> {
    for name in entries(place) {
        fs::remove_file(place.join(name))?;
    }
    fs::remove_dir(place)
}

/// Result of removing a datapath.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unloaded {
    /// What was removed, one line each.
    pub removed: Vec<String>,
    /// Sockets and defaults that got another congestion control, one line each.
    pub moved: Vec<String>,
    /// What could not be reached, one line each. It moves by itself at its next transmission.
    pub left: Vec<String>,
}

/// Removes a datapath: every registration and every map. Its sockets and namespace defaults get a congestion
/// control of the kernel's. A missing datapath is not an error, but a running agent is.
pub fn unload(dir: impl Into<PathBuf>) -> Result<Unloaded> {
    let pins = Pins::new(dir);
    if !pins.dir().exists() {
        return Ok(Unloaded::default());
    }
    let _held = pins.hold()?;
    remove(&pins)
}

pub(crate) fn remove(pins: &Pins) -> Result<Unloaded> {
    let mut came = Unloaded::default();
    let names: Vec<_> =
        names::read(pins).unwrap_or_default().into_iter().flatten().map(|n| n.cc_name).collect();
    let instead = instead_of(&names);
    // From here on its sockets leave by themselves; without a heartbeat none waits for an agent.
    if let Ok(head) = Head::open(pins) {
        head.retire(&instead);
    }
    for cc_name in pins.registered() {
        pins.unregister(&cc_name).map_err(|e| unpinned(&pins.registration(&cc_name), &e))?;
        came.removed.push(format!("congestion control {cc_name}"));
    }
    walk_to(names.into_iter().map(|name| (name, instead.clone())).collect(), &mut came);
    for name in pins.extension_names() {
        pins.forget_extension(&name)?;
        came.removed.push(format!("extension {name}"));
    }
    if pins.stage().dir().exists() {
        remove(&pins.stage())?; // of an interrupted upgrade
    }
    for name in Pins::core_maps() {
        match fs::remove_file(pins.map(name)) {
            Ok(()) => came.removed.push(format!("map {name}")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(unpinned(&pins.map(name), &e)),
        }
    }
    let echoes = EchoPin::remove(pins.dir()).map_err(|e| unpinned(pins.dir(), &e))?;
    match echoes {
        Some(true) => came.removed.push("map path_echoes".to_owned()),
        Some(false) => came.left.push("map path_echoes, which a node of in-band telemetry uses".to_owned()),
        None => {}
    }
    pins.remove_directories(echoes == Some(false))?;
    Ok(came)
}

fn walk_to(names: BTreeMap<String, String>, came: &mut Unloaded) {
    if names.is_empty() {
        return;
    }
    match Walk::new(names, false).map(|walk| walk.all()) {
        Ok(walked) => {
            came.moved.extend(walked.done);
            came.left.extend(walked.left);
        }
        Err(e) => came.left.push(format!("sockets and defaults were not checked: {}: {}", e.message, e.why)),
    }
}
