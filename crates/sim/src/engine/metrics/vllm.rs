//! vLLM's page. Its names came and went: an older version has the older ones.

use super::{Metrics, page::Page};
use crate::model::{BLOCK_TOKENS, Engine};

pub(super) fn page(metrics: &Metrics, engine: &Engine, model: &str) -> String {
    let since = |major, minor, patch| metrics.imitated.since(major, minor, patch);
    let mut page = Page::new(&[("engine", "0"), ("model_name", model)]);
    let waiting = engine.waiting() as f64;
    page.gauge(
        "vllm:num_requests_running",
        "Number of requests in model execution batches.",
        engine.running() as f64,
    );
    page.gauge(
        "vllm:num_requests_waiting",
        "Number of requests waiting to be processed.",
        waiting,
    );
    if since(0, 24, 0) {
        let name = "vllm:num_requests_waiting_by_reason";
        let head = (name, "Number of waiting requests by reason.", "gauge");
        page.family(head, "reason", &[("capacity", waiting), ("deferred", 0.0)]);
    }
    if since(0, 9, 2) {
        let help = "KV-cache usage. 1 means 100 percent usage.";
        page.gauge("vllm:kv_cache_usage_perc", help, engine.kv_usage());
    }
    if !since(0, 11, 0) {
        let help = "GPU KV-cache usage. 1 means 100 percent usage.";
        page.gauge("vllm:gpu_cache_usage_perc", help, engine.kv_usage());
    }
    page.counter(
        "vllm:num_preemptions_total",
        "Cumulative number of preemption from the engine.",
        metrics.preemptions,
    );
    page.counter(
        "vllm:prompt_tokens_total",
        "Number of prefill tokens processed.",
        metrics.prompt_tokens,
    );
    page.counter(
        "vllm:generation_tokens_total",
        "Number of generation tokens processed.",
        metrics.generation_tokens,
    );
    // A request whose client leaves is counted nowhere: `abort` stays 0.
    page.family(
        (
            "vllm:request_success_total",
            "Count of successfully processed requests.",
            "counter",
        ),
        "finished_reason",
        &[
            ("stop", metrics.stopped as f64),
            ("length", metrics.full_length as f64),
            ("abort", 0.0),
            ("error", 0.0),
            ("repetition", 0.0),
        ],
    );
    if since(0, 32, 0) {
        page.family(
            (
                "vllm:admission_rejections_total",
                "Count of requests rejected at admission.",
                "counter",
            ),
            "reason",
            &[
                ("max_num_queued_reqs", metrics.full as f64),
                ("max_num_queued_tokens", 0.0),
            ],
        );
    }
    histograms(metrics, &mut page);
    page.head(
        "vllm:cache_config_info",
        "Information of the LLMEngine CacheConfig",
        "gauge",
    );
    let blocks = engine.profile().kv_blocks();
    page.text += &format!(
        "vllm:cache_config_info{{block_size=\"{BLOCK_TOKENS}\",cache_dtype=\"auto\",enable_prefix_caching=\"False\",engine=\"0\",kv_cache_size_tokens=\"{}\",num_gpu_blocks=\"{blocks}\"}} 1.0\n",
        blocks * BLOCK_TOKENS,
    );
    page.text
}

fn histograms(metrics: &Metrics, page: &mut Page) {
    let since = |major, minor, patch| metrics.imitated.since(major, minor, patch);
    for (name, help, histogram) in [
        (
            "vllm:request_prompt_tokens",
            "Number of prefill tokens processed.",
            &metrics.request_prompt_tokens,
        ),
        (
            "vllm:request_generation_tokens",
            "Number of generation tokens processed.",
            &metrics.request_generation_tokens,
        ),
        (
            "vllm:iteration_tokens_total",
            "Histogram of number of tokens per engine_step.",
            &metrics.iteration_tokens,
        ),
        (
            "vllm:time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            &metrics.ttft,
        ),
        (
            "vllm:e2e_request_latency_seconds",
            "Histogram of e2e request latency in seconds.",
            &metrics.e2e,
        ),
        (
            "vllm:request_queue_time_seconds",
            "Histogram of time spent in WAITING phase for request.",
            &metrics.queue,
        ),
        (
            "vllm:request_inference_time_seconds",
            "Histogram of time spent in RUNNING phase for request.",
            &metrics.inference,
        ),
        (
            "vllm:request_prefill_time_seconds",
            "Histogram of time spent in PREFILL phase for request.",
            &metrics.prefill,
        ),
        (
            "vllm:request_decode_time_seconds",
            "Histogram of time spent in DECODE phase for request.",
            &metrics.decode,
        ),
    ] {
        page.histogram(name, help, histogram);
    }
    if since(0, 10, 2) {
        let help = "Histogram of inter-token latency in seconds.";
        page.histogram(
            "vllm:inter_token_latency_seconds",
            help,
            &metrics.inter_token,
        );
    }
    // The same thing by its old name, which promised another one.
    if !since(0, 12, 0) {
        let help = "Histogram of time per output token in seconds.";
        page.histogram(
            "vllm:time_per_output_token_seconds",
            help,
            &metrics.inter_token,
        );
    }
    if since(0, 11, 2) {
        page.histogram(
            "vllm:request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            &metrics.time_per_output_token,
        );
    }
}
