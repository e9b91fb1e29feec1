//! SGLang's page. What the scheduler says carries its ranks since 0.5, what the front says doesn't.

use super::{Metrics, page::Page};
use crate::model::Engine;

pub(super) fn page(metrics: &Metrics, engine: &Engine, model: &str) -> String {
    let is_recent = metrics.imitated.since(0, 5, 0);
    let front = [("model_name", model)];
    let scheduler = [
        ("engine_type", "unified"),
        ("model_name", model),
        ("pp_rank", "0"),
        ("tp_rank", "0"),
    ];
    let mut page = Page::new(if is_recent { &scheduler } else { &front });
    let capacity = engine.profile().kv_tokens as f64;
    let used = (engine.kv_usage() * capacity).round();
    page.gauge(
        "sglang:num_running_reqs",
        "The number of running requests.",
        engine.running() as f64,
    );
    page.gauge(
        "sglang:num_queue_reqs",
        "The number of requests in the waiting queue.",
        engine.waiting() as f64,
    );
    page.gauge("sglang:num_used_tokens", "The number of used tokens.", used);
    page.gauge("sglang:token_usage", "The token usage.", engine.kv_usage());
    if is_recent {
        for (name, help, value) in [
            (
                "sglang:kv_available_tokens",
                "The number of available KV cache tokens.",
                capacity - used,
            ),
            (
                "sglang:kv_used_tokens",
                "The number of used KV cache tokens.",
                used,
            ),
            (
                "sglang:max_total_num_tokens",
                "The most tokens that the KV cache holds.",
                capacity,
            ),
        ] {
            page.gauge(name, help, value);
        }
        let help = "Number of retracted requests.";
        page.counter(
            "sglang:num_retracted_requests_total",
            help,
            metrics.preemptions,
        );
    }
    let rate = if engine.running() > 0 {
        metrics.rate
    } else {
        0.0
    };
    let help = "The generation throughput (token/s).";
    page.gauge("sglang:gen_throughput", help, rate);

    let scheduler = page.text;
    let mut page = Page::new(&front);
    page.text = scheduler;
    let done = metrics.stopped + metrics.full_length;
    for (name, help, value) in [
        (
            "sglang:prompt_tokens_total",
            "Number of prefill tokens processed.",
            metrics.prompt_tokens,
        ),
        (
            "sglang:generation_tokens_total",
            "Number of generation tokens processed.",
            metrics.generation_tokens,
        ),
        (
            "sglang:num_requests_total",
            "Number of requests processed.",
            done,
        ),
    ] {
        page.counter(name, help, value);
    }
    if is_recent {
        let aborted = metrics.left + metrics.full;
        let help = "Number of requests aborted.";
        page.counter("sglang:num_aborted_requests_total", help, aborted);
    }
    by_stream(metrics, &mut page);
    for (name, help, histogram) in [
        (
            "sglang:inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            &metrics.inter_token,
        ),
        (
            "sglang:e2e_request_latency_seconds",
            "Histogram of End-to-end request latency in seconds",
            &metrics.e2e,
        ),
    ] {
        page.histogram(name, help, histogram);
    }
    page.text
}

/// The latest versions tell streamed answers from others.
fn by_stream(metrics: &Metrics, page: &mut Page) {
    let name = "sglang:time_to_first_token_seconds";
    let help = "Histogram of time to first token in seconds.";
    if !metrics.imitated.since(0, 5, 23) {
        page.histogram(name, help, &metrics.ttft);
        return;
    }
    let word = |is_streamed| if is_streamed { "True" } else { "False" };
    page.head(name, help, "histogram");
    for own in &metrics.by_stream {
        let label = ("is_streaming", word(own.is_streamed));
        page.histogram_of(name, Some(label), &own.ttft);
    }
    let name = "sglang:request_time_per_output_token_seconds";
    page.head(
        name,
        "Histogram of time per output token of requests in seconds.",
        "histogram",
    );
    for own in &metrics.by_stream {
        let label = ("is_streaming", word(own.is_streamed));
        page.histogram_of(name, Some(label), &own.time_per_output_token);
    }
}
