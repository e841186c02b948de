//! What all programs need, here and in crates with programs of their own: the kernel's types, the object, its constants
//! and maps, and errors that say why.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{ErrorKind, Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject};

use crate::{Error, Result};

/// libbpf writes to stderr by default; errors carry what is needed instead.
fn keep_log() {
    use std::sync::Once;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, |_, text| {
            if std::env::var_os("CCP_LIBBPF_LOG").is_some() {
                eprint!("{text}");
            }
        })));
    });
}

/// Types of the running kernel.
///
/// # Errors
///
/// `trace.no_btf`.
pub fn kernel_types() -> Result<Btf<'static>> {
    keep_log();
    Btf::from_vmlinux().map_err(|e| {
        Error::new("trace.no_btf", "this kernel has no BTF type information")
            .why(e)
            .fix("use a kernel built with CONFIG_DEBUG_INFO_BTF=y (distribution kernels have it)")
    })
}

/// Tracepoints of what happens on sockets, as the kernel's BTF names them.
pub(crate) const SOCKET_TRACEPOINTS: [&str; 2] = ["tcp_probe", "inet_sock_set_state"];

/// Refuses a kernel without the tracepoints.
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
        .why("its BTF does not describe it: the kernel was built without tracepoints, or is older than 5.5")
        .fix(
            "use a kernel with CONFIG_TRACEPOINTS, CONFIG_BPF_EVENTS and CONFIG_DEBUG_INFO_BTF, from 6.1 on",
        ))
}

/// Fills the set of namespaces that are looked at.
pub(crate) fn want_netns(object: &Object, inodes: &[u32]) -> Result<()> {
    let wanted = map(object, "netns_wanted")?;
    inodes.iter().try_for_each(|inode| {
        wanted.update(&inode.to_ne_bytes(), &[1], MapFlags::ANY).map_err(|e| refused(&e))
    })
}

/// Programs, not loaded yet.
///
/// # Errors
///
/// `trace.refused`.
pub fn open(object: &[u8]) -> Result<OpenObject> {
    keep_log();
    ObjectBuilder::default().open_memory(object).map_err(|e| refused(&e))
}

/// Sets sizes of maps and the program's constants, before it is loaded.
pub(crate) fn fit(open: &mut OpenObject, sizes: &[(&str, u32)], constants: &[u64]) -> Result<()> {
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some((_, entries)) = sizes.iter().find(|(sized, _)| *sized == name) {
            map.set_max_entries(*entries).map_err(|e| refused(&e))?;
        }
    }
    set_constants(open, &constants.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>())
}

/// Sets the programs' only constant, before they are loaded.
///
/// # Errors
///
/// `trace.refused`: it has another size.
pub fn set_constants(open: &mut OpenObject, config: &[u8]) -> Result<()> {
    for mut map in open.maps_mut().filter(|map| map.name().to_string_lossy().ends_with(".rodata")) {
        let bytes = map.initial_value_mut().ok_or_else(|| bug(".rodata"))?;
        if bytes.len() != config.len() {
            return Err(bug("such constants"));
        }
        bytes.copy_from_slice(config);
    }
    Ok(())
}

/// Attaches all programs of an object.
pub(crate) fn attach(object: &Object) -> Result<Vec<Link>> {
    object.progs_mut().map(|program| program.attach().map_err(|e| refused(&e))).collect()
}

/// A map of the object.
///
/// # Errors
///
/// `trace.refused`: it has none of that name.
pub fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    object.maps().find(|m| m.name() == name).ok_or_else(|| bug(name))
}

/// What the program counted in the only entry of the array `dropped`.
///
/// # Errors
///
/// `trace.refused`.
pub fn dropped(object: &Object) -> Result<u64> {
    let value = map(object, "dropped")?
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(|e| refused(&e))?
        .unwrap_or_default();
    Ok(value.as_slice().try_into().map_or(0, u64::from_ne_bytes))
}

/// The object is not what the program expects.
pub fn bug(what: &str) -> Error {
    Error::new("trace.refused", format!("the BPF object has no {what}"))
        .why("the extension and its BPF object were built from different sources")
        .fix("rebuild ccplane (make build)")
}

/// Whether a process without the rights asked. The verifier, too, says that something is not permitted: EACCES, whoever
/// asks; who lacks rights gets EPERM.
pub fn lacks_rights(e: &libbpf_rs::Error) -> bool {
    e.kind() == ErrorKind::PermissionDenied && !format!("{e:#}").contains("(os error 13)")
}

pub(crate) fn refused(e: &libbpf_rs::Error) -> Error {
    let why = format!("{e:#}");
    if lacks_rights(e) {
        return Error::new("trace.not_permitted", "tracing sockets is not permitted")
            .why(why)
            .fix("run as root, or give the process CAP_BPF and CAP_PERFMON");
    }
    Error::new("trace.refused", "the kernel refused the tracing program")
        .why(why)
        .fix("run with CCP_LIBBPF_LOG=1 to see the verifier's log, and ccp doctor for what is missing")
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
    fn a_kernel_without_the_tracepoints_is_told_apart() {
        let btf = Btf::from_path(env!("CCP_TRACE_OBJECT")).expect("the program has BTF, but no tracepoints");
        let error = need_tracepoints(&btf, &SOCKET_TRACEPOINTS).expect_err("there are none");
        assert_eq!(error.slug, "trace.no_tracepoint");
        assert_eq!(error.message, "this kernel has no tracepoint tcp_probe and inet_sock_set_state");
        assert!(error.to_string().contains("\n  fix  use a kernel with"));
    }
}
