//! One copy of the BPF programs: opened, fitted to the running kernel, loaded, registered.

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use ccp_load::{bug, set_constants};
use libbpf_rs::btf::Btf;
use libbpf_rs::{AsRawLibbpf, MapCore, MapFlags, Object, OpenObject, OpenProgram};

use crate::kernel::{Kernel, offset_of, open_pin};
use crate::pins::Pins;
use crate::{Error, Result};

/// The programs that take `cong_control`'s arguments, in either signature.
const SINCE_6_10: [&str; 2] = ["ccp_cong_control", "ccp_finish_on_ack"];
const BEFORE_6_10: [&str; 2] = ["ccp_cong_control_6_9", "ccp_finish_on_ack_6_9"];

static OBJECT: &[u8] = include_bytes!(env!("CCP_BPF_OBJECT"));
const OPS: &str = "tcp_congestion_ops___ccp";
/// `BPF_F_LINK`: a `struct_ops` map that is registered by creating a link.
const BPF_F_LINK: u32 = 1 << 13;
const TCP_CONG_NON_RESTRICTED: u32 = 1;
const TCP_CONG_NEEDS_ECN: u32 = 2;

/// Sizes of the shared maps, fixed at creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub max_flows: u32,
    pub ring_bytes: u32,
}

/// A copy's registered name and its properties.
#[derive(Clone, Debug)]
pub(crate) struct Registration<'a> {
    pub cc_name: &'a str,
    pub cc_id: u32,
    pub needs_ecn: bool,
    /// Number of this copy of the programs, see `bpf/leave.h`.
    pub load: u32,
}

impl Registration<'_> {
    fn padded_name(&self) -> [u8; crate::intf::CCP_NAME_LEN as usize] {
        let mut name = [0; crate::intf::CCP_NAME_LEN as usize];
        name[..self.cc_name.len()].copy_from_slice(self.cc_name.as_bytes());
        name
    }
}

/// Members of `tcp_congestion_ops` that some supported kernels lack.
const NOT_EVERYWHERE: [&str; 2] = ["cwnd_event", "cwnd_event_tx_start"];

pub(crate) fn load_error(e: &libbpf_rs::Error) -> Error {
    let error = Error::new("load.refused", "the kernel rejected the eBPF datapath").why(format!("{e:#}"));
    match e.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            error.fix("run as root or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (see ccp doctor)")
        }
        _ => error.fix(
            "run with CCP_LIBBPF_LOG=1 to see the verifier's log, and ccp doctor for missing requirements",
        ),
    }
}

/// The `struct_ops` map's initial value, which libbpf keeps writable until load.
struct Shadow<'a> {
    btf: &'a Btf<'a>,
    bytes: &'a mut [u8],
}

impl Shadow<'_> {
    fn put(&mut self, member: &str, value: &[u8]) -> Result<()> {
        let at = offset_of(self.btf, OPS, &[member]).ok_or_else(|| bug(member))? as usize;
        self.bytes.get_mut(at..at + value.len()).ok_or_else(|| bug(member))?.copy_from_slice(value);
        Ok(())
    }

    fn put_program(&mut self, member: &str, program: *const c_void) -> Result<()> {
        self.put(member, &(program as usize).to_ne_bytes())
    }

    fn empty_where_missing(&mut self, kernel: &Kernel) -> Result<()> {
        for member in NOT_EVERYWHERE.iter().filter(|member| !kernel.has_member(member)) {
            self.put_program(member, std::ptr::null())?;
        }
        Ok(())
    }
}

fn program_pointer(object: &OpenObject, name: &str) -> Result<*const c_void> {
    object
        .progs()
        .find(|p| p.name() == name)
        .map(|p| p.as_libbpf_object().as_ptr().cast_const().cast())
        .ok_or_else(|| bug(name))
}

/// Selects the program that this kernel accepts for each hook; hooks that the kernel lacks stay empty.
fn fit(object: &mut OpenObject, kernel: &Kernel, registration: &Registration<'_>) -> Result<()> {
    let [fitting, other] =
        if kernel.cong_control_has_flag { [SINCE_6_10, BEFORE_6_10] } else { [BEFORE_6_10, SINCE_6_10] };
    for mut program in object.progs_mut().filter(|p| other.contains(&p.name().to_str().unwrap_or_default())) {
        program.set_autoload(false);
    }
    let [control, finish] = fitting.map(Some);
    let mut flags = TCP_CONG_NON_RESTRICTED;
    if registration.needs_ecn {
        flags |= TCP_CONG_NEEDS_ECN;
    }
    let cc_name = registration.padded_name();
    let reported = [("name", &cc_name[..]), ("flags", &flags.to_ne_bytes())];
    // Kernels whose cong_control gets the ACK's flags need no other hook for them.
    let hooks = [("cong_control", control), ("in_ack_event", None)];
    let hooks = if kernel.cong_control_has_flag { &hooks[..] } else { &hooks[..1] };
    fit_members(object, kernel, "ccp", hooks, &reported)?;
    fit_members(object, kernel, "ccp_finish", &[("cong_control", finish)], &[])
}

