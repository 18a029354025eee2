//! Samples, and how they are written: `OpenMetrics` by the official crate, and the older text that differs
//! from it in the names of counters.

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

/// The longest value of a label.
const LABEL_MOST: usize = 64;
/// So many values of a label that others choose are told apart; all further ones are `other`.
const VALUES_MOST: usize = 64;
/// What the further ones are called.
const OTHER: &str = "other";
/// What a counter's name ends with; `OpenMetrics` leaves it out where it describes the counter.
const TOTAL: &str = "_total";

/// In which form they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Prometheus text 0.0.4.
    Prometheus,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Form {
    /// Chooses what is liked best; the older text where nothing is said.
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

/// What is told: for each metric its samples, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(BTreeMap<(&'static str, Vec<Value>), Sample>);

impl Samples {
    /// Adds to a counter, or to a gauge that is being counted.
    pub(super) fn add(&mut self, metric: &Metric, labels: &[Value], more: u64) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let sample = self.0.entry((metric.name, labels.to_vec())).or_insert(Sample::Count(0));
        if let Sample::Count(count) = sample {
            *count = count.saturating_add(more);
        }
    }

    /// Adds an amount that is no whole number.
    pub(super) fn add_amount(&mut self, metric: &Metric, labels: &[Value], more: f64) {
        let sample = self.0.entry((metric.name, labels.to_vec())).or_insert(Sample::Amount(0.0));
        if let Sample::Amount(amount) = sample {
            *amount += more;
        }
    }

    /// Puts one more into its bucket.
    pub(super) fn observe(&mut self, metric: &Metric, labels: &[Value], seconds: f64) {
        let Kind::Histogram(ends) = metric.kind else { return };
        let empty = || Sample::Spread(Histogram::new(ends.iter().copied()));
        let sample = self.0.entry((metric.name, labels.to_vec())).or_insert_with(empty);
        if let Sample::Spread(histogram) = sample {
            histogram.observe(seconds.max(0.0));
        }
    }

    /// Makes a histogram without a value.
    pub(super) fn expect(&mut self, metric: &Metric) {
        if let Kind::Histogram(ends) = metric.kind {
            let empty = Sample::Spread(Histogram::new(ends.iter().copied()));
            self.0.entry((metric.name, Vec::new())).or_insert(empty);
        }
    }

    /// Takes over what others have.
    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Writes them.
    pub(super) fn text(self, form: Form) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode_registry(&mut text, &registry)?;
        match form {
            Form::OpenMetrics => encode_eof(&mut text)?,
            Form::Prometheus => text = older(&text),
        }
        Ok(text)
    }
}

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in ALL {
            let mut own = self.0.iter().filter(|((name, _), _)| *name == metric.name).peekable();
            // What has no sample is not described either.
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

/// In the older text a counter is described under its whole name.
fn older(text: &str) -> String {
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

/// Makes a text that somebody else chose fit for a label: short, and of tame characters.
pub(super) fn label(text: &str) -> String {
    let tame =
        |c: char| if c.is_ascii_alphanumeric() || " ._:/@+()-".contains(c) { c } else { '_' };
    let text: String = text.trim().chars().take(LABEL_MOST).map(tame).collect();
    if text.is_empty() { "unknown".to_owned() } else { text }
}

/// The values of a label that others choose; there is an end to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(BTreeSet<String>);

impl Values {
    /// Returns what this one is called.
    pub(super) fn name(&mut self, text: &str) -> Value {
        let text = label(text);
        if self.0.contains(&text) {
            return Value::Owned(text);
        }
        if self.0.len() >= VALUES_MOST {
            return Value::Borrowed(OTHER);
        }
        self.0.insert(text.clone());
        Value::Owned(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::{ALL, Form, LABEL_MOST, OTHER, Samples, VALUES_MOST, Values, label};

    #[test]
    fn the_form_that_is_liked_best_is_given() {
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
    fn labels_have_an_end_in_length_and_number() {
        assert_eq!(label("evil\"}\n# EOF\u{202e}"), "evil____ EOF_");
        assert_eq!(label(&"m".repeat(1000)).len(), LABEL_MOST);
        assert_eq!(label("  "), "unknown");
        let mut values = Values::default();
        for number in 0..VALUES_MOST {
            assert_eq!(values.name(&format!("m{number}")), format!("m{number}"));
        }
        assert_eq!(values.name("one more"), OTHER);
        assert_eq!(values.name("m7"), "m7", "who is known stays known");
    }
}
