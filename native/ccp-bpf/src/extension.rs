//! Extensions of the datapath: separate BPF objects, loaded when an algorithm asks for one. `bpf/extend.h`
//! defines their interface.

use std::ffi::c_char;
use std::os::fd::OwnedFd;

use libbpf_rs::{MapType, Object, OpenObject};

use crate::intf::{self, CCP_MAX_EXTENSIONS, CCP_NAME_LEN, ccp_extension};
use crate::kernel::Kernel;
use crate::map::{get, put, remove};
use crate::messages::Messages;
use crate::object::{self, Sizes, load_error};
use crate::pins::Pins;
use crate::{Error, Result};

const TABLE: &str = "extensions";
/// Name of the map with the extension's messages.
const MAIL: &str = "mail";
/// Index at which tables try a program; never called.
const TRIAL: u32 = CCP_MAX_EXTENSIONS;
/// Version of an extension that is being replaced: no object's.
const INCOMPLETE: u64 = u64::MAX;

/// The `struct_ops` map and member of a program, and the core's table of such programs.
const HOOKS: [(&str, &str, &str); 5] = [
    ("extension", "cong_control", "extensions_on_ack"),
    ("after_fold", "cong_control", "extensions_on_fold"),
    ("extension", "cwnd_event", "extensions_on_cwnd_event"),
    ("extension", "cwnd_event_tx_start", "extensions_on_cwnd_event_tx_start"),
    ("extension", "release", "extensions_on_release"),
];

pub(crate) struct Extension {
    pub name: String,
    /// Its index in the core's tables.
    pub index: u32,
    /// None if it accepts no messages.
    pub messages: Option<Messages>,
}

/// FNV-1a, to distinguish objects.
fn version(object: &[u8]) -> u64 {
    let hash = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    object.iter().fold(0xcbf2_9ce4_8422_2325, hash).clamp(1, INCOMPLETE - 1)
}

/// The core's table of extensions, by index.
fn table(pins: &Pins) -> Result<Vec<Option<(String, u64)>>> {
    let fd = pins.open_map(TABLE)?;
    let entry = |index| {
        let found: ccp_extension = get(&fd, index)?;
        let name = found.name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect::<Vec<_>>();
        Ok((found.version != 0).then(|| (String::from_utf8_lossy(&name).into_owned(), found.version)))
    };
    (0..CCP_MAX_EXTENSIONS).map(entry).collect()
}

fn enter(pins: &Pins, index: u32, name: &str, version: u64) -> Result<()> {
    let mut entry = ccp_extension { version, ..Default::default() };
    for (to, from) in entry.name.iter_mut().zip(name.bytes().take(CCP_NAME_LEN as usize - 1)) {
        *to = c_char::from_ne_bytes([from]);
    }
    put(&pins.open_map(TABLE)?, index, &entry)
}

/// Extensions that an earlier agent loaded.
pub(crate) fn loaded(pins: &Pins, max_flows: u32) -> Result<Vec<Extension>> {
    let entries = table(pins)?.into_iter().zip(0u32..);
    let known = entries.filter_map(|(entry, index)| entry.map(|(name, _)| (name, index)));
    known.map(|(name, index)| opened(pins, name, index, max_flows)).collect()
}

fn opened(pins: &Pins, name: String, index: u32, max_flows: u32) -> Result<Extension> {
    let messages = messages_of(pins, &name, max_flows)?;
    Ok(Extension { name, index, messages })
}

fn messages_of(pins: &Pins, place: &str, max_flows: u32) -> Result<Option<Messages>> {
    let has_mail = pins.extension_map(place, MAIL).exists();
    has_mail.then(|| Messages::open(pins, place, MAIL, max_flows)).transpose()
}

fn refused(name: &str, why: impl std::fmt::Display, fix: impl Into<String>) -> Error {
    Error::new("load.extension", format!("the datapath's extension `{name}` cannot be loaded"))
        .why(why)
        .fix(fix)
}

fn no_room(name: &str) -> Error {
    let why = format!("{CCP_MAX_EXTENSIONS} extensions are already loaded");
    refused(name, why, "ccp unload removes them, together with the datapath")
}

/// An extension, and its version to be put into use if it is not loaded yet.
pub(crate) struct Prepared {
    pub extension: Extension,
    pub next: Option<Next>,
}

