//! The metric page: the text format 0.0.4 that every scraper reads.
//!
//! Metrics live in structs that register themselves and are bumped directly; there is no global
//! registry. Counters are registered without `_total`: the encoder adds it.

use prometheus_client::{encoding::prometheus_text, metrics::info::Info};

pub use prometheus_client::registry::Registry;

/// The `Content-Type` of [`encode`]'s text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An empty registry whose metrics are called `fairtide_<component>_...`, with the build's version.
pub fn registry(component: &str, version: &'static str) -> Registry {
    let mut registry = Registry::with_prefix(format!("fairtide_{component}"));
    registry.register(
        "build",
        "Which version runs here",
        Info::new(vec![("version", version)]),
    );
    registry
}

/// The page.
pub fn encode(registry: &Registry) -> String {
    let mut page = String::new();
    prometheus_text::encode(&mut page, registry).expect("writing into a string can't fail");
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;

    #[test]
    fn a_counter_gets_its_suffix_once() {
        let mut registry = registry("test", "1.2.3");
        let things: Counter = Counter::default();
        registry.register("things", "How many things were seen", things.clone());
        things.inc();
        let page = encode(&registry);
        assert!(page.contains("fairtide_test_things_total 1\n"), "{page}");
        assert!(page.contains("version=\"1.2.3\""), "{page}");
        assert!(!page.contains("total_total"), "{page}");
    }
}
