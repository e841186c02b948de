//! Where sockets are: in directories in which no other user can replace them.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const WRITABLE_BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Returns a socket's path without symbolic links in its directory. Error: another user could replace the socket, because
/// the directory or one above it belongs to that user, or is writable by all. A sticky directory above, such as /tmp, is
/// allowed.
pub(crate) fn checked(socket: &Path) -> io::Result<PathBuf> {
    // SAFETY: a plain system call.
    let user = unsafe { libc::geteuid() };
    let name = socket.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let parent = socket.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = parent.canonicalize()?;
    for place in directory.ancestors() {
        let found = std::fs::symlink_metadata(place)?;
        let shared_safely = place != directory && found.mode() & STICKY != 0;
        let why = if ![user, 0].contains(&found.uid()) {
            format!("it belongs to another user ({})", found.uid())
        } else if found.mode() & WRITABLE_BY_ALL != 0 && !shared_safely {
            "another user can write it".to_string()
        } else {
            continue;
        };
        let place = place.display();
        let message = format!("the socket could be replaced through the directory {place}: {why}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(directory.join(name))
}
