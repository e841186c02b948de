//! Writing to a map by its descriptor.

use std::os::fd::{AsRawFd, OwnedFd};

use crate::{Error, Result};

/// Puts a value under a key.
pub(crate) fn put<T>(map: &OwnedFd, key: u32, value: &T) -> Result<()> {
    // SAFETY: callers pass the map's value type; the key is a u32.
    let done = unsafe {
        libbpf_sys::bpf_map_update_elem(
            map.as_raw_fd(),
            (&raw const key).cast(),
            (&raw const *value).cast(),
            0,
        )
    };
    if done < 0 {
        return Err(Error::new("load.map", "cannot write to a map of the datapath")
            .why(std::io::Error::from_raw_os_error(-done))
            .fix("see ccp doctor"));
    }
    Ok(())
}
