//! Capabilities of this machine: the checks behind `ccp doctor`.

use std::fs;
use std::path::Path;

use caps::{CapSet, Capability};

use crate::kernel::{Kernel, release, release_at_least};
use crate::{Error, Result};

#[derive(Clone, Debug)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    /// Whether the datapath cannot load without it.
    pub required: bool,
    pub detail: String,
    pub fix: &'static str,
}

/// Capabilities that the agent keeps after loading.
const KEPT: [Capability; 3] = [Capability::CAP_BPF, Capability::CAP_NET_ADMIN, Capability::CAP_PERFMON];

fn has(capability: Capability) -> bool {
    caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false)
}

fn kernel_symbol(name: &str) -> bool {
    fs::read_to_string("/proc/kallsyms")
        .is_ok_and(|text| text.lines().any(|line| line.split_whitespace().nth(2) == Some(name)))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map(|s| s.trim().to_owned()).unwrap_or_default()
}

pub fn probe() -> Vec<Check> {
    let check = |name, ok, required, detail: String, fix| Check { name, ok, required, detail, fix };
    let missing: Vec<String> = KEPT.iter().filter(|c| !has(**c)).map(ToString::to_string).collect();
    let kernel = Kernel::read();
    let jit = read("/proc/sys/net/core/bpf_jit_enable");
    let cubic = kernel_symbol("cubictcp_cong_avoid");
    let mut checks = vec![
        check(
            "kernel",
            release_at_least(6, 1),
            true,
            format!("Linux {}", release()),
            "use Linux 6.1 or newer",
        ),
        check(
            "capabilities",
            missing.is_empty(),
            true,
            if missing.is_empty() {
                "BPF, NET_ADMIN, PERFMON".into()
            } else {
                format!("missing {}", missing.join(", "))
            },
            "run as root, or give the process CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
        ),
        check(
            "btf",
            Path::new("/sys/kernel/btf/vmlinux").exists(),
            true,
            "/sys/kernel/btf/vmlinux".into(),
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y",
        ),
    ];
    match &kernel {
        Ok(kernel) => {
            checks.push(check(
                "struct_ops",
                true,
                true,
                format!(
                    "cong_control{}",
                    if kernel.cong_control_has_flag { "(sk, ack, flag, rs)" } else { "(sk, rs)" }
                ),
                "",
            ));
            checks.push(check(
                "struct_ops links",
                kernel.has_struct_ops_link,
                false,
                if kernel.has_struct_ops_link { "pinned links" } else { "pinned maps (before 6.4)" }.into(),
                "nothing to do: registration also works without links",
            ));
        }
        Err(e) => checks.push(check(
            "struct_ops",
            false,
            true,
            format!("{}: {}", e.message, e.why),
            "use Linux 6.1 or newer with CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT and BTF",
        )),
    }
    checks.extend([
        check(
            "jit",
            jit != "0",
            true,
            format!("net.core.bpf_jit_enable = {}", if jit.is_empty() { "?" } else { &jit }),
            "sysctl net.core.bpf_jit_enable=1 (struct_ops needs the JIT)",
        ),
        check(
            "bpffs",
            fs::read_to_string("/proc/self/mounts")
                .is_ok_and(|m| m.lines().any(|l| l.split_whitespace().nth(2) == Some("bpf"))),
            false,
            "/sys/fs/bpf".into(),
            "mount -t bpf bpf /sys/fs/bpf (an agent run as root does this itself)",
        ),
        check(
            "fallback",
            cubic,
            false,
            if cubic { "kernel CUBIC" } else { "Reno: the kernel's CUBIC is not available" }.into(),
            "modprobe tcp_cubic",
        ),
    ]);
    checks
}

/// Programs run as root get no capabilities for it, and that is locked.
const SECURE_BITS: libc::c_int = libc::SECBIT_NOROOT
    | libc::SECBIT_NOROOT_LOCKED
    | libc::SECBIT_NO_SETUID_FIXUP
    | libc::SECBIT_NO_SETUID_FIXUP_LOCKED
    | libc::SECBIT_NO_CAP_AMBIENT_RAISE
    | libc::SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

/// Prevents the calling thread and its children from gaining capabilities.
fn gain_no_more() -> std::io::Result<()> {
    let set = |option, value: libc::c_int| {
        // SAFETY: these options take numbers only.
        let done = unsafe { libc::prctl(option, libc::c_ulong::from(value as u32), 0, 0, 0) };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    if has(Capability::CAP_SETPCAP) {
        caps::clear(None, CapSet::Bounding).map_err(std::io::Error::other)?;
        set(libc::PR_SET_SECUREBITS, SECURE_BITS)?;
    }
    set(libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// Drops every capability of the calling thread except those named, or those that the running agent needs,
/// and the ways to regain one: child programs have none. Returns the names of those kept.
pub fn drop_capabilities(keep: Option<&[String]>) -> Result<Vec<String>> {
    let failed = |e: caps::errors::CapsError| {
        Error::new("load.capabilities", "cannot drop capabilities")
            .why(e)
            .fix("run with --keep-capabilities, or not as root")
    };
    let wanted = match keep {
        None => KEPT.to_vec(),
        Some(names) => {
            names.iter().map(|n| n.parse()).collect::<std::result::Result<_, _>>().map_err(failed)?
        }
    };
    gain_no_more().map_err(|e| {
        Error::new("load.capabilities", "cannot make the loss of capabilities permanent")
            .why(e)
            .fix("run with --keep-capabilities, or not as root")
    })?;
    let permitted = caps::read(None, CapSet::Permitted).map_err(failed)?;
    let kept: caps::CapsHashSet = wanted.into_iter().filter(|c| permitted.contains(c)).collect();
    caps::clear(None, CapSet::Ambient).map_err(failed)?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed)?;
    caps::set(None, CapSet::Inheritable, &caps::CapsHashSet::new()).map_err(failed)?;
    let mut names: Vec<_> = kept.iter().map(ToString::to_string).collect();
    names.sort();
    Ok(names)
}