/// Pins shared maps by name: the first copy creates them, later copies use them.
pub(crate) fn share_maps(object: &mut OpenObject, pins: &Pins, sizes: Sizes) -> Result<()> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if !Pins::core_maps().any(|shared| shared == name) {
            continue;
        }
        let entries = match name.as_str() {
            "flows" | "free_slots" => Some(sizes.max_flows),
            "holders" => Some(2 * sizes.max_flows), // a flow has a user and a cgroup
            "records" => Some(sizes.ring_bytes),
            _ => None,
        };
        if let Some(entries) = entries {
            map.set_max_entries(entries).map_err(|e| load_error(&e))?;
        }
        map.set_pin_path(pins.map(&name)).map_err(|e| load_error(&e))?;
    }
    Ok(())
}

pub(crate) fn open(object: &[u8]) -> Result<OpenObject> {
    ccp_load::open(object).map_err(|e| load_error(&e))
}

/// A loaded copy of the programs, not registered yet. Its maps are pinned.
pub(crate) struct Loaded {
    object: Object,
}

/// Loads a copy of the programs. The first copy creates the shared maps.
pub(crate) fn load(
    kernel: &Kernel,
    pins: &Pins,
    sizes: Sizes,
    registration: &Registration<'_>,
) -> Result<Loaded> {
    let mut open = open(OBJECT)?;
    share_maps(&mut open, pins, sizes)?;
    let cubic = &kernel.cubic;
    let constants: [(&str, &[u8]); 7] = [
        ("cc_id", &registration.cc_id.to_ne_bytes()),
        ("cc_name", &registration.padded_name()),
        ("load", &registration.load.to_ne_bytes()),
        ("needs_ecn", &[u8::from(registration.needs_ecn)]),
        ("have_cubic", &[u8::from(cubic.any)]),
        ("have_cubic_cwnd_event", &[u8::from(cubic.cwnd_event)]),
        ("have_cubic_tx_start", &[u8::from(cubic.tx_start)]),
    ];
    set_constants(&mut open, &constants)?;
    fit(&mut open, kernel, registration)?;
    Ok(Loaded { object: open.load().map_err(|e| load_error(&e))? })
}

/// Fits a `struct_ops` map: members that this kernel lacks stay empty, others get a program, none, or a value.
pub(crate) fn fit_members(
    object: &mut OpenObject,
    kernel: &Kernel,
    ops: &str,
    programs: &[(&str, Option<&str>)],
    values: &[(&str, &[u8])],
) -> Result<()> {
    // SAFETY: the BTF lives as long as the object, which outlives this function.
    let raw = unsafe { object.as_libbpf_object().as_ref() };
    let btf = Btf::from_bpf_object(raw).ok().flatten().ok_or_else(|| bug("BTF"))?;
    let pointer = |program: &Option<&str>| match program {
        Some(name) => program_pointer(object, name),
        None => Ok(std::ptr::null()),
    };
    let pointers: Vec<_> = programs.iter().map(|(_, program)| pointer(program)).collect::<Result<_>>()?;
    let mut map = object.maps_mut().find(|map| map.name() == ops).ok_or_else(|| bug(ops))?;
    if !kernel.has_struct_ops_link {
        let flags = map.map_flags() & !BPF_F_LINK;
        map.set_map_flags(flags).map_err(|e| load_error(&e))?;
    }
    let mut shadow = Shadow { btf: &btf, bytes: map.initial_value_mut().ok_or_else(|| bug(ops))? };
    shadow.empty_where_missing(kernel)?;
    for ((member, _), pointer) in programs.iter().zip(pointers) {
        shadow.put_program(member, pointer)?;
    }
    for (member, value) in values {
        shadow.put(member, value)?;
    }
    Ok(())
}

/// The program of a `struct_ops` map for a member.
pub(crate) fn program_of(object: &mut OpenObject, ops: &str, member: &str) -> Result<Option<String>> {
    let pointer = usize::from_ne_bytes(value_of(object, ops, member)?);
    let at = |program: &OpenProgram<'_>| program.as_libbpf_object().as_ptr() as usize;
    let found = object.progs().find(|program| at(program) == pointer);
    Ok(found.map(|program| program.name().to_string_lossy().into_owned()))
}

/// Name and flags in a `struct_ops` map.
pub(crate) fn name_and_flags(object: &mut OpenObject, ops: &str) -> Result<(String, u32)> {
    let name: [u8; crate::intf::CCP_NAME_LEN as usize] = value_of(object, ops, "name")?;
    let name = name.into_iter().take_while(|c| *c != 0).collect::<Vec<_>>();
    let flags = u32::from_ne_bytes(value_of(object, ops, "flags")?);
    Ok((String::from_utf8_lossy(&name).into_owned(), flags))
}

