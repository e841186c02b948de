//! Objects, their constants and maps, and the kernel's types.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::{AsRawLibbpf, ErrorKind, Map, MapCore, Object, ObjectBuilder, OpenObject};

use crate::{Error, Result};

/// Disables libbpf's log to stderr; errors carry the information.
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

/// Types of the running kernel. Errors: `load.no_btf`.
pub fn kernel_types() -> Result<Btf<'static>> {
    keep_log();
    Btf::from_vmlinux().map_err(|e| {
        Error::new("load.no_btf", "this kernel has no BTF type information")
            .at("/sys/kernel/btf/vmlinux")
            .why(e)
            .fix("use a kernel built with CONFIG_DEBUG_INFO_BTF=y (distribution kernels have it)")
    })
}

/// Opens an object without loading its programs. Errors: libbpf's.
pub fn open(object: &[u8]) -> libbpf_rs::Result<OpenObject> {
    keep_log();
    ObjectBuilder::default().open_memory(object)
}

/// Sets an object's constants before loading. Errors: `load.object` if a size differs.
pub fn set_constants(object: &mut OpenObject, constants: &[(&str, &[u8])]) -> Result<()> {
    // SAFETY: the BTF lives as long as the object, which outlives this function.
    let raw = unsafe { object.as_libbpf_object().as_ref() };
    let btf = Btf::from_bpf_object(raw).ok().flatten().ok_or_else(|| bug("BTF"))?;
    let rodata = btf.type_by_name::<DataSec<'_>>(".rodata").ok_or_else(|| bug(".rodata"))?;
    let mut map = object.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    let bytes = map.as_mut().and_then(|map| map.initial_value_mut()).ok_or_else(|| bug(".rodata"))?;
    for variable in rodata.iter() {
        let name = btf.type_by_id::<Var<'_>>(variable.ty).and_then(|v| v.name().map(|n| n.to_string_lossy()));
        let name = name.ok_or_else(|| bug(".rodata variable"))?;
        if let Some((_, value)) = constants.iter().find(|(known, _)| *known == name) {
            if value.len() != variable.size {
                return Err(bug(&format!("constant `{name}` of {} bytes", value.len())));
            }
            bytes[variable.offset as usize..][..value.len()].copy_from_slice(value);
        }
    }
    Ok(())
}

/// A map of the object. Errors: `load.object` if there is none of that name.
pub fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    object.maps().find(|m| m.name() == name).ok_or_else(|| bug(name))
}

/// The object differs from its loader's expectation.
pub fn bug(what: &str) -> Error {
    Error::new("load.object", format!("the BPF object has no {what}"))
        .why("the extension and its BPF object were built from different sources")
        .fix("rebuild ccplane (make build)")
}

/// Whether the process lacks rights. The verifier also returns EACCES, to any process; a process without
/// rights gets EPERM.
pub fn lacks_rights(e: &libbpf_rs::Error) -> bool {
    e.kind() == ErrorKind::PermissionDenied && !format!("{e:#}").contains("(os error 13)")
}
