//! Records from a datapath to an agent, in the layout of the BPF programs, and updates from an agent to a flow.

/// Types shared with the BPF programs, made from `ccp-bpf/src/bpf/intf.h`.
#[allow(non_camel_case_types, non_snake_case, non_upper_case_globals, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
pub mod intf {
    include!(concat!(env!("OUT_DIR"), "/intf.rs"));
}

mod facts;
mod update;

pub use facts::{
    COUNTERS, FALLBACK_CAUSES, Fact, HEAD_COLUMNS, PRIMITIVES, REPORT_FLAGS, REPORT_HEAD, TOTALS, counters,
    fallback_cause,
};
pub use update::{Message, Update};

/// The state of a socket, made from `ccp-trace/src/bpf/row.h`.
#[allow(non_camel_case_types, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
pub mod row {
    include!(concat!(env!("OUT_DIR"), "/row.rs"));
}

/// Arrivals on a socket, made from `ccp-trace/src/bpf/arrivals.h`.
#[allow(non_camel_case_types, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
pub mod flow {
    include!(concat!(env!("OUT_DIR"), "/arrivals.rs"));
}

mod arrivals;

pub use arrivals::{bin_bounds_us, bin_of_us, growth};

use intf::{ccp_close, ccp_create, ccp_record};

/// Records in order of arrival.
#[derive(Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    starts: Vec<u32>,
    /// Times at which the wait ended and the records were taken, on CLOCK_MONOTONIC [us]; 0 in a simulation.
    pub woken_us: u64,
    pub taken_us: u64,
}

#[derive(Debug)]
pub enum Record<'a> {
    Report {
        /// Flow, time, and the window and rate at that time.
        head: ccp_record,
        /// The record: its head, then one u64 per report register.
        raw: &'a [u8],
    },
    /// A socket chose one of ccplane's names.
    Create(ccp_create),
    /// The socket closed or chose another congestion control.
    Close(ccp_close),
    Extension {
        /// Flow, time, and the extension's index in `program`.
        head: ccp_record,
        /// The message, in the extension's format.
        raw: &'a [u8],
    },
}

impl Records {
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Flows that ended in these records.
    pub fn closed(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).filter_map(|i| match self.get(i) {
            Some(Record::Close(close)) => Some(close.record.flow_id),
            _ => None,
        })
    }

    pub fn push(&mut self, data: &[u8]) {
        self.starts.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(data);
    }

    /// Adds a report, or a message of an extension, with the number of fields in its head.
    pub fn push_fields(&mut self, head: &ccp_record, fields: &[u64]) {
        self.push(bytes_of(head));
        self.bytes.extend(fields.iter().flat_map(|field| field.to_ne_bytes()));
    }

    fn raw(&self, index: usize) -> Option<&[u8]> {
        let start = *self.starts.get(index)? as usize;
        let end = self.starts.get(index + 1).map_or(self.bytes.len(), |e| *e as usize);
        self.bytes.get(start..end)
    }

    /// The record at an index; `None` beyond the end, or for an unknown kind.
    pub fn get(&self, index: usize) -> Option<Record<'_>> {
        let raw = self.raw(index)?;
        let head: ccp_record = copy_out(raw)?;
        let bytes = size_of::<ccp_record>() + 8 * usize::from(head.n_fields);
        match head.kind {
            intf::CCP_RECORD_REPORT => Some(Record::Report { head, raw: raw.get(..bytes)? }),
            intf::CCP_RECORD_EXTENSION => {
                Some(Record::Extension { head, raw: raw.get(size_of::<ccp_record>()..bytes)? })
            }
            intf::CCP_RECORD_CREATE => copy_out(raw).map(Record::Create),
            intf::CCP_RECORD_CLOSE => copy_out(raw).map(Record::Close),
            _ => None,
        }
    }
}

/// A structure that is sent as bytes.
///
/// # Safety
///
/// It consists of integers without gaps.
pub unsafe trait Plain: Copy {}

// SAFETY: clang rejects gaps where the headers require it (-Wpadded).
unsafe impl Plain for ccp_record {}
// SAFETY: as above.
unsafe impl Plain for ccp_create {}
// SAFETY: as above.
unsafe impl Plain for ccp_close {}
// SAFETY: as above.
unsafe impl Plain for row::tcp_row {}
// SAFETY: as above.
unsafe impl Plain for flow::tcp_arrivals {}

pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: every byte belongs to an integer, and is borrowed as long as the value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// A plain structure from the start of a record, `None` if the record is too short.
pub fn copy_out<T: Copy>(raw: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, and every T used here is plain integers, so any bytes are valid.
    (raw.len() >= size_of::<T>()).then(|| unsafe { raw.as_ptr().cast::<T>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_too_short_or_unknown_is_no_record() {
        let mut records = Records::default();
        let mut head = ccp_record { kind: intf::CCP_RECORD_REPORT, n_fields: 2, ..Default::default() };
        records.push_fields(&head, &[7, 9]);
        let whole = records.raw(0).unwrap().to_vec();
        records.push(&whole[..whole.len() - 1]);
        records.push(&whole[..4]);
        head.kind = 99;
        records.push(bytes_of(&head));
        assert_eq!(records.len(), 4);
        assert!(matches!(records.get(0), Some(Record::Report { raw, .. }) if raw.len() == whole.len()));
        assert!(records.get(1).is_none() && records.get(2).is_none() && records.get(3).is_none());
        assert!(records.get(4).is_none());
    }
}
