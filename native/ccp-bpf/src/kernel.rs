//! Properties of the running kernel, read from its BTF.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use libbpf_rs::ReferencesType;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, BtfType};

use crate::{Error, Result};

/// Available functions of the kernel's CUBIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cubic {
    pub any: bool,
    pub cwnd_event: bool,
    pub tx_start: bool,
}

/// Properties that decide which programs fit, and where fold programs find their flow.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub ops_type_id: u32,
    pub members: Vec<String>,
    /// Whether `cong_control` takes `(sk, ack, flag, rs)` (since 6.10) and not `(sk, rs)`.
    pub cong_control_has_flag: bool,
    /// Whether `struct_ops` are registered through links (since 6.4).
    pub has_struct_ops_link: bool,
    /// Functions of the kernel's CUBIC that the fallback can call.
    pub cubic: Cubic,
}

fn need<T>(found: Option<T>, what: &str) -> Result<T> {
    found.ok_or_else(|| {
        Error::new("load.no_struct_ops", "this kernel cannot run eBPF congestion control")
            .why(format!("the kernel's BTF has no {what}"))
            .fix("use Linux 6.1 or newer with CONFIG_BPF_JIT, CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF")
    })
}

fn has_function(btf: &Btf<'_>, name: &str) -> bool {
    btf.type_by_name::<Func<'_>>(name).is_some()
}

/// Byte offset of a member of a struct; the path of names may lead through embedded structs.
pub(crate) fn offset_of(btf: &Btf<'_>, name: &str, path: &[&str]) -> Option<u32> {
    let mut current: BtfType<'_> = *btf.type_by_name::<Struct<'_>>(name)?;
    let mut bytes = 0;
    for step in path {
        let holder = Struct::try_from(current).ok()?;
        let member = holder.iter().find(|m| m.name.is_some_and(|n| n == *step))?;
        let libbpf_rs::btf::types::MemberAttr::Normal { offset } = member.attr else {
            return None;
        };
        bytes += offset / 8;
        current = btf.type_by_id::<BtfType<'_>>(member.ty)?.skip_mods_and_typedefs();
    }
    Some(bytes)
}

impl Kernel {
    pub fn read() -> Result<Self> {
        let btf = ccp_load::kernel_types()?;
        need(
            btf.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops"),
            "bpf_struct_ops_tcp_congestion_ops",
        )?;
        let ops = need(btf.type_by_name::<Struct<'_>>("tcp_congestion_ops"), "struct tcp_congestion_ops")?;
        let members = ops
            .iter()
            .map(|m| m.name.map_or_else(String::new, |n| n.to_string_lossy().into_owned()))
            .collect::<Vec<_>>();
        let control = need(ops.iter().find(|m| m.name.is_some_and(|n| n == "cong_control")), "cong_control")?;
        let pointer = need(btf.type_by_id::<Ptr<'_>>(control.ty), "cong_control as a pointer")?;
        let proto = need(FuncProto::try_from(pointer.referenced_type()).ok(), "cong_control's prototype")?;
        Ok(Kernel {
            ops_type_id: ops.type_id().into(),
            members,
            cong_control_has_flag: proto.iter().count() == 4,
            has_struct_ops_link: release_at_least(6, 4),
            cubic: Cubic {
                any: has_function(&btf, "cubictcp_init"),
                cwnd_event: has_function(&btf, "cubictcp_cwnd_event"),
                tx_start: has_function(&btf, "cubictcp_cwnd_event_tx_start"),
            },
        })
    }

    /// Index of a member of `struct tcp_congestion_ops`, for `expected_attach_type`.
    pub fn member(&self, name: &str) -> Result<u32> {
        need(self.members.iter().position(|m| m == name), name).map(|i| i as u32)
    }

    /// Whether the kernel has this hook.
    pub fn has_member(&self, name: &str) -> bool {
        self.members.iter().any(|m| m == name)
    }
}

/// `uname -r`.
pub(crate) fn release() -> String {
    // SAFETY: utsname is plain bytes; uname fills it or fails, and then it stays zeroed.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return String::new();
    }
    // SAFETY: uname ends the string with a zero.
    unsafe { CStr::from_ptr(names.release.as_ptr()) }.to_string_lossy().into_owned()
}

/// `struct_ops` links left no trace in BTF that older kernels lack, so the version decides.
pub(crate) fn release_at_least(major: u32, minor: u32) -> bool {
    let release = release();
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|p| p.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor)
}

/// Opens a pinned map or link.
pub(crate) fn open_pin(path: &std::path::Path) -> std::io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: the path is a valid C string; the returned descriptor has no other owner.
    let fd = unsafe { libbpf_sys::bpf_obj_get(name.as_ptr()) };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: just checked.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
