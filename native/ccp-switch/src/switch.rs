//! The programs, attached.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ccp_load as load;
use ccp_trace::Rows;
use libbpf_rs::{ErrorKind, Iter, Link, MapCore, MapFlags, Object, OpenObject, ProgramMut};

use crate::rule::{self, Rule};
use crate::shared::{SWITCH_GOING_ON, SWITCH_LEAVING, SWITCH_PINNED_VERSION, SWITCH_RESTORING};
use crate::shared::{switch_config, switch_row, switch_table};
use crate::{Error, Result};

static OBJECT: &[u8] = include_bytes!(env!("CCP_SWITCH_OBJECT"));

/// Pins of what outlives this process; the version of the layout is appended.
const PINS: &str = "/sys/fs/bpf/ccplane-regime";

/// Pinned maps: the state of sockets, and until when they stay switched.
const PINNED: [&str; 2] = ["sockets", "leases"];

/// The attached programs. Dropping it detaches them, and leaves the sockets as they are: a pinned third
/// program resets them once the lease has expired.
pub struct Switch {
    // In this order: detached first, then the reader, then the maps.
    events: Option<Link>,
    sockets: Link,
    rows: Rows,
    object: Object,
    version: u32,
    owner: u64,
}

impl Switch {
    /// Loads and attaches the programs, for new sockets of a cgroup and its descendants in one namespace.
    /// There is no lease before [`Switch::renew`]. Errors: `switch.no_cgroup`, `switch.no_bpffs`,
    /// `switch.not_permitted`, `switch.refused` or `load.no_btf`.
    pub fn attach(cgroup: &Path, netns_cookie: u64) -> Result<Self> {
        let directory = File::open(cgroup).map_err(|e| no_cgroup(cgroup).why(e))?;
        let owner = SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
        let mut open = opened(netns_cookie, owner)?;
        pin_maps(&mut open)?;
        let object = open.load().map_err(|e| refused(&e))?;
        forget_dead(&object)?;
        let rows = Rows::of(&object, size_of::<switch_row>())?;
        let sockets = program(&object, "on_socket")?.attach().map_err(|e| refused(&e))?;
        let attached = |name| {
            program(&object, name)?.attach_cgroup(directory.as_raw_fd()).map_err(|e| match e.kind() {
                ErrorKind::PermissionDenied => refused(&e),
                _ => no_cgroup(cgroup).why(format!("{e:#}")),
            })
        };
        let id = directory.metadata().map_err(|e| no_cgroup(cgroup).why(e))?.ino();
        let guard = pins().join(format!("on_rtt-{id}"));
        if !guard.exists() {
            attached("on_rtt")?.pin(&guard).map_err(|e| unpinnable(&e))?;
        }
        let events = attached("on_event")?;
        Ok(Switch { events: Some(events), sockets, rows, object, version: 0, owner })
    }

    /// Loads the programs without attaching them. Errors: `switch.not_permitted`, `switch.refused` or `load.no_btf`.
    pub fn try_load() -> Result<()> {
        opened(0, 0)?.load().map(drop).map_err(|e| refused(&e))
    }

    /// Sets the rules, for new sockets at once, for existing ones at the next [`Switch::pass`]. Returns the
    /// table's version, as in rows. Errors: `switch.too_many`, `switch.bad_rule` or `switch.refused`.
    pub fn set_rules(&mut self, rules: &[Rule]) -> Result<u32> {
        let version = self.version.wrapping_add(1);
        self.write(&*rule::table(rules, version, SWITCH_GOING_ON)?)?;
        self.version = version;
        Ok(version)
    }

    /// Visits the sockets of the calling thread's namespace. Errors: `switch.refused`.
    pub fn pass(&self) -> Result<()> {
        let mut sockets = Iter::new(&self.sockets).map_err(|e| refused(&e))?;
        let mut nothing = [0; 64]; // the program outputs nothing
        sockets.read(&mut nothing).map_err(|e| refused(&e.into()))?;
        Ok(())
    }

    /// Stops watching new sockets, and resets those of the calling thread's namespace. Errors: `switch.refused`.
    pub fn restore(&mut self) -> Result<()> {
        self.end(SWITCH_RESTORING)
    }

    /// Stops watching new sockets; those of the calling thread's namespace stay switched. Errors: `switch.refused`.
    pub fn leave(&mut self) -> Result<()> {
        self.end(SWITCH_LEAVING)
    }

