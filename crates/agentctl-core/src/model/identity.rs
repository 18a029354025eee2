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

/// Returns a text of the same form for parts of which an agent chooses some: no two lists of parts with the same
/// text can be made up. The first half of SHA-256.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        context.update(part.as_bytes());
        // No part has this byte.
        context.update(&[0xff]);
    }
    let bytes = context.finish();
    let first_half = bytes.as_ref().iter().take(16);
    let number = first_half.fold(0_u128, |number, byte| (number << 8) | u128::from(*byte));
    format!("{number:032x}")
}