/// Loads an extension next to the core with the pinned maps. An extension of the same name and version is kept. Nothing
/// changes before `Next::put_into_use`. `taken`: indices of other extensions that wait for it.
pub(crate) fn prepare(
    kernel: &Kernel,
    pins: &Pins,
    sizes: Sizes,
    name: &str,
    object: &[u8],
    taken: &[u32],
) -> Result<Prepared> {
    let longest = CCP_NAME_LEN as usize - 1;
    if name.is_empty()
        || name.len() > longest
        || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    {
        let why = format!("names have at most {longest} characters from a-z, A-Z, 0-9 and _");
        return Err(refused(name, why, "choose another name"));
    }
    let version = version(object);
    let table = table(pins)?;
    let known = table.iter().position(|entry| entry.as_ref().is_some_and(|(known, _)| known == name));
    if let Some((index, Some((_, as_is)))) = known.map(|index| (index, &table[index]))
        && *as_is == version
    {
        let extension = opened(pins, name.to_owned(), index as u32, sizes.max_flows)?;
        return Ok(Prepared { extension, next: None });
    }
    let is_free = |index: &usize| table[*index].is_none() && !taken.contains(&(*index as u32));
    let free = known.or_else(|| (0..table.len()).find(is_free));
    let index = free.ok_or_else(|| no_room(name))? as u32;
    let place = Pins::next_of(name);
    pins.forget_extension(&place)?; // remains of an interrupted load
    pins.create_extension(&place)?;
    let next = Next::new(kernel, pins, sizes, name, index, object, version);
    let messages = next.and_then(|next| Ok((messages_of(pins, &place, sizes.max_flows)?, next)));
    let (messages, next) = messages.inspect_err(|_| _ = pins.forget_extension(&place))?;
    Ok(Prepared { extension: Extension { name: name.to_owned(), index, messages }, next: Some(next) })
}

/// Loads an extension, and enters its programs into the core's tables, one for each member that this kernel has. Another
/// version of the extension is replaced. On an error nothing has changed.
pub(crate) fn load(
    kernel: &Kernel,
    pins: &Pins,
    sizes: Sizes,
    name: &str,
    object: &[u8],
) -> Result<Extension> {
    let Prepared { extension, next } = prepare(kernel, pins, sizes, name, object, &[])?;
    next.map_or(Ok(()), |next| next.put_into_use(pins))?;
    Ok(extension)
}

/// The programs of an extension's next version. Its maps are in the place of the next one.
pub(crate) struct Next {
    pub name: String,
    pub index: u32,
    version: u64,
    _object: Object,
    /// The core's tables, with the extension's program for each.
    tables: Vec<(OwnedFd, Option<u32>)>,
}

impl Next {
    fn new(
        kernel: &Kernel,
        pins: &Pins,
        sizes: Sizes,
        name: &str,
        index: u32,
        object: &[u8],
        version: u64,
    ) -> Result<Self> {
        let (open, hooks) = prepared(kernel, pins, sizes, name, index, object)?;
        let object = open.load().map_err(|e| {
            let error = load_error(&e);
            let fix = format!("run algorithms that do not need it on this kernel; {}", error.fix);
            refused(name, error.why, fix)
        })?;
        let mut tables = Vec::new();
        for (_, _, table) in HOOKS {
            let fd = pins.open_map(table)?;
            let program = hooks.iter().find(|(hook, _)| *hook == table);
            let program = program.map(|(_, program)| object::program_fd(&object, program)).transpose()?;
            if let Some(program) = program {
                put(&fd, TRIAL, &program)?;
                remove(&fd, TRIAL);
            }
            tables.push((fd, program));
        }
        Ok(Next { name: name.to_owned(), index, version, _object: object, tables })
    }

    /// Replaces the version in use, if there is one, by this one. All that can fail has been done before.
    pub fn put_into_use(self, pins: &Pins) -> Result<()> {
        let Next { name, index, version, tables, .. } = self;
        let next = Pins::next_of(&name);
        let before: ccp_extension = get(&pins.open_map(TABLE)?, index)?;
        // If the agent is killed from here on, the next one replaces the extension.
        enter(pins, index, &name, INCOMPLETE)?;
        if let Err(e) = pins.exchange_extensions(&next, &name) {
            put(&pins.open_map(TABLE)?, index, &before)?;
            let _ = pins.forget_extension(&next);
            return Err(e);
        }
        for (table, program) in tables {
            match program {
                Some(program) => put(&table, index, &program)?,
                None => remove(&table, index),
            }
        }
        enter(pins, index, &name, version)?;
        let _ = pins.forget_extension(&next); // what was replaced. If it stays, the next load removes it
        Ok(())
    }
}

