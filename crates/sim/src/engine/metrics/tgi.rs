//! TGI's page: no model, no help, no time to the first token and no use of the KV cache.

use super::{Metrics, page::Page};
use crate::model::Engine;

pub(super) fn page(metrics: &Metrics, engine: &Engine) -> String {
    let mut page = Page::bare();
    page.counter("tgi_request_count", "", metrics.asked);
    let done = metrics.stopped + metrics.full_length;
    page.counter("tgi_request_success", "", done);
    page.family(
        ("tgi_request_failure", "", "counter"),
        "err",
        &[
            ("overloaded", metrics.full as f64),
            ("validation", metrics.invalid as f64),
            ("dropped", metrics.left as f64),
        ],
    );
    let steps = [
        ("prefill", &metrics.prefill_steps),
        ("decode", &metrics.decode_steps),
    ];
    let counts = steps.map(|(method, steps)| (method, steps.count() as f64));
    for name in ["tgi_batch_inference_count", "tgi_batch_inference_success"] {
        page.family((name, "", "counter"), "method", &counts);
    }
    page.gauge("tgi_batch_current_size", "", engine.running() as f64);
    let most = engine.running_max_tokens();
    page.gauge("tgi_batch_current_max_tokens", "", most as f64);
    let capacity = engine.profile().kv_tokens;
    page.gauge("tgi_batch_max_total_tokens", "", capacity as f64);
    page.gauge("tgi_queue_size", "", engine.waiting() as f64);
    for name in ["tgi_batch_inference_duration", "tgi_batch_forward_duration"] {
        page.head(name, "", "histogram");
        for (method, steps) in steps {
            page.histogram_of(name, Some(("method", method)), steps);
        }
    }
    for (name, histogram) in [
        ("tgi_request_duration", &metrics.e2e),
        ("tgi_request_queue_duration", &metrics.queue),
        ("tgi_request_inference_duration", &metrics.inference),
        (
            "tgi_request_mean_time_per_token_duration",
            &metrics.time_per_output_token,
        ),
        ("tgi_request_input_length", &metrics.request_prompt_tokens),
        (
            "tgi_request_generated_tokens",
            &metrics.request_generation_tokens,
        ),
    ] {
        page.histogram(name, "", histogram);
    }
    page.text
}
