//! Access to maps by their descriptors.

use std::os::fd::{AsRawFd, OwnedFd};

use crate::{Error, Result};

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

/// Removes an entry, if there is one.
pub(crate) fn remove(map: &OwnedFd, key: u32) {
    // SAFETY: the key is a u32.
    unsafe { libbpf_sys::bpf_map_delete_elem(map.as_raw_fd(), (&raw const key).cast()) };
}

pub(crate) fn get<T: Default>(map: &OwnedFd, key: u32) -> Result<T> {
    let mut value = T::default();
    // SAFETY: callers ask for the map's value type; the key is a u32.
    let done = unsafe {
        libbpf_sys::bpf_map_lookup_elem(map.as_raw_fd(), (&raw const key).cast(), (&raw mut value).cast())
    };
    if done < 0 { Err(unreadable(-done)) } else { Ok(value) }
}

/// Size of a map's values [bytes].
pub(crate) fn value_bytes(map: &OwnedFd) -> Result<usize> {
    let mut info = libbpf_sys::bpf_map_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: the structure has the given size.
    let done = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(map.as_raw_fd(), (&raw mut info).cast(), &raw mut bytes)
    };
    if done < 0 { Err(unreadable(-done)) } else { Ok(info.value_size as usize) }
}

fn unreadable(errno: i32) -> Error {
    Error::new("load.map", "cannot read a map of the datapath")
        .why(std::io::Error::from_raw_os_error(errno))
        .fix("see ccp doctor")
}
