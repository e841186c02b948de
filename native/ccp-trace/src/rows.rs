//! Rows written by a program into its ring buffer, as bytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::{Object, RingBuffer, RingBufferBuilder};

use crate::Result;
use crate::load::refused;

type Bytes = Arc<Mutex<Vec<u8>>>;

/// The reader of a ring buffer of an object: `rows`, unless named otherwise.
pub struct Rows {
    ring: RingBuffer<'static>,
    taken: Bytes,
}

impl Rows {
    /// Reads rows of so many bytes. Errors: `trace.refused`: the object has no such ring buffer.
    pub fn of(object: &Object, row_bytes: usize) -> Result<Self> {
        Self::named(object, "rows", row_bytes)
    }

    /// Reads a ring buffer of another name. Errors: `trace.refused`: the object has no such ring buffer.
    pub fn named(object: &Object, name: &str, row_bytes: usize) -> Result<Self> {
        let taken = Bytes::default();
        let fill = Arc::clone(&taken);
        let rows = ccp_load::map(object, name)?;
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&rows, move |row| {
                if let Some(row) = row.get(..row_bytes) {
                    lock(&fill).extend_from_slice(row);
                }
                0
            })
            .map_err(|e| refused(&e))?;
        Ok(Rows { ring: builder.build().map_err(|e| refused(&e))?, taken })
    }

    /// Rows since the last call, concatenated. Errors: `trace.refused`.
    pub fn drain(&self) -> Result<Vec<u8>> {
        self.ring.consume().map_err(|e| refused(&e))?;
        Ok(std::mem::take(&mut *lock(&self.taken)))
    }
}

fn lock(bytes: &Bytes) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}
