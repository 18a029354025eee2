//! HMAC-SHA256 after RFC 2104 and FIPS 180-4, implemented independently, as a receiver would compute
//! it. For tests only: it is slow and not constant-time.

const BLOCK: usize = 64;

/// Returns the code of a message under a key.
#[must_use]
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut padded = [0; BLOCK];
    if key.len() > BLOCK {
        padded[..32].copy_from_slice(&sha256(key));
    } else {
        padded[..key.len()].copy_from_slice(key);
    }
    let inner: Vec<u8> = padded.iter().map(|b| b ^ 0x36).chain(message.iter().copied()).collect();
    let outer: Vec<u8> = padded.iter().map(|b| b ^ 0x5c).chain(sha256(&inner)).collect();
    sha256(&outer)
}

/// Returns bytes as lower-case digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// The first primes; the constants are the fractions of their roots.
fn primes() -> impl Iterator<Item = u32> {
    (2_u32..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0))
}

/// The first 32 bits of the fraction of the `root`-th root of a number.
fn fraction(of: u32, root: u32) -> u32 {
    // The largest x with x^root <= of * 2^(32*root), by bisection in whole numbers.
    let target = u128::from(of) << (32 * root);
    let (mut low, mut high) = (0_u128, 1 << 40);
    while high - low > 1 {
        let middle = u128::midpoint(low, high);
        let small = (0..root).try_fold(1_u128, |p, _| p.checked_mul(middle));
        if small.is_some_and(|power| power <= target) { low = middle } else { high = middle }
    }
    u32::try_from(low & 0xffff_ffff).expect("32 bits")
}

fn sha256(message: &[u8]) -> [u8; 32] {
    let constants: Vec<u32> = primes().take(64).map(|p| fraction(p, 3)).collect();
    let mut state: Vec<u32> = primes().take(8).map(|p| fraction(p, 2)).collect();
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % BLOCK != BLOCK - 8 {
        padded.push(0);
    }
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(BLOCK) {
        let mut words: Vec<u32> = block
            .chunks(4)
            .map(|four| u32::from_be_bytes(four.try_into().expect("four bytes")))
            .collect();
        for at in 16..64 {
            let (a, b) = (words[at - 15], words[at - 2]);
            let first = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let second = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            let sum = words[at - 16].wrapping_add(first);
            words.push(sum.wrapping_add(words[at - 7]).wrapping_add(second));
        }
        let mut v: [u32; 8] = state.clone().try_into().expect("eight");
        for at in 0..64 {
            let big = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let one = [big, choice, constants[at], words[at]];
            let one = one.into_iter().fold(v[7], u32::wrapping_add);
            let other = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            v.rotate_right(1);
            v[4] = v[4].wrapping_add(one);
            v[0] = one.wrapping_add(other).wrapping_add(majority);
        }
        for (old, new) in state.iter_mut().zip(v) {
            *old = old.wrapping_add(new);
        }
    }
    let bytes: Vec<u8> = state.into_iter().flat_map(u32::to_be_bytes).collect();
    bytes.try_into().expect("32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_follows_rfc_4231() {
        let code = hmac_sha256(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hex(&code), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let code =
            hmac_sha256(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(&code), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }
}
