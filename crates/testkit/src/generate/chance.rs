//! Seeded chance: a small generator of our own, so that a seed means the same home for ever.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)] // sizes and shares, all far below the limits

/// A stream of numbers that its seed determines.
pub(super) struct Chance(u64);

impl Chance {
    /// Begins the stream of this seed and this part of the work.
    pub(super) fn new(seed: u64, part: u64) -> Self {
        // Two rounds of splitmix spread neighbouring seeds apart.
        let mut state = seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for _ in 0..2 {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            state ^= state >> 31;
        }
        Self(state | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `limit`.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a number of this range, its end left out.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from).max(1))
    }

    /// Says yes in `percent` of a hundred cases.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Returns a size: half are below `median`, and the logarithm is spread by `sigma`.
    pub(super) fn log_normal(&mut self, median: f64, sigma: f64) -> u64 {
        let unit = |n: u64| ((n >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        let (radius, angle) = (unit(self.next()), unit(self.next()));
        let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
        (median * (sigma * normal).exp()) as u64
    }

    /// Returns this many hexadecimal digits.
    pub(super) fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits + 16);
        while text.len() < digits {
            text.push_str(&format!("{:016x}", self.next()));
        }
        text.truncate(digits);
        text
    }

    /// Returns a random id, version 4.
    pub(super) fn uuid4(&mut self) -> String {
        let high = self.next() & 0xffff_ffff_ffff_0fff | 0x4000;
        uuid(high, self.next())
    }

    /// Returns an id that begins with this moment, version 7.
    pub(super) fn uuid7(&mut self, at_ms: i64) -> String {
        let high = (at_ms as u64) << 16 | 0x7000 | self.next() & 0xfff;
        uuid(high, self.next())
    }
}

fn uuid(high: u64, low: u64) -> String {
    let low = low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}
