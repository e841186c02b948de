//! The network namespaces of this machine, and work inside them.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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

/// Opens a thread's namespace: its link in `/proc` leads nowhere else.
fn open_link(place: &Path) -> io::Result<File> {
    File::open(place)
}

/// Opens a mounted network namespace, and nothing else: any user can mount anything at a path, and an ordinary open
/// waits for a FIFO's writer and acts on devices.
fn open_mounted(place: &Path) -> io::Result<File> {
    let is_namespace = |file: &File| {
        // SAFETY: all zeros are a valid value.
        let mut about: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: a valid descriptor and a valid pointer.
        let done = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut about) };
        done == 0 && about.f_type == libc::NSFS_MAGIC
    };
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "not a network namespace");
    let path = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(place)?;
    if !is_namespace(&path) {
        return Err(other());
    }
    let file = File::open(format!("/proc/self/fd/{}", path.as_raw_fd()))?;
    // SAFETY: a valid descriptor of the file system that has this request.
    let kind = unsafe { libc::ioctl(file.as_raw_fd(), libc::NS_GET_NSTYPE) };
    if kind == libc::CLONE_NEWNET { Ok(file) } else { Err(other()) }
}

/// The namespaces of this machine, as far as they can be found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub namespaces: Vec<Namespace>,
    /// Number of processes whose namespaces this process may not open.
    pub hidden: usize,
}

/// All namespaces that can be found: those of threads, and those mounted in the mount namespace of a process.
/// One that only an open file holds cannot be found.
pub(crate) fn all() -> Found {
    let mut found = BTreeMap::new();
    let mut mounts = HashSet::new();
    let mut hidden = 0;
    let mut meet = |place: PathBuf, open: fn(&Path) -> io::Result<File>| match open(&place) {
        Ok(file) => {
            if let Ok(about) = file.metadata() {
                found.entry(about.ino()).or_insert(Namespace { place, file });
            }
            false
        }
        Err(e) => e.kind() == io::ErrorKind::PermissionDenied,
    };
    for place in mounted(Path::new("/proc/self")) {
        // The familiar name, without the detour through /proc.
        let name =
            place.strip_prefix("/proc/self/root").map_or(place.clone(), |path| Path::new("/").join(path));
        meet(name, open_mounted);
    }
    meet("/proc/self/ns/net".into(), open_link);
    for process in entries(Path::new("/proc")).filter(|path| is_number(path)) {
        if fs::metadata(process.join("ns/mnt")).is_ok_and(|mount| mounts.insert(mount.ino())) {
            mounted(&process).into_iter().for_each(|place| _ = meet(place, open_mounted));
        }
        let mut is_hidden = false;
        entries(&process.join("task")).for_each(|thread| is_hidden |= meet(thread.join("ns/net"), open_link));
        hidden += usize::from(is_hidden);
    }
    Found { namespaces: found.into_values().collect(), hidden }
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
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn our_own_namespace_is_among_all() {
        let own = fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
        let found = all().namespaces;
        let inodes: HashSet<_> = found.iter().map(|one| one.file.metadata().unwrap().ino()).collect();
        assert!(inodes.contains(&own));
        assert_eq!(inodes.len(), found.len());
    }

    /// A process with a mount namespace of its own in a directory of its own, until dropped.
    struct Elsewhere {
        process: Child,
        directory: TempDir,
    }

    impl Elsewhere {
        /// Runs shell commands as a user without rights would. None where users may not create namespaces.
        fn new(commands: &str) -> Option<Self> {
            let directory = tempfile::tempdir().unwrap();
            let script = format!("{commands}; echo ready; read end");
            let mut process = Command::new("unshare")
                .args(["--user", "--map-root-user", "--mount", "sh", "-ec", &script])
                .current_dir(&directory)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            let elsewhere = Elsewhere { process, directory };
            (line == "ready\n").then_some(elsewhere)
        }

        /// Namespaces found at its mounts.
        fn found(&self) -> Vec<PathBuf> {
            let mounted_here = |one: Namespace| {
                let name = one.place.file_name()?.to_owned();
                one.place
                    .parent()?
                    .ends_with(self.directory.path().strip_prefix("/").ok()?)
                    .then(|| name.into())
            };
            all().namespaces.into_iter().filter_map(mounted_here).collect()
        }
    }

    impl Drop for Elsewhere {
        fn drop(&mut self) {
            drop(self.process.stdin.take());
            let _ = self.process.wait();
        }
    }

    #[test]
    fn a_namespace_mounted_elsewhere_is_found() {
        let keep = "touch n; unshare --net sh -ec 'mount --bind /proc/self/ns/net n'";
        if let Some(elsewhere) = Elsewhere::new(keep) {
            assert_eq!(elsewhere.found(), [Path::new("n")]);
        }
    }

    /// Users can mount anything over a namespace. Opening a FIFO waits for its writer, opening a device acts.
    #[test]
    fn nothing_but_a_namespace_is_opened() {
        let hide = |other: &str| {
            format!("touch n; mount --bind /proc/self/ns/net n; mkfifo fifo; {other} mount --bind other n")
        };
        let others = [
            "ln fifo other;",
            "touch other; mount --bind /dev/zero other;",
            "touch other; mount --bind /proc/self/ns/uts other;",
        ];
        let made: Vec<_> = others.iter().filter_map(|other| Elsewhere::new(&hide(other))).collect();
        assert!(made.is_empty() || made.len() == others.len(), "a case cannot be made");
        for elsewhere in made {
            let seen = mounted(&Path::new("/proc").join(elsewhere.process.id().to_string()));
            assert!(seen.iter().any(|place| place.ends_with("n")), "{seen:?}");
            assert_eq!(elsewhere.found(), [] as [PathBuf; 0]);
        }
    }
}
