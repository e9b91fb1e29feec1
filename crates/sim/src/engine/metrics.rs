//! vLLM's metrics page, by the names of its recent versions (0.24 and later).
//!
//! Only what the model knows is there: no series stands for something that isn't simulated. As in
//! vLLM the times of a request are observed when it finishes, tokens as they come; and a request
//! whose client leaves is counted nowhere (`finished_reason="abort"` stays 0).

use super::histogram::Histogram;
use crate::model::{BLOCK_TOKENS, Engine, Event, StepLoad, Times};
use std::{fmt::Write, time::Duration};

/// Bucket bounds of vLLM 0.32.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const TOKEN_GAP: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const REQUEST_TIME: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
const REQUEST_TOKENS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0,
    20_000.0,
];
const ITERATION_TOKENS: &[f64] = &[
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
];

/// What is known of a request where its events are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub prompt_tokens: u64,
    pub output_tokens: u64,
    pub finish_reason: &'static str,
}

#[derive(Clone, Debug)]
pub(super) struct Metrics {
    prompt_tokens: u64,
    generation_tokens: u64,
    preemptions: u64,
    stopped: u64,
    full_length: u64,
    ttft: Histogram,
    inter_token: Histogram,
    time_per_output_token: Histogram,
    e2e: Histogram,
    queue: Histogram,
    inference: Histogram,
    prefill: Histogram,
    decode: Histogram,
    request_prompt_tokens: Histogram,
    request_generation_tokens: Histogram,
    iteration_tokens: Histogram,
}

// === impl Metrics ===

impl Metrics {
    pub fn new() -> Self {
        Self {
            prompt_tokens: 0,
            generation_tokens: 0,
            preemptions: 0,
            stopped: 0,
            full_length: 0,
            ttft: Histogram::new(TTFT),
            inter_token: Histogram::new(TOKEN_GAP),
            time_per_output_token: Histogram::new(TOKEN_GAP),
            e2e: Histogram::new(REQUEST_TIME),
            queue: Histogram::new(REQUEST_TIME),
            inference: Histogram::new(REQUEST_TIME),
            prefill: Histogram::new(REQUEST_TIME),
            decode: Histogram::new(REQUEST_TIME),
            request_prompt_tokens: Histogram::new(REQUEST_TOKENS),
            request_generation_tokens: Histogram::new(REQUEST_TOKENS),
            iteration_tokens: Histogram::new(ITERATION_TOKENS),
        }
    }

    /// Counts an event. `facts` are those of its request; a step has none.
    pub fn count(&mut self, event: &Event, facts: Option<&Facts>) {
        match (event, facts) {
            (
                Event::Token {
                    number: 1, after, ..
                },
                Some(facts),
            ) => {
                self.ttft.observe(after.as_secs_f64());
                self.prompt_tokens += facts.prompt_tokens;
                self.generation_tokens += 1;
            }
            (Event::Token { after, .. }, Some(_)) => {
                self.inter_token.observe(after.as_secs_f64());
                self.generation_tokens += 1;
            }
            (Event::Finished { times, .. }, Some(facts)) => self.finished(times, facts),
            (Event::Preempted { .. }, _) => self.preemptions += 1,
            (Event::Step { load, generated }, _) => self.step(*load, *generated),
            _ => {}
        }
    }

    fn finished(&mut self, times: &Times, facts: &Facts) {
        let seconds = |time: Duration| time.as_secs_f64();
        let inference = times.prefill + times.decode;
        self.queue.observe(seconds(times.queued));
        self.prefill.observe(seconds(times.prefill));
        self.decode.observe(seconds(times.decode));
        self.inference.observe(seconds(inference));
        self.e2e.observe(seconds(times.queued + inference));
        // vLLM observes 0 for an answer of one token.
        let gaps = (facts.output_tokens - 1).max(1) as f64;
        self.time_per_output_token
            .observe(seconds(times.decode) / gaps);
        self.request_prompt_tokens
            .observe(facts.prompt_tokens as f64);
        self.request_generation_tokens
            .observe(facts.output_tokens as f64);
        if facts.finish_reason == "stop" {
            self.stopped += 1;
        } else {
            self.full_length += 1;
        }
    }

    fn step(&mut self, load: StepLoad, generated: u64) {
        self.iteration_tokens
            .observe((load.prefill_tokens + generated) as f64);
    }

