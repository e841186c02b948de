//! Shared by all flows of a world and their agent: installed programs, records, counters.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccp_error::Error;
use ccp_lang::Program;
use ccp_record::{Message, Records, intf};

use super::extend::Extension;
use crate::features;

/// Handle 0 means "no program".
const TABLE_SIZE: usize = intf::CCP_MAX_PROGRAMS as usize;

/// A handle; each flow has one.
#[derive(Clone)]
pub struct Shared(Arc<Inner>);

struct Inner {
    max_cwnd_bytes: u64,
    is_silent: AtomicBool,
    table: Mutex<Table>,
    records: Mutex<Records>,
    extensions: Vec<Box<dyn Extension>>,
    n_records: AtomicUsize,
    flows_created: AtomicU64,
    flows_active: AtomicU64,
    fold_errors: AtomicU64,
    fallback_entries: [AtomicU64; intf::CCP_FALLBACK_CAUSES as usize],
}

struct Table {
    programs: Vec<Option<Arc<Installed>>>,
    next: usize,
}

pub(super) struct Installed {
    pub program: Program,
    is_gone: AtomicBool,
}

impl Installed {
    /// Uninstalled: flows that run it go to the fallback.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// An empty table; the agent is alive.
    pub fn new(max_cwnd_bytes: u64) -> Self {
        Self(Arc::new(Inner {
            max_cwnd_bytes,
            is_silent: AtomicBool::new(false),
            table: Mutex::new(Table { programs: vec![None; TABLE_SIZE], next: 1 }),
            records: Mutex::default(),
            extensions: features::extensions(),
            n_records: AtomicUsize::new(0),
            flows_created: AtomicU64::new(0),
            flows_active: AtomicU64::new(0),
            fold_errors: AtomicU64::new(0),
            fallback_entries: Default::default(),
        }))
    }

    /// Installs a program; returns its handle. Errors: `program.table_full`.
    pub fn install(&self, program: Program) -> Result<u32, Error> {
        let table = &mut *lock(&self.0.table);
        // The longest unused first, so that late reports are not attributed to another program.
        let free = (0..TABLE_SIZE - 1)
            .map(|step| 1 + (table.next - 1 + step) % (TABLE_SIZE - 1))
            .find(|handle| table.programs[*handle].is_none());
        let Some(handle) = free else {
            return Err(Error::new("program.table_full", "no more fold programs can be installed")
                .why(format!("{} programs are installed", TABLE_SIZE - 1))
                .fix("uninstall unused programs"));
        };
        table.programs[handle] = Some(Arc::new(Installed { program, is_gone: AtomicBool::new(false) }));
        table.next = 1 + handle % (TABLE_SIZE - 1);
        Ok(handle as u32)
    }

    /// Uninstalls a program; flows that run it go to the fallback. Errors: `program.unknown`.
    pub fn uninstall(&self, handle: u32) -> Result<(), Error> {
        let gone = lock(&self.0.table).programs.get_mut(handle as usize).and_then(Option::take);
        let installed = gone.ok_or_else(|| {
            Error::new("program.unknown", format!("no program has the handle {handle}"))
                .fix("use a handle returned by install()")
        })?;
        installed.is_gone.store(true, Relaxed);
        Ok(())
    }

    pub fn is_installed(&self, handle: u32) -> bool {
        self.installed(handle).is_some()
    }

    pub(super) fn installed(&self, handle: u32) -> Option<Arc<Installed>> {
        lock(&self.0.table).programs.get(handle as usize)?.clone()
    }

    /// Hands all flows to the fallback at their next ACK.
    pub fn silence(&self) {
        self.0.is_silent.store(true, Relaxed);
    }

    /// The agent is alive again.
    pub fn heartbeat(&self) {
        self.0.is_silent.store(false, Relaxed);
    }

    pub(super) fn is_silent(&self) -> bool {
        self.0.is_silent.load(Relaxed)
    }

    pub(super) fn max_cwnd_bytes(&self) -> u64 {
        self.0.max_cwnd_bytes
    }

    pub fn extension_names(&self) -> Vec<&'static str> {
        self.0.extensions.iter().map(|one| one.name()).collect()
    }

    /// The error for an extension that only the kernel has.
    pub fn no_extension(&self, name: &str) -> Error {
        Error::new("load.extension", format!("the simulator has no extension `{name}`"))
            .fix(format!("available: {}", self.extension_names().join(", ")))
    }

    pub(super) fn extension(&self, index: usize) -> Option<&dyn Extension> {
        self.0.extensions.get(index).map(Box::as_ref)
    }

    /// Index of the extension that a message is for. Errors: `load.extension`, if there is none and the
    /// message is not empty; `update.extension`: the message is invalid.
    pub fn extension_of(&self, message: &Message<'_>) -> Result<Option<usize>, Error> {
        let Some(index) = self.0.extensions.iter().position(|one| one.name() == message.extension) else {
            return if message.raw.is_empty() { Ok(None) } else { Err(self.no_extension(message.extension)) };
        };
        self.0.extensions[index].check(message.raw)?;
        Ok(Some(index))
    }

    pub(super) fn extension_event(&self, index: usize, flow_id: u64, now_us: u64, words: &[u64]) {
        let head = intf::ccp_record {
            kind: intf::CCP_RECORD_EXTENSION,
            program: index as u16,
            flow_id,
            now_us,
            n_fields: words.len() as u16,
            ..intf::ccp_record::default()
        };
        self.report_fields(&head, words);
    }

    pub fn has_records(&self) -> bool {
        self.0.n_records.load(Relaxed) > 0
    }

    pub fn take_records(&self) -> Records {
        self.0.n_records.store(0, Relaxed);
        std::mem::take(&mut lock(&self.0.records))
    }

    pub(super) fn emit(&self, record: &[u8]) {
        lock(&self.0.records).push(record);
        self.0.n_records.fetch_add(1, Relaxed);
    }

    pub(super) fn report_fields(&self, head: &intf::ccp_record, fields: &[u64]) {
        lock(&self.0.records).push_fields(head, fields);
        self.0.n_records.fetch_add(1, Relaxed);
    }

    /// Counters. Records are never dropped, and each flow has a slot.
    pub fn counters(&self) -> intf::ccp_globals {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        intf::ccp_globals {
            generation: of(&self.0.flows_created),
            flows_active: of(&self.0.flows_active),
            fold_errors: of(&self.0.fold_errors),
            fallback_entries: self.0.fallback_entries.each_ref().map(of),
            ..Default::default()
        }
    }

    pub(super) fn count_begin(&self) {
        self.0.flows_created.fetch_add(1, Relaxed);
        self.0.flows_active.fetch_add(1, Relaxed);
    }

    pub(super) fn count_end(&self) {
        self.0.flows_active.fetch_sub(1, Relaxed);
    }

    pub(super) fn count_fold_error(&self) {
        self.0.fold_errors.fetch_add(1, Relaxed);
    }

    pub(super) fn count_fallback_entry(&self, cause: u32) {
        self.0.fallback_entries[cause as usize].fetch_add(1, Relaxed);
    }
}
