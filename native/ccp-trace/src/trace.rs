//! Loading the tracing program, and reading what it writes.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{
    ErrorKind, Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, RingBuffer, RingBufferBuilder,
};

use crate::row::{tcp_row, trace_config};
use crate::{Error, Result};

static OBJECT: &[u8] = include_bytes!(env!("CCP_TRACE_OBJECT"));

/// Tracepoints that the program needs, as the kernel's BTF names them.
const TRACEPOINTS: [&str; 2] = ["tcp_probe", "inet_sock_set_state"];
const LEAST_RING_BYTES: u32 = 4096;

/// What to sample.
#[derive(Clone, Debug)]
pub struct Options {
    /// Least time between two rows of a socket [us]; 0: a row for every segment that comes in.
    pub interval_us: u64,
    /// Inodes of network namespaces to look at; all, if `None`.
    pub netns_inodes: Option<Vec<u32>>,
    /// Size of the ring buffer [bytes]; made a power of two.
    pub ring_bytes: u32,
}

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

type Bytes = Arc<Mutex<Vec<u8>>>;

fn lock(bytes: &Bytes) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tracing program, attached. Dropping it takes it out of the kernel.
pub struct Trace {
    // In this order: detached first, then the reader, then the maps.
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    taken: Bytes,
    object: Object,
}

impl Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").finish_non_exhaustive()
    }
}

impl Trace {
    /// Loads and attaches the program.
    pub fn attach(options: &Options) -> Result<Self> {
        keep_log();
        let btf = Btf::from_vmlinux().map_err(|e| {
            Error::new("trace.no_btf", "this kernel has no BTF type information")
                .why(e)
                .fix("use a kernel built with CONFIG_DEBUG_INFO_BTF=y (distribution kernels have it)")
        })?;
        need_tracepoints(&btf)?;
        let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(|e| refused(&e))?;
        fit(&mut open, options)?;
        let object = open.load().map_err(|e| refused(&e))?;
        for inode in options.netns_inodes.iter().flatten() {
            map(&object, "netns_wanted")?
                .update(&inode.to_ne_bytes(), &[1], MapFlags::ANY)
                .map_err(|e| refused(&e))?;
        }
        let taken = Bytes::default();
        let ring = reader(&object, &taken)?;
        let mut links = Vec::new();
        for program in object.progs_mut() {
            links.push(program.attach().map_err(|e| refused(&e))?);
        }
        Ok(Trace { _links: links, ring, taken, object })
    }

    /// Rows since the last call, as the bytes of so many `tcp_row`.
    pub fn drain(&self) -> Result<Vec<u8>> {
        self.ring.consume().map_err(|e| refused(&e))?;
        Ok(std::mem::take(&mut *lock(&self.taken)))
    }

    /// How many rows the ring refused because nobody drained it.
    pub fn dropped(&self) -> Result<u64> {
        let value = map(&self.object, "dropped")?
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| refused(&e))?
            .unwrap_or_default();
        Ok(value.as_slice().try_into().map_or(0, u64::from_ne_bytes))
    }
}

fn reader(object: &Object, taken: &Bytes) -> Result<RingBuffer<'static>> {
    let rows = map(object, "rows")?;
    let fill = Arc::clone(taken);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&rows, move |row| {
            if let Some(row) = row.get(..size_of::<tcp_row>()) {
                lock(&fill).extend_from_slice(row);
            }
            0
        })
        .map_err(|e| refused(&e))?;
    builder.build().map_err(|e| refused(&e))
}

fn need_tracepoints(btf: &Btf<'_>) -> Result<()> {
    let missing: Vec<_> = TRACEPOINTS
        .into_iter()
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

fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    object.maps().find(|m| m.name() == name).ok_or_else(|| bug(name))
}

fn bug(what: &str) -> Error {
    Error::new("trace.refused", format!("the BPF object has no {what}"))
        .why("the extension and its BPF object were built from different sources")
        .fix("rebuild ccplane (make build)")
}

fn refused(e: &libbpf_rs::Error) -> Error {
    if e.kind() == ErrorKind::PermissionDenied {
        return Error::new("trace.not_permitted", "tracing sockets is not permitted")
            .why(format!("{e:#}"))
            .fix("run as root, or give the process CAP_BPF and CAP_PERFMON");
    }
    Error::new("trace.refused", "the kernel refused the tracing program")
        .why(format!("{e:#}"))
        .fix("run with CCP_LIBBPF_LOG=1 to see the verifier's log, and ccp doctor for what is missing")
}

/// Sets sizes and constants, before the program is loaded.
fn fit(open: &mut OpenObject, options: &Options) -> Result<()> {
    let wanted = options.netns_inodes.as_ref();
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let entries = match name.as_str() {
            "rows" => Some(options.ring_bytes.max(LEAST_RING_BYTES).next_power_of_two()),
            "netns_wanted" => Some(wanted.map_or(1, |inodes| inodes.len().max(1) as u32)),
            _ => None,
        };
        if let Some(entries) = entries {
            map.set_max_entries(entries).map_err(|e| refused(&e))?;
        }
        if name.ends_with(".rodata") {
            let bytes = map.initial_value_mut().ok_or_else(|| bug(".rodata"))?;
            let words = [options.interval_us, u64::from(wanted.is_some())];
            let config: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
            if bytes.len() != config.len() || config.len() != size_of::<trace_config>() {
                return Err(bug("struct trace_config"));
            }
            bytes.copy_from_slice(&config);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_tracepoints_is_told_apart() {
        let btf = Btf::from_path(env!("CCP_TRACE_OBJECT")).expect("the program has BTF, but no tracepoints");
        let error = need_tracepoints(&btf).expect_err("there are none");
        assert_eq!(error.slug, "trace.no_tracepoint");
        assert_eq!(error.message, "this kernel has no tracepoint tcp_probe and inet_sock_set_state");
        assert!(error.to_string().contains("\n  fix  use a kernel with"));
    }

    #[test]
    fn the_loader_writes_the_configuration_as_the_program_reads_it() {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).expect("our own object");
        let options = Options { interval_us: 7, netns_inodes: Some(vec![1, 2, 3]), ring_bytes: 5000 };
        fit(&mut open, &options).expect("it fits");
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            match name.as_str() {
                "rows" => assert_eq!(map.max_entries(), 8192),
                "netns_wanted" => assert_eq!(map.max_entries(), 3),
                _ if name.ends_with(".rodata") => {
                    let config = map.initial_value_mut().expect("it has one").as_ptr().cast::<trace_config>();
                    // SAFETY: fit() checked the size; plain integers.
                    let config = unsafe { config.read_unaligned() };
                    assert_eq!((config.interval_us, config.only_some_netns), (7, 1));
                }
                _ => {}
            }
        }
    }
}
