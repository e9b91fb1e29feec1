//! Writes a page as the Prometheus client of Python does: with help, labels in the order of their
//! names, and a decimal point in every number. Without help (`Page::bare`) it is that of Rust.

use crate::engine::histogram::Histogram;
use std::fmt::{Display, Write};

pub(super) struct Page {
    pub text: String,
    /// Of every series.
    labels: Vec<(&'static str, String)>,
    is_python: bool,
}

/// A label of one series.
pub(super) type Label<'a> = (&'a str, &'a str);

// === impl Page ===

impl Page {
    /// Each series has these labels.
    pub fn new(labels: &[(&'static str, &str)]) -> Self {
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"");
        let labels = labels.iter().map(|(name, value)| (*name, escaped(value)));
        Self {
            text: String::with_capacity(24 * 1024),
            labels: labels.collect(),
            is_python: true,
        }
    }

    pub fn bare() -> Self {
        Self {
            is_python: false,
            ..Self::new(&[])
        }
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        self.line(name, &[], value);
    }

    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.line(name, &[], value as f64);
    }

    /// A family whose series differ in one label.
    pub fn family(
        &mut self,
        (name, help, kind): (&str, &str, &str),
        label: &str,
        values: &[(&str, f64)],
    ) {
        self.head(name, help, kind);
        for (word, value) in values {
            self.line(name, &[(label, word)], *value);
        }
    }

    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        self.histogram_of(name, None, histogram);
    }

    /// The series of a histogram, whose head is there already.
    pub fn histogram_of(&mut self, name: &str, label: Option<Label<'_>>, histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.cumulative() {
            let bound = bound.map_or("+Inf".to_owned(), |bound| self.number(bound));
            let labels: Vec<Label<'_>> = label.into_iter().chain([("le", &*bound)]).collect();
            self.line(&bucket, &labels, count as f64);
        }
        let labels: Vec<Label<'_>> = label.into_iter().collect();
        self.line(&format!("{name}_count"), &labels, histogram.count() as f64);
        self.line(&format!("{name}_sum"), &labels, histogram.sum());
    }

    pub fn head(&mut self, name: &str, help: &str, kind: &str) {
        if self.is_python {
            let _ = writeln!(self.text, "# HELP {name} {help}");
        }
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
    }

    pub fn line(&mut self, name: &str, labels: &[Label<'_>], value: f64) {
        let own = self.labels.iter().map(|(name, value)| (*name, &**value));
        let mut all: Vec<Label<'_>> = own.chain(labels.iter().copied()).collect();
        if self.is_python {
            all.sort_by_key(|(name, _)| *name);
        }
        let value = self.number(value);
        let page = &mut self.text;
        page.push_str(name);
        for (at, (name, value)) in all.iter().enumerate() {
            let _ = write!(
                page,
                "{}{name}=\"{value}\"",
                if at == 0 { '{' } else { ',' }
            );
        }
        let close: &dyn Display = if all.is_empty() { &"" } else { &"}" };
        let _ = writeln!(page, "{close} {value}");
    }

    fn number(&self, number: f64) -> String {
        match self.is_python {
            true => format!("{number:?}"),
            false => number.to_string(),
        }
    }
}
