//! The layout of a table of clients, kept beside it so that another version can read it.

use std::fmt::Write as _;
use std::mem::offset_of;

use crate::core::types::{rtcp_client, rtcp_key};

/// Distinguishes structures of different sources.
const HASH: &str = env!("CCP_RTCP_LAYOUT");

/// Fields needed to keep a client's verdict.
const NEEDED: [&str; 5] =
    ["netns_cookie", "remote", "detector.limited", "detector.bucket_bytes", "detector.rate_bytes_per_s"];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    offset: usize,
    size: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    hash: String,
    key_size: usize,
    value_size: usize,
    key: Vec<Field>,
    value: Vec<Field>,
}

/// Each named field of a structure.
macro_rules! fields {
    ($of:ty: $($($part:ident).+),+ $(,)?) => {
        vec![$({
            fn size<T>(_: fn(&$of) -> &T) -> usize {
                size_of::<T>()
            }
            Field {
                name: stringify!($($part).+).split_whitespace().collect(),
                offset: offset_of!($of, $($part).+),
                size: size(|it| &it.$($part).+),
            }
        }),+]
    };
}

impl Layout {
    /// The layout of this version: the fields of a verdict.
    pub fn own() -> Self {
        Layout {
            hash: HASH.to_owned(),
            key_size: size_of::<rtcp_key>(),
            value_size: size_of::<rtcp_client>(),
            key: fields!(rtcp_key: netns_cookie, remote),
            value: fields!(rtcp_client:
                over_us, open_flows, netns, apart, detector.limited, detector.mss_bytes, detector.bucket_bytes,
                detector.rate_bytes_per_s, detector.reported_bytes_per_s, detector.highest_bytes_per_s,
                detector.tokens_ubytes, detector.transfer.origin_us, detector.last.time_us),
        }
    }

    pub fn is_own(&self) -> bool {
        self.hash == HASH
            && (self.key_size, self.value_size) == (size_of::<rtcp_key>(), size_of::<rtcp_client>())
    }

    pub fn fits(&self, key_size: u32, value_size: u32) -> bool {
        (self.key_size, self.value_size) == (key_size as usize, value_size as usize)
    }

    /// A line of sizes, and one for each field.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {} {}\n", self.hash, self.key_size, self.value_size);
        for (part, fields) in [("key", &self.key), ("value", &self.value)] {
            for Field { name, offset, size } in fields {
                let _ = writeln!(text, "{part} {name} {offset} {size}"); // cannot fail
            }
        }
        text
    }

    /// Parses it; none if it is invalid.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.trim_end_matches('\0').lines();
        let mut head = lines.next()?.split(' ');
        let hash = head.next()?.to_owned();
        let mut layout = Layout {
            hash,
            key_size: head.next()?.parse().ok()?,
            value_size: head.next()?.parse().ok()?,
            key: Vec::new(),
            value: Vec::new(),
        };
        for line in lines {
            let [part, name, offset, size] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
            let field =
                Field { name: name.to_owned(), offset: offset.parse().ok()?, size: size.parse().ok()? };
            let (fields, maximum) = match part {
                "key" => (&mut layout.key, layout.key_size),
                "value" => (&mut layout.value, layout.value_size),
                _ => return None,
            };
            if field.offset.checked_add(field.size).is_none_or(|end| end > maximum) {
                return None;
            }
            fields.push(field);
        }
        Some(layout)
    }

    /// Whether such a table has all fields of a verdict.
    pub fn has_verdicts(&self) -> bool {
        let own = Layout::own();
        NEEDED.iter().all(|name| {
            [(&own.key, &self.key), (&own.value, &self.value)]
                .into_iter()
                .any(|(mine, reference)| mine.iter().any(|f| f.name == *name && same(reference, f).is_some()))
        })
    }

    /// Converts an entry to this version's structures; fields that it lacks are 0.
    pub fn entry(&self, key: &[u8], value: &[u8]) -> (rtcp_key, rtcp_client) {
        let own = Layout::own();
        let mut to = (rtcp_key::default(), rtcp_client::default());
        if self.is_own() {
            // SAFETY: as many bytes as the structures, whose integers may have any value.
            return unsafe {
                (
                    key.as_ptr().cast::<rtcp_key>().read_unaligned(),
                    value.as_ptr().cast::<rtcp_client>().read_unaligned(),
                )
            };
        }
        copy(&own.key, &self.key, key, bytes_of(&mut to.0));
        copy(&own.value, &self.value, value, bytes_of(&mut to.1));
        to
    }
}

fn same<'a>(fields: &'a [Field], wanted: &Field) -> Option<&'a Field> {
    fields.iter().find(|field| field.name == wanted.name && field.size == wanted.size)
}

fn copy(mine: &[Field], reference: &[Field], from: &[u8], to: &mut [u8]) {
    for our in mine {
        if let Some(there) = same(reference, our)
            && let Some(bytes) = from.get(there.offset..there.offset + there.size)
        {
            to[our.offset..our.offset + our.size].copy_from_slice(bytes);
        }
    }
}

pub(crate) fn bytes_of<T: Copy>(of: &mut T) -> &mut [u8] {
    // SAFETY: integers without gaps; any bytes are a value of each.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(of).cast::<u8>(), size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value with a longer beginning, without the number of open connections.
    fn other() -> Layout {
        let own = Layout::own();
        let later = |fields: Vec<Field>| {
            fields.into_iter().map(|f| Field { offset: f.offset + 8, ..f }).collect::<Vec<_>>()
        };
        let mut value = later(own.value);
        value.retain(|field| field.name != "open_flows");
        Layout { hash: "another".into(), value_size: own.value_size + 8, value, ..own }
    }

    #[test]
    fn it_is_read_as_it_was_reported() {
        let own = Layout::own();
        assert!(own.is_own() && own.has_verdicts());
        assert_eq!(Layout::from_text(&(own.to_text() + "\0\0")), Some(own));
        assert!(!other().is_own() && other().has_verdicts());
    }

    #[test]
    fn what_cannot_be_is_not_read() {
        for text in ["", "hash 24", "hash 24 9\nkey a 20 8", "hash 24 9\nvalue a 0", "hash 24 9\nother a 0 8"]
        {
            assert_eq!(Layout::from_text(text), None, "{text}");
        }
        let blind = Layout::from_text("hash 24 9\nvalue detector.limited 0 1").expect("it is well formed");
        assert!(!blind.has_verdicts());
    }

    #[test]
    fn an_entry_of_another_layout_has_what_both_know() {
        let mut reference = rtcp_client { over_us: 7, open_flows: 3, ..Default::default() };
        reference.detector.limited = 1;
        reference.detector.rate_bytes_per_s = 125_000;
        let mut key = rtcp_key { netns_cookie: 5, ..Default::default() };
        let value = [&[0xff; 8], &*bytes_of(&mut reference)].concat();
        let (at, client) = other().entry(bytes_of(&mut key), &value);
        assert_eq!((at.netns_cookie, client.over_us, client.open_flows), (5, 7, 0));
        assert_eq!((client.detector.limited, client.detector.rate_bytes_per_s), (1, 125_000));
    }
}
