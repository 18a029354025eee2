//! Ids that two processes compute alike from the same facts.

/// Returns a text that is the same for the same parts in every process: FNV-1a, 128 bits.
pub(crate) fn identity(parts: &[&str]) -> String {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    // No part has the byte that ends each of them.
    for byte in parts.iter().flat_map(|part| part.bytes().chain([0xff])) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    format!("{hash:032x}")
}
