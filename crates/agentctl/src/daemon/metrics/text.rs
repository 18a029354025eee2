//! Samples, and their two text formats: `OpenMetrics`, encoded by the official crate, and the Prometheus text
//! format, which is derived from it and differs in the names of counters.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::table::{ALL, Kind, Metric};

/// Maximum number of characters of a label value.
const MAX_LABEL_CHARS: usize = 64;
/// Maximum number of distinct values of a label that agents choose; further values become [`OTHER`].
const MAX_LABEL_VALUES: usize = 64;
/// The label value that stands for all values beyond the limit.
const OTHER: &str = "other";
/// The suffix of a counter's name. `OpenMetrics` omits it in the `# TYPE` and `# HELP` lines.
const TOTAL: &str = "_total";

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Prometheus text 0.0.4.
    Prometheus,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Form {
    /// Chooses the format that an `Accept` header prefers; Prometheus text without a preference.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        let (mut modern, mut plain) = (0.0, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let liked = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
            let liked: f64 = liked.unwrap_or(1.0);
            match name.as_str() {
                "application/openmetrics-text" => modern = liked.max(modern),
                "text/plain" | "text/*" | "*/*" => plain = liked.max(plain),
                _ => {}
            }
        }
        if modern > 0.0 && modern >= plain { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Returns its content type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A value of a label.
pub(super) type Value = Cow<'static, str>;

#[derive(Clone, Debug)]
enum Sample {
    Count(u64),
    Amount(f64),
    Spread(Histogram),
}

/// The samples of each metric, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(BTreeMap<(&'static str, Vec<Value>), Sample>);

impl Samples {
    /// Adds to a counter, or to a gauge of this scrape.
    pub(super) fn add(&mut self, metric: &Metric, labels: &[Value], more: u64) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let sample = self.0.entry((metric.name, labels.to_vec())).or_insert(Sample::Count(0));
        if let Sample::Count(count) = sample {
            *count = count.saturating_add(more);
        }
    }

    /// Adds a fractional amount.
    pub(super) fn add_amount(&mut self, metric: &Metric, labels: &[Value], more: f64) {
        let sample = self.0.entry((metric.name, labels.to_vec())).or_insert(Sample::Amount(0.0));
        if let Sample::Amount(amount) = sample {
            *amount += more;
        }
    }

    /// Adds a value to a histogram.
    pub(super) fn observe(&mut self, metric: &Metric, labels: &[Value], seconds: f64) {
        let Kind::Histogram(ends) = metric.kind else { return };
        let empty = || Sample::Spread(Histogram::new(ends.iter().copied()));
        let sample = self.0.entry((metric.name, labels.to_vec())).or_insert_with(empty);
        if let Sample::Spread(histogram) = sample {
            histogram.observe(seconds.max(0.0));
        }
    }

    /// Adds an empty histogram.
    pub(super) fn add_empty_histogram(&mut self, metric: &Metric) {
        if let Kind::Histogram(ends) = metric.kind {
            let empty = Sample::Spread(Histogram::new(ends.iter().copied()));
            self.0.entry((metric.name, Vec::new())).or_insert(empty);
        }
    }

    /// Adds the samples of another set.
    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Returns all samples as text.
    pub(super) fn text(self, form: Form) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode_registry(&mut text, &registry)?;
        match form {
            Form::OpenMetrics => encode_eof(&mut text)?,
            Form::Prometheus => text = prometheus_text(&text),
        }
        Ok(text)
    }
}

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in ALL {
            let mut own = self.0.iter().filter(|((name, _), _)| *name == metric.name).peekable();
            // Without a sample there are no `# TYPE` and `# HELP` lines either.
            if own.peek().is_none() {
                continue;
            }
            let (name, kind) = match metric.kind {
                Kind::Gauge => (metric.name, MetricType::Gauge),
                Kind::Counter => {
                    (metric.name.strip_suffix(TOTAL).unwrap_or(metric.name), MetricType::Counter)
                }
                Kind::Histogram(_) => (metric.name, MetricType::Histogram),
            };
            let mut family = encoder.encode_descriptor(name, metric.help, None, kind)?;
            if metric.labels.is_empty() {
                if let Some((_, sample)) = own.next() {
                    write(metric, sample, family)?;
                }
                continue;
            }
            for ((_, values), sample) in own {
                let labels = metric.labels.iter().copied().zip(values.iter().map(AsRef::as_ref));
                let labels: Vec<(&str, &str)> = labels.collect();
                write(metric, sample, family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn write(metric: &Metric, sample: &Sample, mut encoder: MetricEncoder<'_>) -> fmt::Result {
    match (metric.kind, sample) {
        (_, Sample::Spread(histogram)) => histogram.encode(encoder),
        (Kind::Counter, Sample::Count(n)) => encoder.encode_counter::<NoLabelSet, _, u64>(n, None),
        (Kind::Counter, Sample::Amount(n)) => encoder.encode_counter::<NoLabelSet, _, f64>(n, None),
        (_, Sample::Count(n)) => encoder.encode_gauge(&i64::try_from(*n).unwrap_or(i64::MAX)),
        (_, Sample::Amount(n)) => encoder.encode_gauge(n),
    }
}

/// Converts `OpenMetrics` to Prometheus text: the `# TYPE` and `# HELP` lines of a counter get its full name.
fn prometheus_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        let described = match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what), Some(name), Some(rest)) => Some((what, name, rest)),
            _ => None,
        };
        let total = |name: &str| {
            let whole = |metric: &&Metric| metric.name.strip_suffix(TOTAL) == Some(name);
            ALL.into_iter().find(|m| m.kind == Kind::Counter && whole(m))
        };
        match described.and_then(|(what, name, rest)| Some((what, total(name)?, rest))) {
            Some((what, metric, rest)) => {
                out.push_str(&format!("# {what} {} {rest}", metric.name));
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// Makes a text that an agent chose fit for a label: limits its length and replaces unusual characters.
pub(super) fn label(text: &str) -> String {
    let replaced =
        |c: char| if c.is_ascii_alphanumeric() || " ._:/@+()-".contains(c) { c } else { '_' };
    let text: String = text.trim().chars().take(MAX_LABEL_CHARS).map(replaced).collect();
    if text.is_empty() { "unknown".to_owned() } else { text }
}

/// The distinct values of a label that agents choose, limited in number.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(BTreeSet<String>);

impl Values {
    /// Returns the label value for a text.
    pub(super) fn name(&mut self, text: &str) -> Value {
        let text = label(text);
        if self.0.contains(&text) {
            return Value::Owned(text);
        }
        if self.0.len() >= MAX_LABEL_VALUES {
            return Value::Borrowed(OTHER);
        }
        self.0.insert(text.clone());
        Value::Owned(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::{ALL, Form, MAX_LABEL_CHARS, MAX_LABEL_VALUES, OTHER, Samples, Values, label};

    #[test]
    fn the_preferred_format_is_chosen() {
        let scraper = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, form) in [
            (scraper, Form::OpenMetrics),
            ("application/openmetrics-text", Form::OpenMetrics),
            ("", Form::Prometheus),
            ("*/*", Form::Prometheus),
            ("text/html, text/plain;q=0.9, application/openmetrics-text;q=0.1", Form::Prometheus),
            ("application/openmetrics-text;q=0", Form::Prometheus),
        ] {
            assert_eq!(Form::accepted(accept), form, "{accept}");
        }
    }

    #[test]
    fn each_metric_is_described_once_and_in_both_forms_under_its_name() {
        let mut samples = Samples::default();
        for metric in ALL {
            let labels = vec!["x".into(); metric.labels.len()];
            match metric.kind {
                table::Kind::Histogram(_) => samples.observe(metric, &labels, 1.0),
                _ => samples.add(metric, &labels, 1),
            }
        }
        let older = samples.clone().text(Form::Prometheus).expect("written");
        let modern = samples.text(Form::OpenMetrics).expect("written");
        assert!(modern.ends_with("# EOF\n") && !older.contains("# EOF"), "{modern}");
        let mut described = Vec::new();
        for metric in ALL {
            let family = metric.name.strip_suffix("_total").unwrap_or(metric.name);
            for (text, name) in [(&older, metric.name), (&modern, family)] {
                let line = format!("# TYPE {name} {}\n# ", metric.kind.word());
                let line = line.trim_end_matches("# ");
                assert_eq!(text.matches(line).count(), 1, "{line}");
                let line = format!("# HELP {name} {}\n", metric.help);
                assert_eq!(text.matches(&line).count(), 1, "{line}");
            }
            described.push(family);
        }
        described.sort_unstable();
        let all = described.len();
        described.dedup();
        assert_eq!(described.len(), all, "OpenMetrics knows a counter without its `_total`");
    }

    #[test]
    fn label_values_are_limited_in_length_and_number() {
        assert_eq!(label("evil\"}\n# EOF\u{202e}"), "evil____ EOF_");
        assert_eq!(label(&"m".repeat(1000)).len(), MAX_LABEL_CHARS);
        assert_eq!(label("  "), "unknown");
        let mut values = Values::default();
        for number in 0..MAX_LABEL_VALUES {
            assert_eq!(values.name(&format!("m{number}")), format!("m{number}"));
        }
        assert_eq!(values.name("one more"), OTHER);
        assert_eq!(values.name("m7"), "m7", "a value below the limit keeps its name");
    }
}