    fn end(&mut self, ending: u32) -> Result<()> {
        self.events = None;
        self.write(&*rule::table(&[], self.version, ending)?)?;
        self.pass()?;
        let leases = load::map(&self.object, "leases")?;
        match leases.delete(&self.owner.to_ne_bytes()) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(refused(&e)),
            _ => Ok(()),
        }
    }

    /// Sets until when our sockets stay switched if this process dies [ns of the kernel's clock]. Errors:
    /// `switch.refused`.
    pub fn renew(&self, until_ns: u64) -> Result<()> {
        let leases = load::map(&self.object, "leases")?;
        leases
            .update(&self.owner.to_ne_bytes(), &until_ns.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| refused(&e))
    }

    /// Events of sockets since the last call, as an array of `switch_row`. Errors: `switch.refused`.
    pub fn drain(&self) -> Result<Vec<u8>> {
        self.rows.drain()
    }

    /// Number of rows lost because the ring was full. Errors: `switch.refused`.
    pub fn dropped(&self) -> Result<u64> {
        ccp_trace::dropped(&self.object)
    }

    fn write(&self, table: &switch_table) -> Result<()> {
        // SAFETY: plain integers; the header has no gaps.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(table).cast::<u8>(), size_of::<switch_table>())
        };
        load::map(&self.object, "table")?.update(&[0; 4], bytes, MapFlags::ANY).map_err(|e| refused(&e))
    }
}

fn opened(netns_cookie: u64, owner: u64) -> Result<OpenObject> {
    load::kernel_types()?;
    let mut open = load::open(OBJECT).map_err(|e| refused(&e))?;
    let switch_config { netns_cookie, owner } = switch_config { netns_cookie, owner };
    let config = [netns_cookie.to_ne_bytes(), owner.to_ne_bytes()].concat();
    load::set_constants(&mut open, &[("config", &config)])?;
    Ok(open)
}

fn pins() -> PathBuf {
    PathBuf::from(format!("{PINS}-{SWITCH_PINNED_VERSION}"))
}

/// Uses pinned maps again, and pins missing ones.
fn pin_maps(open: &mut OpenObject) -> Result<()> {
    let place = pins();
    fs::create_dir_all(&place).map_err(|e| unpinnable(&e.into()))?;
    for mut map in open.maps_mut() {
        if let Some(name) = PINNED.iter().find(|name| map.name() == **name) {
            map.set_pin_path(place.join(name)).map_err(|e| unpinnable(&e))?;
        }
    }
    Ok(())
}

fn forget_dead(object: &Object) -> Result<()> {
    let now_ns = load::clock::now_ns();
    let leases = load::map(object, "leases")?;
    for owner in leases.keys() {
        let until = leases.lookup(&owner, MapFlags::ANY).map_err(|e| refused(&e))?;
        let until_ns = until.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
        if until_ns <= now_ns {
            let _ = leases.delete(&owner); // may be gone already
        }
    }
    Ok(())
}

fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>> {
    object.progs_mut().find(|p| p.name() == name).ok_or_else(|| load::bug(name))
}

fn no_cgroup(path: &Path) -> Error {
    Error::new("switch.no_cgroup", "cannot attach to this cgroup to see new sockets")
        .at(path.display().to_string())
        .fix("use a directory of a cgroup v2 hierarchy; `mount -t cgroup2` lists them")
}

fn unpinnable(e: &libbpf_rs::Error) -> Error {
    if load::lacks_rights(e) {
        return refused(e);
    }
    Error::new("switch.no_bpffs", "cannot pin the program that resets sockets after a crash")
        .at(pins().display().to_string())
        .why(format!("{e:#}"))
        .fix("mount the BPF file system: mount -t bpf bpf /sys/fs/bpf")
}

fn refused(e: &libbpf_rs::Error) -> Error {
    let why = format!("{e:#}");
    if load::lacks_rights(e) {
        return Error::new("switch.not_permitted", "switching sockets is not permitted")
            .why(why)
            .fix("run as root, or give the process CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN");
    }
    Error::new("switch.refused", "the kernel rejected the program that switches sockets")
        .why(why)
        .fix("use Linux 6.1 or newer; CCP_LIBBPF_LOG=1 shows the verifier's log")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_the_kernel_refuses_is_reported_apart() {
        let slug = |number| refused(&io::Error::from_raw_os_error(number).into()).slug;
        assert_eq!(
            [slug(1), slug(13), slug(22)],
            ["switch.not_permitted", "switch.refused", "switch.refused"]
        );
        let no_place = unpinnable(&io::Error::from_raw_os_error(2).into());
        assert_eq!(
            (no_place.slug, no_place.place.as_str()),
            ("switch.no_bpffs", "/sys/fs/bpf/ccplane-regime-1")
        );
        assert_eq!(unpinnable(&io::Error::from_raw_os_error(1).into()).slug, "switch.not_permitted");
        assert_eq!(no_cgroup(Path::new("/nowhere")).place, "/nowhere");
    }
}
