//! Pairs of connected Unix sockets: `/proc` does not show them, the kernel's socket diagnosis does.

use std::io;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use crate::kernel::deadline;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_ALL: u16 = 0x301;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
const HEADER_BYTES: usize = 16;
const SOCKET_BYTES: usize = 16;
/// Most pages of sockets that are read, in case the kernel never ends its list.
const MAX_PAGES: usize = 10_000;

/// Returns the inode numbers of the connected Unix sockets of this network namespace, each with its peer's.
pub(super) fn pairs() -> io::Result<Vec<(u64, u64)>> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    sendto(&socket, &request(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut found = Vec::new();
    let mut page = vec![0; 64 << 10];
    for _ in 0..MAX_PAGES {
        deadline::check()?;
        // The answer is complete when the request was accepted: this does not block.
        let (count, _) = recv(&socket, page.as_mut_slice(), RecvFlags::empty())?;
        if read_page(&page[..count], &mut found)? {
            return Ok(found);
        }
    }
    Err(io::Error::other("the kernel's list of sockets does not end"))
}

fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    bytes.extend(40_u32.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_ALL.to_ne_bytes());
    // Sequence number and port.
    bytes.extend([0; 8]);
    // Family, protocol and two bytes of padding.
    bytes.extend([1, 0, 0, 0]);
    // Sockets in every state, with any inode.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    // No cookie.
    bytes.extend([0xff; 8]);
    bytes
}

/// Reads one page of the answer; says whether it was the last one.
fn read_page(mut page: &[u8], found: &mut Vec<(u64, u64)>) -> io::Result<bool> {
    while page.len() >= HEADER_BYTES {
        let length = u32_at(page, 0) as usize;
        match u16_at(page, 4) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = u32_at(page, HEADER_BYTES).cast_signed();
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            _ => {}
        }
        let Some(message) = page.get(HEADER_BYTES..length) else { break };
        if let Some(peer) = message.get(SOCKET_BYTES..).and_then(peer) {
            found.push((u64::from(u32_at(message, 4)), u64::from(peer)));
        }
        page = page.get(aligned(length)..).unwrap_or_default();
    }
    Ok(false)
}

/// Reads the inode number of the peer among the attributes of a socket.
fn peer(mut attributes: &[u8]) -> Option<u32> {
    while attributes.len() >= 4 {
        let length = usize::from(u16_at(attributes, 0));
        if u16_at(attributes, 2) == UNIX_DIAG_PEER && length >= 8 {
            return Some(u32_at(attributes, 4));
        }
        attributes = attributes.get(aligned(length.max(4))..)?;
    }
    None
}

fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}
