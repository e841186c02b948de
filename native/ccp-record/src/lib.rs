//! What a datapath tells an agent: records of flows and their reports, in the layout that the BPF programs write.

/// What the BPF programs and we share, made from `ccp-bpf/src/bpf/intf.h`.
#[allow(non_camel_case_types, non_snake_case, non_upper_case_globals, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
pub mod intf {
    include!(concat!(env!("OUT_DIR"), "/intf.rs"));
}

use intf::{ccp_close, ccp_create, ccp_limit_change, ccp_record};

/// Records as they came, one after the other.
#[derive(Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

/// One record of the ring.
#[derive(Debug)]
pub enum Record<'a> {
    /// Report registers of a flow.
    Report {
        /// Who, when, and the window and rate at that time.
        head: ccp_record,
        /// The record as it came: its head, then one u64 a report register.
        raw: &'a [u8],
    },
    /// A socket chose one of our names.
    Create(ccp_create),
    /// It closed or chose another.
    Close(ccp_close),
    /// What is known of the rate limit of its client has become another.
    Limit(ccp_limit_change),
}

impl Records {
    /// How many records there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Flows that ended, by the records here.
    pub fn closed(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).filter_map(|i| match self.get(i) {
            Some(Record::Close(close)) => Some(close.record.flow_id),
            _ => None,
        })
    }

    /// Adds a record as it came.
    pub fn push(&mut self, data: &[u8]) {
        self.starts.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(data);
    }

    fn raw(&self, index: usize) -> Option<&[u8]> {
        let start = *self.starts.get(index)? as usize;
        let end = self.starts.get(index + 1).map_or(self.bytes.len(), |e| *e as usize);
        self.bytes.get(start..end)
    }

    /// The record at an index; `None` past the end, or for a record of an unknown kind.
    pub fn get(&self, index: usize) -> Option<Record<'_>> {
        let raw = self.raw(index)?;
        let head: ccp_record = copy_out(raw)?;
        match head.kind {
            intf::CCP_RECORD_REPORT => {
                let bytes = size_of::<ccp_record>() + 8 * usize::from(head.n_fields);
                Some(Record::Report { head, raw: raw.get(..bytes)? })
            }
            intf::CCP_RECORD_CREATE => copy_out(raw).map(Record::Create),
            intf::CCP_RECORD_CLOSE => copy_out(raw).map(Record::Close),
            intf::CCP_RECORD_LIMIT => copy_out(raw).map(Record::Limit),
            _ => None,
        }
    }
}

/// A plain structure from the start of a record, `None` when the record is too short.
pub fn copy_out<T: Copy>(raw: &[u8]) -> Option<T> {
    // SAFETY: enough bytes are there, and every T used here is plain integers, so any bytes are a value.
    (raw.len() >= size_of::<T>()).then(|| unsafe { raw.as_ptr().cast::<T>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_too_short_or_unknown_is_no_record() {
        let mut records = Records::default();
        let mut head = ccp_record { kind: intf::CCP_RECORD_REPORT, n_fields: 2, ..Default::default() };
        let bytes = |head: &ccp_record| {
            // SAFETY: plain integers.
            unsafe { std::slice::from_raw_parts((&raw const *head).cast::<u8>(), size_of::<ccp_record>()) }
                .to_vec()
        };
        let mut whole = bytes(&head);
        whole.extend([7u64, 9].iter().flat_map(|v| v.to_ne_bytes()));
        records.push(&whole);
        records.push(&whole[..whole.len() - 1]);
        records.push(&whole[..4]);
        head.kind = 99;
        records.push(&bytes(&head));
        assert_eq!(records.len(), 4);
        assert!(matches!(records.get(0), Some(Record::Report { raw, .. }) if raw.len() == whole.len()));
        assert!(records.get(1).is_none() && records.get(2).is_none() && records.get(3).is_none());
        assert!(records.get(4).is_none());
    }
}
