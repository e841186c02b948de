//! Visits sockets, listeners and defaults of all namespaces, and gives them other programs: those now
//! registered under their name, or a congestion control of the kernel's.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::Ipv6Addr;

use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object};

use crate::Result;
use crate::namespaces::{self, Found, Namespace};
use crate::object::{self, load_error};
use ccp_load::bug;

static OBJECT: &[u8] = include_bytes!(env!("CCP_WALK_OBJECT"));
const ROW: usize = size_of::<walk::walk_row>();

/// Rows of the program, made from `bpf/walk.h`.
#[allow(non_camel_case_types, non_upper_case_globals, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
mod walk {
    include!(concat!(env!("OUT_DIR"), "/walk.rs"));
}

#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// What was changed, one line each.
    pub done: Vec<String>,
    /// What was not changed, and why, one line each.
    pub left: Vec<String>,
    /// Number of processes whose namespaces this process may not open.
    pub hidden: usize,
}

pub(crate) struct Walk {
    link: Link,
    /// Dropped after the link, which is detached first.
    _object: Object,
    names: BTreeMap<String, String>,
}

fn name(text: &str) -> [u8; walk::WALK_NAME_BYTES as usize] {
    let mut name = [0; walk::WALK_NAME_BYTES as usize];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

impl Walk {
    /// Loads the program; `names` maps each name to its replacement.
    pub fn new(names: BTreeMap<String, String>, only_listeners: bool) -> Result<Self> {
        let mut open = object::open(OBJECT)?;
        ccp_load::set_constants(&mut open, &[("only_listeners", &[u8::from(only_listeners)])])?;
        let object = open.load().map_err(|e| load_error(&e))?;
        let table = object.maps().find(|map| map.name() == "goes_to").ok_or_else(|| bug("goes_to"))?;
        for (from, to) in &names {
            table.update(&name(from), &name(to), MapFlags::ANY).map_err(|e| load_error(&e))?;
        }
        let mut programs = object.progs_mut();
        let program = programs.find(|p| p.name() == "walk").ok_or_else(|| bug("walk"))?;
        let link = program.attach().map_err(|e| load_error(&e))?;
        drop(programs);
        Ok(Walk { link, _object: object, names })
    }

    pub fn all(&self) -> Walked {
        let Found { namespaces, hidden } = namespaces::all();
        let came = namespaces::inside_each(&namespaces, |one| self.here(one));
        let mut walked = Walked { hidden, ..Walked::default() };
        for (namespace, came) in namespaces.iter().zip(came) {
            match came {
                Ok(here) => {
                    walked.done.extend(here.done);
                    walked.left.extend(here.left);
                }
                Err(e) => walked.left.push(format!("namespace {}: {e}", namespace.place.display())),
            }
        }
        walked
    }

    fn here(&self, namespace: &Namespace) -> io::Result<Walked> {
        let mut walked = Walked::default();
        let place = namespace.place.display();
        let default = namespaces::default()?;
        if let Some(to) = self.names.get(&default) {
            // If only the initial namespace may have it as default, use one that is always allowed.
            let or_always =
                |e| if *to == default { Err(e) } else { namespaces::set_default(namespaces::ALWAYS) };
            match namespaces::set_default(to).or_else(or_always) {
                Ok(()) => {
                    let now = namespaces::default()?;
                    walked.done.push(format!("default of {place}: {default}, now {now}"));
                }
                Err(e) => walked.left.push(format!("default of {place} is {default}: {e}")),
            }
        }
        let mut rows = Vec::new();
        Iter::new(&self.link).map_err(io::Error::other)?.read_to_end(&mut rows)?;
        let mut moved = BTreeMap::<String, usize>::new();
        let mut without_choice = 0;
        for row in rows.chunks_exact(ROW) {
            // SAFETY: as long as a row, which is plain data.
            let row = unsafe { row.as_ptr().cast::<walk::walk_row>().read_unaligned() };
            match row.what {
                walk::WALK_MOVED => *moved.entry(text(&row)).or_default() += 1,
                walk::WALK_LEFT => without_choice += 1,
                _ => walked.left.push(format!("{} in {place}: {}", described(&row), error_of(&row))),
            }
        }
        let reported =
            moved.iter().map(|(from, n)| format!("{n} sockets in {place}: {from}, now {}", self.names[from]));
        walked.done.extend(reported);
        if without_choice > 0 {
            walked.left.push(format!(
                "{without_choice} listeners of {place} keep programs in memory until they close; their connections get the \
                 namespace's default"
            ));
        }
        Ok(walked)
    }
}

fn text(row: &walk::walk_row) -> String {
    row.name.iter().map(|c| *c as u8).take_while(|c| *c != 0).map(char::from).collect()
}

fn described(row: &walk::walk_row) -> String {
    let address = |raw: [u8; 16]| Ipv6Addr::from(raw).to_canonical();
    let (from, to) = (address(row.saddr), address(row.daddr));
    format!("{} of {from} port {} to {to} port {}", text(row), row.sport, row.dport)
}

fn error_of(row: &walk::walk_row) -> io::Error {
    io::Error::from_raw_os_error(-row.error)
}
