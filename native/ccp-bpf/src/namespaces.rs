//! The network namespaces of this machine, and work inside them.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Available in every kernel and allowed in every namespace.
pub(crate) const ALWAYS: &str = "reno";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// A namespace with a process or a mount.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// A path at which it was found.
    pub place: PathBuf,
    file: File,
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_number(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

/// Mount points of namespaces as a process sees them; used by `ip netns` and container engines.
fn mounted(process: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    let place = |line: &str| {
        let (own, of_kind) = line.split_once(" - ")?;
        let mut fields = own.split(' ').skip(3);
        let is_net = of_kind.starts_with("nsfs") && fields.next()?.starts_with("net:[");
        let path = fields.next()?.replace("\\040", " ");
        is_net.then(|| process.join("root").join(path.trim_start_matches('/')))
    };
    mounts.lines().filter_map(place).collect()
}

/// All namespaces that can be found: those of threads, and those mounted in the mount namespace of a process.
/// One that only an open file holds cannot be found.
pub(crate) fn all() -> Vec<Namespace> {
    let mut found = BTreeMap::new();
    let mut mounts = HashSet::new();
    let mut meet = |place: PathBuf| {
        if let Ok(file) = File::open(&place)
            && let Ok(about) = file.metadata()
        {
            found.entry(about.ino()).or_insert(Namespace { place, file });
        }
    };
    for place in mounted(Path::new("/proc/self")) {
        // The familiar name, without the detour through /proc.
        let name =
            place.strip_prefix("/proc/self/root").map_or(place.clone(), |path| Path::new("/").join(path));
        meet(name);
    }
    meet("/proc/self/ns/net".into());
    for process in entries(Path::new("/proc")).filter(|path| is_number(path)) {
        if fs::metadata(process.join("ns/mnt")).is_ok_and(|mount| mounts.insert(mount.ino())) {
            mounted(&process).into_iter().for_each(&mut meet);
        }
        entries(&process.join("task")).for_each(|thread| meet(thread.join("ns/net")));
    }
    found.into_values().collect()
}

impl Namespace {
    fn enter(&self) -> io::Result<()> {
        // SAFETY: a valid descriptor; only the calling thread moves.
        let done = unsafe { libc::setns(self.file.as_raw_fd(), libc::CLONE_NEWNET) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Runs a function inside each namespace, on a thread of its own, and returns the results.
pub(crate) fn inside_each<T: Send>(
    namespaces: &[Namespace],
    mut what: impl FnMut(&Namespace) -> io::Result<T> + Send,
) -> Vec<io::Result<T>> {
    std::thread::scope(|scope| {
        let visit = move || namespaces.iter().map(|one| one.enter().and_then(|()| what(one))).collect();
        scope.spawn(visit).join().unwrap_or_default()
    })
}

/// The default congestion control of the calling thread's namespace.
pub(crate) fn default() -> io::Result<String> {
    Ok(fs::read_to_string(DEFAULT)?.trim().to_owned())
}

/// Sets the default. Setting the same name again selects the programs registered under it now.
pub(crate) fn set_default(name: &str) -> io::Result<()> {
    fs::write(DEFAULT, name)
}

/// The replacement for ccplane's congestion controls: the namespace's other default, else the kernel's CUBIC,
/// else Reno.
pub(crate) fn instead_of(mine: &[String]) -> String {
    let available = fs::read_to_string(AVAILABLE).unwrap_or_default();
    let is_there = |name: &str| available.split_whitespace().any(|one| one == name);
    let others = default().ok().filter(|name| !mine.contains(name));
    let cubic = || is_there("cubic").then(|| "cubic".to_owned());
    others.or_else(cubic).unwrap_or_else(|| ALWAYS.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_namespace_is_among_all() {
        let own = fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
        let found = all();
        let inodes: HashSet<_> = found.iter().map(|one| one.file.metadata().unwrap().ino()).collect();
        assert!(inodes.contains(&own));
        assert_eq!(inodes.len(), found.len());
    }
}
