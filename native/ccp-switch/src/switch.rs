//! The programs, attached.

use std::fmt::Debug;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;

use ccp_trace::{Rows, load};
use libbpf_rs::{ErrorKind, Iter, Link, MapCore, MapFlags, Object, ProgramMut};

use crate::rule::{self, Rule};
use crate::shared::{switch_row, switch_table};
use crate::{Error, Result};

static OBJECT: &[u8] = include_bytes!(env!("CCP_SWITCH_OBJECT"));

/// Sockets are switched by programs of two kinds, attached. Dropping it takes them out of the kernel, and leaves the
/// sockets as they are.
pub struct Switch {
    // In this order: detached first, then the reader, then the maps.
    events: Option<Link>,
    sockets: Link,
    rows: Rows,
    object: Object,
    version: u32,
}

impl Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").finish_non_exhaustive()
    }
}

impl Switch {
    /// Loads and attaches the programs; new sockets are those of a cgroup (and those below it) in one namespace.
    ///
    /// # Errors
    ///
    /// `switch.no_cgroup`, `switch.not_permitted`, `switch.refused` or `trace.no_btf`.
    pub fn attach(cgroup: &Path, netns_cookie: u64) -> Result<Self> {
        let directory = File::open(cgroup).map_err(|e| no_cgroup(cgroup).why(e))?;
        let object = loaded(netns_cookie)?;
        let rows = Rows::of(&object, size_of::<switch_row>())?;
        let sockets = program(&object, "on_socket")?.attach().map_err(|e| refused(&e))?;
        let events =
            program(&object, "on_event")?.attach_cgroup(directory.as_raw_fd()).map_err(|e| {
                match e.kind() {
                    ErrorKind::PermissionDenied => refused(&e),
                    _ => no_cgroup(cgroup).why(format!("{e:#}")),
                }
            })?;
        Ok(Switch { events: Some(events), sockets, rows, object, version: 0 })
    }

    /// Shows the programs to the kernel, and attaches them to nothing.
    ///
    /// # Errors
    ///
    /// `switch.not_permitted`, `switch.refused` or `trace.no_btf`.
    pub fn try_load() -> Result<()> {
        loaded(0).map(drop)
    }

    /// What holds from now on for sockets that come, and for those that are there from the next [`Switch::pass`] on.
    /// Returns the version of the table, as rows say it.
    ///
    /// # Errors
    ///
    /// `switch.too_many`, `switch.bad_rule` or `switch.refused`.
    pub fn set_rules(&mut self, rules: &[Rule]) -> Result<u32> {
        let version = self.version.wrapping_add(1);
        self.write(&*rule::table(rules, version, false)?)?;
        self.version = version;
        Ok(version)
    }

    /// Goes over the sockets of the calling thread's namespace.
    ///
    /// # Errors
    ///
    /// `switch.refused`.
    pub fn pass(&self) -> Result<()> {
        let mut sockets = Iter::new(&self.sockets).map_err(|e| refused(&e))?;
        let mut nothing = [0; 64]; // the program writes nothing to whoever reads
        sockets.read(&mut nothing).map_err(|e| refused(&e.into()))?;
        Ok(())
    }

    /// Looks at no new sockets any more, and gives those of the calling thread's namespace back what they had.
    ///
    /// # Errors
    ///
    /// `switch.refused`.
    pub fn restore(&mut self) -> Result<()> {
        self.events = None;
        self.write(&*rule::table(&[], self.version, true)?)?;
        self.pass()
    }

    /// What happened to sockets since the last call, as the bytes of so many `switch_row`.
    ///
    /// # Errors
    ///
    /// `switch.refused`.
    pub fn drain(&self) -> Result<Vec<u8>> {
        self.rows.drain()
    }

    /// How many rows the ring refused because nobody drained it.
    ///
    /// # Errors
    ///
    /// `switch.refused`.
    pub fn dropped(&self) -> Result<u64> {
        load::dropped(&self.object)
    }

    fn write(&self, table: &switch_table) -> Result<()> {
        // SAFETY: plain integers, and the header has no gaps between them.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(table).cast::<u8>(), size_of::<switch_table>())
        };
        load::map(&self.object, "table")?.update(&[0; 4], bytes, MapFlags::ANY).map_err(|e| refused(&e))
    }
}

fn loaded(netns_cookie: u64) -> Result<Object> {
    load::kernel_types()?;
    let mut open = load::open(OBJECT)?;
    load::set_constants(&mut open, &netns_cookie.to_ne_bytes())?;
    open.load().map_err(|e| refused(&e))
}

fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>> {
    object.progs_mut().find(|p| p.name() == name).ok_or_else(|| load::bug(name))
}

fn no_cgroup(path: &Path) -> Error {
    Error::new("switch.no_cgroup", "new sockets cannot be seen through this cgroup")
        .at(path.display().to_string())
        .fix("name a directory of a cgroup v2 hierarchy; `mount -t cgroup2` shows where there is one")
}

fn refused(e: &libbpf_rs::Error) -> Error {
    let why = format!("{e:#}");
    if load::lacks_rights(e) {
        return Error::new("switch.not_permitted", "switching sockets is not permitted")
            .why(why)
            .fix("run as root, or give the process CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN");
    }
    Error::new("switch.refused", "the kernel refused the program that switches sockets")
        .why(why)
        .fix("use Linux 6.1 or newer; CCP_LIBBPF_LOG=1 shows the verifier's log")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_the_kernel_refuses_is_told_apart() {
        let slug = |number| refused(&io::Error::from_raw_os_error(number).into()).slug;
        assert_eq!(
            [slug(1), slug(13), slug(22)],
            ["switch.not_permitted", "switch.refused", "switch.refused"]
        );
        assert_eq!(no_cgroup(Path::new("/nowhere")).place, "/nowhere");
    }
}
