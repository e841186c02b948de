//! Loading of tracing programs.

use ccp_load::{lacks_rights, map, set_constants};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{Link, MapCore, MapFlags, Object, OpenObject};

use crate::{Error, Result};

/// Tracepoints of socket events, as named in the kernel's BTF.
pub(crate) const SOCKET_TRACEPOINTS: [&str; 2] = ["tcp_probe", "inet_sock_set_state"];

/// Rejects a kernel without the tracepoints.
pub(crate) fn need_tracepoints(btf: &Btf<'_>, names: &[&str]) -> Result<()> {
    let missing: Vec<_> = names
        .iter()
        .copied()
        .filter(|name| btf.type_by_name::<Typedef<'_>>(format!("btf_trace_{name}").as_str()).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::new("trace.no_tracepoint", format!("this kernel has no tracepoint {}", missing.join(" and ")))
        .why("the kernel has no BTF for the tracepoint: the kernel was built without tracepoints, or is older than 5.5")
        .fix("use Linux 6.1 or newer with CONFIG_TRACEPOINTS, CONFIG_BPF_EVENTS and CONFIG_DEBUG_INFO_BTF"))
}

pub(crate) fn want_netns(object: &Object, inodes: &[u32]) -> Result<()> {
    let wanted = map(object, "netns_wanted")?;
    inodes.iter().try_for_each(|inode| {
        wanted.update(&inode.to_ne_bytes(), &[1], MapFlags::ANY).map_err(|e| refused(&e))
    })
}

/// Sets sizes of maps and constants of the program before loading.
pub(crate) fn fit(open: &mut OpenObject, sizes: &[(&str, u32)], constants: &[u64]) -> Result<()> {
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some((_, entries)) = sizes.iter().find(|(sized, _)| *sized == name) {
            map.set_max_entries(*entries).map_err(|e| refused(&e))?;
        }
    }
    let config: Vec<_> = constants.iter().flat_map(|w| w.to_ne_bytes()).collect();
    set_constants(open, &[("config", &config)])
}

pub(crate) fn attach(object: &Object) -> Result<Vec<Link>> {
    object.progs_mut().map(|program| program.attach().map_err(|e| refused(&e))).collect()
}

/// Reads the counter of the array `dropped`. Errors: `trace.refused`.
pub fn dropped(object: &Object) -> Result<u64> {
    let value = map(object, "dropped")?
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(|e| refused(&e))?
        .unwrap_or_default();
    Ok(value.as_slice().try_into().map_or(0, u64::from_ne_bytes))
}

pub(crate) fn refused(e: &libbpf_rs::Error) -> Error {
    let why = format!("{e:#}");
    if lacks_rights(e) {
        return Error::new("trace.not_permitted", "tracing sockets is not permitted")
            .why(why)
            .fix("run as root, or give the process CAP_BPF and CAP_PERFMON");
    }
    Error::new("trace.refused", "the kernel rejected the tracing program")
        .why(why)
        .fix("run with CCP_LIBBPF_LOG=1 to see the verifier's log, and ccp doctor for missing requirements")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_verifier_that_refuses_is_not_taken_for_missing_rights() {
        let slug = |number| refused(&io::Error::from_raw_os_error(number).into()).slug;
        assert_eq!([slug(1), slug(13), slug(22)], ["trace.not_permitted", "trace.refused", "trace.refused"]);
    }

    #[test]
    fn a_kernel_without_the_tracepoints_is_reported_apart() {
        let btf = Btf::from_path(env!("CCP_TRACE_OBJECT")).expect("the program has BTF, but no tracepoints");
        let error = need_tracepoints(&btf, &SOCKET_TRACEPOINTS).expect_err("there are none");
        assert_eq!(error.slug, "trace.no_tracepoint");
        assert_eq!(error.message, "this kernel has no tracepoint tcp_probe and inet_sock_set_state");
        assert!(error.to_string().contains("\n  fix  use Linux 6.1 or newer with"));
    }
}