fn value_of<const BYTES: usize>(object: &mut OpenObject, ops: &str, member: &str) -> Result<[u8; BYTES]> {
    // SAFETY: as in fit_members().
    let raw = unsafe { object.as_libbpf_object().as_ref() };
    let btf = Btf::from_bpf_object(raw).ok().flatten().ok_or_else(|| bug("BTF"))?;
    let at = offset_of(&btf, OPS, &[member]).ok_or_else(|| bug(member))? as usize;
    let map = object.maps().find(|map| map.name() == ops).ok_or_else(|| bug(ops))?;
    let value = map.initial_value().and_then(|value| value.get(at..at + BYTES)).ok_or_else(|| bug(member))?;
    value.try_into().map_err(|_| bug(member))
}

pub(crate) fn program_fd(object: &Object, name: &str) -> Result<u32> {
    let found = object.progs().find(|p| p.name() == name);
    found.map(|p| p.as_fd().as_raw_fd() as u32).ok_or_else(|| bug(name))
}

impl Loaded {
    /// Registers the congestion control, replacing the programs registered under the name without a gap
    /// (except before 6.4). The registration persists in its pin.
    pub fn register(mut self, kernel: &Kernel, pins: &Pins, cc_name: &str) -> Result<()> {
        self.finish_folds(kernel)?;
        self.attach(kernel, pins, cc_name)
    }

    /// As `register`, but folds continue in the other programs.
    pub fn attach(&mut self, kernel: &Kernel, pins: &Pins, cc_name: &str) -> Result<()> {
        let pin = pins.registration(cc_name);
        if !kernel.has_struct_ops_link {
            // Fails if there was no registration.
            let _ = pins.unregister(cc_name);
        }
        let mut ops = self.object.maps_mut().find(|m| m.name() == "ccp").ok_or_else(|| bug("ccp"))?;
        let mut link = match ops.attach_struct_ops() {
            Ok(link) => link,
            // libbpf has prepared the programs before the kernel found the name taken, so they can replace
            // the old ones.
            Err(e) if e.kind() == libbpf_rs::ErrorKind::AlreadyExists && pin.exists() => {
                return replace(&pin, ops.as_fd().as_raw_fd()).map_err(|_| register_error(cc_name, &e));
            }
            Err(e) => return Err(register_error(cc_name, &e)),
        };
        let _ = std::fs::remove_file(&pin); // of a stale registration
        let pinned = if kernel.has_struct_ops_link { link.pin(&pin) } else { ops.pin(&pin) };
        // On an error the link is dropped, which undoes the registration.
        pinned.map_err(|e| pin_error(&pin, &e))?;
        link.disconnect();
        Ok(())
    }

    /// Makes folds continue in these programs.
    pub fn finish_folds(&self, kernel: &Kernel) -> Result<()> {
        let [_, on_ack] = if kernel.cong_control_has_flag { SINCE_6_10 } else { BEFORE_6_10 };
        for (table, program) in [("finish_on_ack", on_ack), ("finish_on_timeout", "ccp_finish_on_timeout")] {
            let fd = program_fd(&self.object, program)?;
            let map = self.object.maps().find(|m| m.name() == table).ok_or_else(|| bug(table))?;
            map.update(&0u32.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY).map_err(|e| load_error(&e))?;
        }
        Ok(())
    }
}

/// Replaces the programs of a pinned registration.
fn replace(pin: &Path, ops: i32) -> std::io::Result<()> {
    let link = open_pin(pin)?;
    // SAFETY: two valid descriptors, and no options.
    let done = unsafe { libbpf_sys::bpf_link_update(link.as_raw_fd(), ops, std::ptr::null()) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(-done)) }
}

fn not_registered(cc_name: &str) -> Error {
    Error::new("load.register", format!("cannot register the congestion control `{cc_name}`"))
}

pub(crate) fn register_error(cc_name: &str, e: &libbpf_rs::Error) -> Error {
    match e.kind() {
        libbpf_rs::ErrorKind::AlreadyExists => taken(cc_name),
        _ => not_registered(cc_name).why(format!("{e:#}")).fix("see ccp doctor"),
    }
}

pub(crate) fn taken(cc_name: &str) -> Error {
    not_registered(cc_name)
        .why("a congestion control of this name is already registered, but not by ccplane in this pin directory")
        .fix("if `ccp run` registered it, run `ccp stop` and `ccp unload` with its --pin-dir; otherwise find it with `bpftool struct_ops list`")
}

fn pin_error(path: &Path, e: &libbpf_rs::Error) -> Error {
    Error::new("load.pin", "cannot pin the datapath")
        .at(path.display().to_string())
        .why(format!("{e:#}"))
        .fix("mount a BPF file system there: mount -t bpf bpf /sys/fs/bpf")
}
