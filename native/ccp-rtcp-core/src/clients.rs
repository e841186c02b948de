//! All clients of a host: one detector and one limiter for all connections to a client.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;

use crate::types::{rtcp_client, rtcp_flow, rtcp_key, rtcp_seeking, rtcp_table};
use crate::{Options, Remote, Row, Socket, rtcp_detector};

/// Value of `flow_window` without a bound.
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
/// The C code keeps pointers to clients while others are added and removed.
type Table = BTreeMap<Key, Box<UnsafeCell<rtcp_client>>>;

fn key_of(key: &rtcp_key) -> Key {
    // SAFETY: integers without gaps, as asserted for `Remote`.
    unsafe { std::mem::transmute_copy(key) }
}

#[derive(Default)]
pub struct Clients(Table);

// SAFETY: clients are written only through `&mut Clients`, and nothing in them is bound to a thread.
unsafe impl Send for Clients {}
// SAFETY: as above; `&Clients` only reads.
unsafe impl Sync for Clients {}

/// The state of a connection to a client.
#[derive(Clone, Debug, Default)]
pub struct Connection(rtcp_flow);

/// A client's state after its detector has processed one of its connections.
#[derive(Clone, Copy, Debug)]
pub struct Learned {
    pub row: Row,
    /// The verdict differs from the last one, of any connection.
    pub is_news: bool,
}

unsafe extern "C" fn find(table: *mut c_void, key: *const rtcp_key) -> *mut rtcp_client {
    // SAFETY: both are passed on by `Clients::call` and the C code, and outlive the call.
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
        // SAFETY: all are complete structures that outlive the call; `begin` has checked the options.
        unsafe { call(&raw mut table, socket, &raw mut connection.0, options) };
        (table.has_row != 0).then_some(Learned { row: table.row, is_news: table.is_news != 0 })
    }

    /// Begins a connection, with its client's state. Panics if there are too many candidates for the C code.
    pub fn begin(&mut self, mut socket: Socket, options: &Options) -> Connection {
        assert!(options.usable(), "between 3 and 17 candidates");
        let mut connection = Connection::default();
        self.call(rtcp_host_flow_begin, &mut socket, &mut connection, options);
        connection
    }

    /// Sending resumes after the connection had nothing to send.
    pub fn start(
        &mut self,
        connection: &mut Connection,
        mut socket: Socket,
        options: &Options,
    ) -> Option<Learned> {
        self.call(rtcp_host_flow_start, &mut socket, connection, options)
    }

    /// Handles an ACK; if nothing is left to be acknowledged, the connection has nothing to send.
    pub fn ack(
        &mut self,
        connection: &mut Connection,
        mut socket: Socket,
        options: &Options,
    ) -> Option<Learned> {
        self.call(rtcp_host_flow_ack, &mut socket, connection, options)
    }

    pub fn leave(&mut self, mut connection: Connection, mut socket: Socket, options: &Options) {
        self.call(rtcp_host_flow_leave, &mut socket, &mut connection, options);
    }

    /// The detector of a connection's client; None without a client.
    #[must_use]
    pub fn detector(&self, connection: &Connection) -> Option<rtcp_detector> {
        let client = self.0.get(&key_of(&connection.0.key))?;
        // SAFETY: no C code runs, so there is no writer.
        Some(unsafe { (*client.get()).detector })
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Connection {
    /// Maximum rate; 0: not capped.
    #[must_use]
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.0.rate_bytes_per_s
    }

    /// Bound of the pacing rate; 0: none.
    #[must_use]
    pub fn pacing_cap_bytes_per_s(&self, options: &Options) -> u64 {
        (u128::from(self.0.rate_bytes_per_s) * u128::from(options.margin_ratio_ppm) / 1_000_000) as u64
    }

    /// The window that the rate fills [segments]; None if not bounded.
    #[must_use]
    pub fn window_pkts(&self, mut socket: Socket, floor_pkts: u32, is_paced: bool) -> Option<u32> {
        // SAFETY: both are complete structures that outlive the call.
        let pkts = unsafe {
            rtcp_host_flow_window(&raw mut socket, &raw const self.0, floor_pkts, i32::from(is_paced))
        };
        (pkts != NO_WINDOW).then_some(pkts)
    }

    /// Whether its client is limited, or seems to be: an estimate awaits its verdict.
    #[must_use]
    pub fn may_be_limited(&self) -> bool {
        self.0.limited != 0 || self.0.suspected != 0
    }

    /// Whether it should probe for more: an `enum rtcp_seeking`.
    #[must_use]
    pub fn seeks(&self) -> rtcp_seeking {
        self.0.seeks.into()
    }

    #[must_use]
    pub fn remote(&self) -> &Remote {
        &self.0.key.remote
    }
}
