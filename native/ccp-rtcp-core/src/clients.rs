//! All clients of a host: one detector and one limiter for all connections to a client.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;

use crate::types::{rtcp_client, rtcp_flow, rtcp_key, rtcp_seeking, rtcp_table};
use crate::{Options, Remote, Row, Socket, rtcp_detector};

/// What `flow_window` returns where nothing bounds the window.
const NO_WINDOW: u32 = u32::MAX;

unsafe extern "C" {
    fn rtcp_host_flow_begin(t: *mut rtcp_table, tp: *mut Socket, flow: *mut rtcp_flow, o: *const Options);
    fn rtcp_host_flow_start(t: *mut rtcp_table, tp: *mut Socket, flow: *mut rtcp_flow, o: *const Options);
    fn rtcp_host_flow_ack(t: *mut rtcp_table, tp: *mut Socket, flow: *mut rtcp_flow, o: *const Options);
    fn rtcp_host_flow_leave(t: *mut rtcp_table, tp: *mut Socket, flow: *mut rtcp_flow, o: *const Options);
    fn rtcp_host_flow_window(tp: *mut Socket, flow: *const rtcp_flow, floor_pkts: u32, is_paced: i32) -> u32;
}

type Call = unsafe extern "C" fn(*mut rtcp_table, *mut Socket, *mut rtcp_flow, *const Options);
type Key = [u8; size_of::<rtcp_key>()];
/// The C code holds pointers to clients while others are added and removed.
type Table = BTreeMap<Key, Box<UnsafeCell<rtcp_client>>>;

fn key_of(key: &rtcp_key) -> Key {
    // SAFETY: integers without gaps between them, as asserted for `Remote`.
    unsafe { std::mem::transmute_copy(key) }
}

/// All clients.
#[derive(Default)]
pub struct Clients(Table);

// SAFETY: clients are written through `&mut Clients` alone, and nothing in them belongs to a thread.
unsafe impl Send for Clients {}
// SAFETY: as above; `&Clients` only reads.
unsafe impl Sync for Clients {}

/// A connection to a client: what it remembers of itself.
#[derive(Clone, Debug, Default)]
pub struct Connection(rtcp_flow);

/// What is known of a client after the detector has learned something from one of its connections.
#[derive(Clone, Copy, Debug)]
pub struct Learned {
    /// What is known.
    pub row: Row,
    /// The verdict is another one than the last time, whichever connection it came from.
    pub is_news: bool,
}

unsafe extern "C" fn find(table: *mut c_void, key: *const rtcp_key) -> *mut rtcp_client {
    // SAFETY: both are what `Clients::call` and the C code hand on, and outlive the call.
    let (table, key) = unsafe { (&*table.cast::<Table>(), &*key) };
    table.get(&key_of(key)).map_or(ptr::null_mut(), |client| client.get())
}

unsafe extern "C" fn insert(table: *mut c_void, key: *const rtcp_key) {
    // SAFETY: as above.
    let (table, key) = unsafe { (&mut *table.cast::<Table>(), &*key) };
    table.entry(key_of(key)).or_default();
}

unsafe extern "C" fn remove(table: *mut c_void, key: *const rtcp_key) {
    // SAFETY: as above.
    let (table, key) = unsafe { (&mut *table.cast::<Table>(), &*key) };
    table.remove(&key_of(key));
}

impl Clients {
    fn call(
        &mut self,
        call: Call,
        socket: &mut Socket,
        connection: &mut Connection,
        options: &Options,
    ) -> Option<Learned> {
        let mut table = rtcp_table {
            clients: (&raw mut self.0).cast(),
            find: Some(find),
            insert: Some(insert),
            remove: Some(remove),
            ..rtcp_table::default()
        };
        // SAFETY: all are whole structures, and outlive the call; the options are usable, which `begin` has asked of them.
        unsafe { call(&raw mut table, socket, &raw mut connection.0, options) };
        (table.has_row != 0).then_some(Learned { row: table.row, is_news: table.is_news != 0 })
    }

    /// A connection begins; what is known of its client holds for it.
    ///
    /// # Panics
    ///
    /// The C code has no room for so many candidates.
    pub fn begin(&mut self, mut socket: Socket, options: &Options) -> Connection {
        assert!(options.usable(), "between 3 and 17 candidates");
        let mut connection = Connection::default();
        self.call(rtcp_host_flow_begin, &mut socket, &mut connection, options);
        connection
    }

    /// It has something to send again, after it had nothing.
    pub fn start(
        &mut self,
        connection: &mut Connection,
        mut socket: Socket,
        options: &Options,
    ) -> Option<Learned> {
        self.call(rtcp_host_flow_start, &mut socket, connection, options)
    }

    /// An ACK has come in; if nothing is left to be acknowledged, the connection has nothing to send any more.
    pub fn ack(
        &mut self,
        connection: &mut Connection,
        mut socket: Socket,
        options: &Options,
    ) -> Option<Learned> {
        self.call(rtcp_host_flow_ack, &mut socket, connection, options)
    }

    /// It ends.
    pub fn leave(&mut self, mut connection: Connection, mut socket: Socket, options: &Options) {
        self.call(rtcp_host_flow_leave, &mut socket, &mut connection, options);
    }

    /// The detector of a connection's client; none if the connection is of no client.
    #[must_use]
    pub fn detector(&self, connection: &Connection) -> Option<rtcp_detector> {
        let client = self.0.get(&key_of(&connection.0.key))?;
        // SAFETY: no C code runs, so nobody writes.
        Some(unsafe { (*client.get()).detector })
    }

    /// How many clients are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Connection {
    /// It may send so much; 0: it is not capped.
    #[must_use]
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.0.rate_bytes_per_s
    }

    /// The rate that bounds pacing; 0: none does.
    #[must_use]
    pub fn pacing_cap_bytes_per_s(&self, options: &Options) -> u64 {
        (u128::from(self.0.rate_bytes_per_s) * u128::from(options.margin_ratio_ppm) / 1_000_000) as u64
    }

    /// The window that the rate fills [segments]; none if it is not bounded.
    #[must_use]
    pub fn window_pkts(&self, mut socket: Socket, floor_pkts: u32, is_paced: bool) -> Option<u32> {
        // SAFETY: both are whole structures, and outlive the call.
        let pkts = unsafe {
            rtcp_host_flow_window(&raw mut socket, &raw const self.0, floor_pkts, i32::from(is_paced))
        };
        (pkts != NO_WINDOW).then_some(pkts)
    }

    /// Its client is limited, or seems to be: an estimate waits for its verdict.
    #[must_use]
    pub fn may_be_limited(&self) -> bool {
        self.0.limited != 0 || self.0.suspected != 0
    }

    /// Whether it is to find out if more gets through now: an `enum rtcp_seeking`.
    #[must_use]
    pub fn seeks(&self) -> rtcp_seeking {
        self.0.seeks.into()
    }

    /// The client's ends.
    #[must_use]
    pub fn remote(&self) -> &Remote {
        &self.0.key.remote
    }
}
