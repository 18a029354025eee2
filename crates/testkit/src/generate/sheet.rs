//! Writes native lines from templates: `$A` to `$Z` stand for facts of the session.
//!
//! Big texts are cut from one prepared sheet of filler, already escaped, so that gigabytes are copied
//! rather than composed.

use super::chance::Chance;

const BLOCK: usize = 64;
const BLOCKS: u64 = 16 << 10;

const WORDS: &[&str] = &[
    "adjust", "buffer", "cache", "check", "client", "column", "config", "cursor", "delete",
    "deploy", "error", "fetch", "field", "filter", "folder", "format", "handle", "header",
    "import", "index", "input", "insert", "label", "layout", "limit", "listen", "login", "merge",
    "module", "number", "option", "order", "output", "parser", "patch", "prompt", "query", "queue",
    "reader", "record", "remove", "render", "report", "request", "retry", "return", "route",
    "schema", "search", "server", "session", "signal", "socket", "source", "status", "stream",
    "table", "target", "test", "thread", "token", "update", "value", "worker", "writer",
];

/// A megabyte of text in the escaped form of a JSON string, in blocks that can be cut anywhere between.
pub(super) struct Filler(Vec<u8>);

impl Filler {
    pub(super) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, u64::MAX);
        let mut text = Vec::new();
        for number in 0..BLOCKS {
            let start = text.len();
            match number % 48 {
                // The text of a transcript may itself look like a transcript.
                7 => text.extend(br#"{\"type\":\"user\",\"usage\":{\"input_tokens\":9"#),
                19 => text.extend(br#"\t\"path\": \"src\\\\main\","#),
                31 => text.extend("größe → naïve ✓ ".as_bytes()),
                _ => {}
            }
            while text.len() - start < BLOCK - 12 {
                text.extend(chance.pick(WORDS).as_bytes());
                text.push(b' ');
            }
            text.resize(start + BLOCK - 2, b'.');
            text.extend(br"\n");
        }
        Self(text)
    }

    /// Cuts about this many bytes, never fewer than one block.
    pub(super) fn cut(&self, chance: &mut Chance, bytes: usize) -> &[u8] {
        let blocks = (bytes / BLOCK).clamp(1, self.0.len() / BLOCK);
        let start = chance.below((self.0.len() / BLOCK - blocks + 1) as u64);
        let start = usize::try_from(start).expect("within the sheet") * BLOCK;
        &self.0[start..start + blocks * BLOCK]
    }
}

/// Returns some words, as a person types them.
pub(super) fn words(chance: &mut Chance, count: u64) -> String {
    let words: Vec<&str> = (0..count).map(|_| *chance.pick(WORDS)).collect();
    words.join(" ")
}

/// Tokens of a whole session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
}

impl Tokens {
    pub(super) fn add(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
    }
}

/// One file in the making.
pub(super) struct Sheet<'a> {
    pub(super) bytes: Vec<u8>,
    pub(super) chance: Chance,
    filler: &'a Filler,
    slots: [Vec<u8>; 26],
    clock_ms: i64,
    /// About how large the file is to become.
    target: usize,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(filler: &'a Filler, chance: Chance, start_ms: i64, target: usize) -> Self {
        let bytes = Vec::with_capacity(target + (8 << 10));
        Self { bytes, chance, filler, slots: Default::default(), clock_ms: start_ms, target }
    }

    /// Returns the moment of the newest line.
    pub(super) fn clock_ms(&self) -> i64 {
        self.clock_ms
    }

    /// Returns how many bytes may still be written, the end of the file kept free.
    pub(super) fn room(&self, end: usize) -> usize {
        self.target.saturating_sub(self.bytes.len() + end)
    }

    pub(super) fn set(&mut self, slot: u8, value: impl AsRef<[u8]>) {
        let slot = &mut self.slots[usize::from(slot - b'A')];
        slot.clear();
        slot.extend_from_slice(value.as_ref());
    }

    /// Fills a slot with about this many bytes of text.
    pub(super) fn fill(&mut self, slot: u8, bytes: usize) {
        let text = self.filler.cut(&mut self.chance, bytes);
        let slot = &mut self.slots[usize::from(slot - b'A')];
        slot.clear();
        slot.extend_from_slice(text);
    }

    /// Puts the content of one slot, in quotes, into another.
    pub(super) fn quote(&mut self, from: u8, to: u8) {
        let value = std::mem::take(&mut self.slots[usize::from(from - b'A')]);
        let slot = &mut self.slots[usize::from(to - b'A')];
        slot.clear();
        slot.push(b'"');
        slot.extend_from_slice(&value);
        slot.push(b'"');
        self.slots[usize::from(from - b'A')] = value;
    }

    /// Lets time pass and puts the new moment into slot `T`.
    pub(super) fn tick(&mut self, most_ms: u64) {
        self.clock_ms += i64::try_from(self.chance.between(1, most_ms)).expect("small");
        self.set(b'T', moment(self.clock_ms));
    }

    /// Writes a template, its slots filled.
    pub(super) fn write(&mut self, template: &str) {
        let mut rest = template.as_bytes();
        while let Some(at) = rest.iter().position(|b| *b == b'$') {
            self.bytes.extend_from_slice(&rest[..at]);
            let slot = rest[at + 1];
            self.bytes.extend_from_slice(&self.slots[usize::from(slot - b'A')]);
            rest = &rest[at + 2..];
        }
        self.bytes.extend_from_slice(rest);
    }

    /// Writes a template as a line.
    pub(super) fn line(&mut self, template: &str) {
        self.write(template);
        self.bytes.push(b'\n');
    }
}

/// Returns a moment as the agents write it.
pub(super) fn moment(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms).expect("a moment of our time");
    format!("{at:.3}")
}