    /// The page.
    pub fn page(&self, engine: &Engine, model: &str) -> String {
        let model = model.replace('\\', "\\\\").replace('"', "\\\"");
        let name = format!("model_name=\"{model}\"");
        let mut page = Page {
            text: String::with_capacity(24 * 1024),
            name: &name,
        };
        let waiting = engine.waiting() as f64;
        page.gauge(
            "num_requests_running",
            "Number of requests in model execution batches.",
            engine.running() as f64,
        );
        page.gauge(
            "num_requests_waiting",
            "Number of requests waiting to be processed.",
            waiting,
        );
        page.labelled(
            "num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            "gauge",
            "reason",
            &[("capacity", waiting), ("deferred", 0.0)],
        );
        page.gauge(
            "kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            engine.kv_usage(),
        );
        page.counter(
            "num_preemptions_total",
            "Cumulative number of preemption from the engine.",
            self.preemptions,
        );
        page.counter(
            "prompt_tokens_total",
            "Number of prefill tokens processed.",
            self.prompt_tokens,
        );
        page.counter(
            "generation_tokens_total",
            "Number of generation tokens processed.",
            self.generation_tokens,
        );
        page.labelled(
            "request_success_total",
            "Count of successfully processed requests.",
            "counter",
            "finished_reason",
            &[
                ("stop", self.stopped as f64),
                ("length", self.full_length as f64),
                ("abort", 0.0),
                ("error", 0.0),
                ("repetition", 0.0),
            ],
        );
        for (name, help, histogram) in [
            (
                "request_prompt_tokens",
                "Number of prefill tokens processed.",
                &self.request_prompt_tokens,
            ),
            (
                "request_generation_tokens",
                "Number of generation tokens processed.",
                &self.request_generation_tokens,
            ),
            (
                "iteration_tokens_total",
                "Histogram of number of tokens per engine_step.",
                &self.iteration_tokens,
            ),
            (
                "time_to_first_token_seconds",
                "Histogram of time to first token in seconds.",
                &self.ttft,
            ),
            (
                "inter_token_latency_seconds",
                "Histogram of inter-token latency in seconds.",
                &self.inter_token,
            ),
            (
                "request_time_per_output_token_seconds",
                "Histogram of time_per_output_token_seconds per request.",
                &self.time_per_output_token,
            ),
            (
                "e2e_request_latency_seconds",
                "Histogram of e2e request latency in seconds.",
                &self.e2e,
            ),
            (
                "request_queue_time_seconds",
                "Histogram of time spent in WAITING phase for request.",
                &self.queue,
            ),
            (
                "request_inference_time_seconds",
                "Histogram of time spent in RUNNING phase for request.",
                &self.inference,
            ),
            (
                "request_prefill_time_seconds",
                "Histogram of time spent in PREFILL phase for request.",
                &self.prefill,
            ),
            (
                "request_decode_time_seconds",
                "Histogram of time spent in DECODE phase for request.",
                &self.decode,
            ),
        ] {
            page.head(name, help, "histogram");
            let labels = ("engine=\"0\"", page.name);
            histogram.write(&format!("vllm:{name}"), labels, &mut page.text);
        }
        page.cache_config(engine);
        page.text
    }
}

struct Page<'a> {
    text: String,
    /// The label of the model.
    name: &'a str,
}

// === impl Page ===

impl Page<'_> {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(
            self.text,
            "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}"
        );
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        let model = self.name;
        let _ = writeln!(self.text, "vllm:{name}{{engine=\"0\",{model}}} {value:?}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        let model = self.name;
        let _ = writeln!(self.text, "vllm:{name}{{engine=\"0\",{model}}} {value}.0");
    }

    /// A family with one more label.
    fn labelled(
        &mut self,
        name: &str,
        help: &str,
        kind: &str,
        label: &str,
        values: &[(&str, f64)],
    ) {
        self.head(name, help, kind);
        let model = self.name;
        for (word, value) in values {
            let labelled = format!("{label}=\"{word}\"");
            // Labels are sorted by name.
            let (first, second) = if label < "model_name" {
                (labelled.as_str(), model)
            } else {
                (model, labelled.as_str())
            };
            let _ = writeln!(
                self.text,
                "vllm:{name}{{engine=\"0\",{first},{second}}} {value:?}"
            );
        }
    }

    fn cache_config(&mut self, engine: &Engine) {
        self.head(
            "cache_config_info",
            "Information of the LLMEngine CacheConfig",
            "gauge",
        );
        let blocks = engine.profile().kv_blocks();
        let _ = writeln!(
            self.text,
            "vllm:cache_config_info{{block_size=\"{BLOCK_TOKENS}\",cache_dtype=\"auto\",enable_prefix_caching=\"False\",engine=\"0\",kv_cache_size_tokens=\"{}\",num_gpu_blocks=\"{blocks}\"}} 1.0",
            blocks * BLOCK_TOKENS,
        );
    }
}