fn prepared(
    kernel: &Kernel,
    pins: &Pins,
    sizes: Sizes,
    name: &str,
    index: u32,
    object: &[u8],
) -> Result<(OpenObject, Vec<(&'static str, String)>)> {
    let no_extension = |e: Error| {
        let why = if e.why.is_empty() { e.message } else { e.why };
        refused(name, why, "compile it as described in docs/writing-an-extension.md")
    };
    let mut open = object::open(object).map_err(no_extension)?;
    let reported = object::name_and_flags(&mut open, "extension").map_err(no_extension)?;
    if reported != (name.to_owned(), intf::CCP_ABI_VERSION) {
        let why = format!(
            "its object is `{}` for version {} of extend.h; expected are `{name}` and version {}",
            reported.0,
            reported.1,
            intf::CCP_ABI_VERSION
        );
        return Err(refused(name, why, "compile it with the headers of this version of ccplane"));
    }
    place_maps(&mut open, pins, sizes, &Pins::next_of(name))?;
    ccp_load::set_constants(&mut open, &[("extension_index", &index.to_ne_bytes())])?;
    let hooks = hooks_of(&mut open, kernel)?;
    Ok((open, hooks))
}

/// Uses the core's pinned maps; the extension's own maps are pinned next to them.
fn place_maps(open: &mut OpenObject, pins: &Pins, sizes: Sizes, extension: &str) -> Result<()> {
    object::share_maps(open, pins, sizes)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let is_own = name.contains('.') || map.map_type() == MapType::StructOps; // also libbpf's
        if is_own || Pins::core_maps().any(|shared| shared == name) {
            continue;
        }
        if map.max_entries() == intf::CCP_MAX_FLOWS {
            map.set_max_entries(sizes.max_flows).map_err(|e| load_error(&e))?;
        }
        map.set_pin_path(pins.extension_map(extension, &name)).map_err(|e| load_error(&e))?;
    }
    Ok(())
}

/// Fits the extension's `struct_ops` maps to the kernel. Returns the program for each table; others are not loaded.
fn hooks_of(open: &mut OpenObject, kernel: &Kernel) -> Result<Vec<(&'static str, String)>> {
    let maps = open.maps().filter(|map| map.map_type() == MapType::StructOps);
    let maps: Vec<_> = maps.map(|map| map.name().to_string_lossy().into_owned()).collect();
    for map in &maps {
        object::fit_members(open, kernel, map, &[], &[])?;
    }
    let mut hooks = Vec::new();
    for (map, member, table) in HOOKS {
        if maps.iter().any(|one| one == map)
            && let Some(program) = object::program_of(open, map, member)?
        {
            hooks.push((table, program));
        }
    }
    for mut program in open.progs_mut() {
        let is_called = hooks.iter().any(|(_, name)| program.name() == name.as_str());
        program.set_autoload(is_called);
    }
    Ok(hooks)
}

impl Extension {
    /// Discards messages of the previous agent, and detaches the extension from each flow.
    pub fn begin_again(&self, flow_ids: &[u64]) {
        if let Some(messages) = &self.messages {
            messages.clear();
            for flow_id in flow_ids {
                messages.write(*flow_id, &[]);
            }
        }
    }

    /// Writes a message to the extension about a flow. Returns the extension's bit if the flow is to get it.
    pub fn write(&self, flow_id: u64, raw: &[u8]) -> Result<u32> {
        let takes = self.messages.as_ref().map_or(0, Messages::size_bytes);
        if !raw.is_empty() && raw.len() != takes {
            return Err(Error::new(
                "update.extension",
                format!("the extension `{}` accepts no message of {} bytes", self.name, raw.len()),
            )
            .why(format!("it accepts {takes}"))
            .fix("send a message as documented by the extension, or nothing to detach the flow"));
        }
        if let Some(messages) = &self.messages {
            messages.write(flow_id, raw);
        }
        Ok(u32::from(!raw.is_empty()) << self.index)
    }
}

pub(crate) fn not_loaded(name: &str) -> Error {
    Error::new("load.extension", format!("the datapath's extension `{name}` is not loaded"))
        .fix("add the extension to the algorithm's `extensions`")
}
