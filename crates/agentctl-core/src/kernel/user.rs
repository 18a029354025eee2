//! The name of a user in the system's password database.

use std::ffi::{CStr, CString, c_char, c_int};

/// Maximum size of an entry.
const ENTRY_BYTES: usize = 16 << 10;

/// The system's `struct passwd`. Its first field is the name on every supported system; the rest is not read,
/// and the array is larger than any of them.
#[repr(C)]
struct Passwd {
    name: *const c_char,
    rest: [usize; 31],
}

unsafe extern "C" {
    fn getpwuid_r(
        uid: u32,
        entry: *mut Passwd,
        buffer: *mut c_char,
        length: usize,
        found: *mut *mut Passwd,
    ) -> c_int;
    fn getpwnam_r(
        name: *const c_char,
        entry: *mut Passwd,
        buffer: *mut c_char,
        length: usize,
        found: *mut *mut Passwd,
    ) -> c_int;
}

/// Says whether the password database has a user of this name.
#[must_use]
pub fn user_exists(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    let mut entry = Passwd { name: std::ptr::null(), rest: [0; 31] };
    let mut buffer = vec![0 as c_char; ENTRY_BYTES];
    let mut found: *mut Passwd = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and the length is that of the buffer.
    let failed = unsafe {
        let (entry, length) = (&raw mut entry, buffer.len());
        getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), length, &raw mut found)
    };
    failed == 0 && !found.is_null()
}

/// Returns the name of a user; `None` if the password database has no entry.
#[must_use]
pub fn user_name(uid: u32) -> Option<String> {
    let mut entry = Passwd { name: std::ptr::null(), rest: [0; 31] };
    let mut buffer = vec![0 as c_char; ENTRY_BYTES];
    let mut found: *mut Passwd = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and the length is that of the buffer.
    let failed = unsafe {
        getpwuid_r(uid, &raw mut entry, buffer.as_mut_ptr(), buffer.len(), &raw mut found)
    };
    if failed != 0 || found.is_null() || entry.name.is_null() {
        return None;
    }
    // SAFETY: the call succeeded, so the name is a string with its end inside `buffer`.
    let name = unsafe { CStr::from_ptr(entry.name) };
    name.to_str().ok().filter(|name| !name.is_empty()).map(str::to_owned)
}
