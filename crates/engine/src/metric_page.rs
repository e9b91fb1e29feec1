//! vLLM's own `/metrics` page.
//!
//! With data parallelism one page carries several `engine` labels: their gauges are added up. What
//! is absent, `NaN`, or on a page that isn't a metric page, is unknown. Unknown never reads as
//! zero: zero waiting requests would open the tap.

/// What the page says at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineGauges {
    /// Requests in the running batch.
    pub running: Option<u64>,
    /// Requests that wait, whatever for.
    pub waiting: Option<u64>,
    /// Requests that wait for room in the batch or the KV cache. Before vLLM 0.24 the page doesn't
    /// tell reasons apart.
    pub waiting_for_capacity: Option<u64>,
    /// Use of the KV cache, 0 to 1; of several engines the fullest.
    pub kv_usage: Option<f64>,
    /// Tokens that the KV cache holds.
    pub kv_tokens: Option<u64>,
}

/// One line of the page: `name{labels} value`.
struct Sample<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

/// A gauge over its `engine` labels. One strange value makes the whole unknown.
#[derive(Clone, Copy, Default)]
enum Total {
    #[default]
    Absent,
    Known(f64),
    Strange,
}

// === impl EngineGauges ===

impl EngineGauges {
    /// Reads a page. Lines that aren't samples are skipped.
    pub fn parse(page: &str) -> Self {
        let mut running = Total::default();
        let mut waiting = Total::default();
        let mut capacity = Total::default();
        let mut kv_usage = Total::default();
        let mut old_kv_usage = Total::default();
        let mut kv_tokens = Total::default();
        for sample in page.lines().filter_map(Sample::parse) {
            match sample.name {
                "vllm:num_requests_running" => running.add(sample.value),
                "vllm:num_requests_waiting" => waiting.add(sample.value),
                "vllm:num_requests_waiting_by_reason"
                    if sample.label("reason").as_deref() == Some("capacity") =>
                {
                    capacity.add(sample.value);
                }
                "vllm:kv_cache_usage_perc" => kv_usage.highest(sample.value),
                "vllm:gpu_cache_usage_perc" => old_kv_usage.highest(sample.value),
                "vllm:cache_config_info" => match sample.cache_tokens() {
                    Some(tokens) => kv_tokens.add(tokens as f64),
                    None => kv_tokens = Total::Strange,
                },
                _ => {}
            }
        }
        Self {
            running: running.count(),
            waiting: waiting.count(),
            waiting_for_capacity: capacity.count(),
            kv_usage: kv_usage.known().or(old_kv_usage.known()),
            kv_tokens: kv_tokens.count().filter(|&tokens| tokens > 0),
        }
    }

    /// Whether requests wait because the engine is full: then `running` is all that it takes.
    /// `None`: not known.
    pub fn is_full(&self) -> Option<bool> {
        let waiting = self.waiting_for_capacity.or(self.waiting)?;
        Some(waiting > 0)
    }
}

// === impl Total ===

impl Total {
    fn add(&mut self, value: f64) {
        *self = match *self {
            _ if !(value.is_finite() && value >= 0.0) => Total::Strange,
            Total::Absent => Total::Known(value),
            Total::Known(sum) => Total::Known(sum + value),
            Total::Strange => Total::Strange,
        };
    }

    fn highest(&mut self, value: f64) {
        *self = match *self {
            _ if !(value.is_finite() && value >= 0.0) => Total::Strange,
            Total::Absent => Total::Known(value),
            Total::Known(highest) => Total::Known(highest.max(value)),
            Total::Strange => Total::Strange,
        };
    }

    fn known(self) -> Option<f64> {
        match self {
            Total::Known(value) => Some(value),
            Total::Absent | Total::Strange => None,
        }
    }

    fn count(self) -> Option<u64> {
        self.known().map(|value| value as u64)
    }
}

// === impl Sample ===

impl<'a> Sample<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (name, labels, rest) = match line.find('{') {
            Some(open) => {
                let close = open + closing_brace(&line[open..])?;
                (&line[..open], &line[open + 1..close], &line[close + 1..])
            }
            None => {
                let (name, rest) = line.split_once(char::is_whitespace)?;
                (name, "", rest)
            }
        };
        // A timestamp may follow the value.
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some(Self {
            name: name.trim(),
            labels,
            value,
        })
    }

    fn label(&self, wanted: &str) -> Option<String> {
        let mut rest = self.labels;
        loop {
            let (name, after) = rest.split_once('=')?;
            let (value, after) = quoted(after.trim_start())?;
            if name.trim() == wanted {
                return Some(value);
            }
            rest = after.trim_start().strip_prefix(',')?;
        }
    }

    /// Later versions state the size; before, it is blocks times their size. Both are labels, as
    /// every field of the engine's cache configuration is.
    fn cache_tokens(&self) -> Option<u64> {
        let number = |name| self.label(name)?.parse::<u64>().ok();
        number("kv_cache_size_tokens")
            .or_else(|| number("num_gpu_blocks")?.checked_mul(number("block_size")?))
    }
}

/// Where the brace closes that `text` starts with; braces inside quotes don't count.
fn closing_brace(text: &str) -> Option<usize> {
    let mut in_quotes = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_quotes => escaped = true,
            b'"' => in_quotes = !in_quotes,
            b'}' if !in_quotes => return Some(at),
            _ => {}
        }
    }
    None
}

/// The quoted string that `text` starts with, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let body = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut chars = body.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &body[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            _ => value.push(char),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 12.0
vllm:num_requests_running{engine="1",model_name="tiny"} 9.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="1",model_name="tiny"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"} 1.0
vllm:num_requests_waiting_by_reason{engine="1",model_name="tiny",reason="capacity"} 0.0
vllm:num_requests_waiting_by_reason{engine="1",model_name="tiny",reason="deferred"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.5
vllm:cache_config_info{block_size="128",cache_dtype="auto",engine="0",kv_cache_size_tokens="349440",kv_cache_dtype_skip_layers="[]",num_gpu_blocks="2730"} 1.0
vllm:cache_config_info{block_size="16",engine="1",note="odd \"}\" text",num_gpu_blocks="100"} 1.0
"#;

    #[test]
    fn several_engines_are_added_up() {
        assert_eq!(
            EngineGauges::parse(PAGE),
            EngineGauges {
                running: Some(21),
                waiting: Some(4),
                waiting_for_capacity: Some(2),
                kv_usage: Some(0.5),
                kv_tokens: Some(349_440 + 1600),
            }
        );
    }

    #[test]
    fn what_is_absent_is_unknown_and_not_zero() {
        for page in [
            "",
            "<html><body>404 {not} found</body></html>",
            "vllm:num_requests_running",
            "other_metric 5",
            "vllm:num_requests_running{engine=\"0\" 4",
        ] {
            assert_eq!(EngineGauges::parse(page), EngineGauges::default(), "{page}");
        }
    }

    #[test]
    fn one_strange_value_makes_the_sum_unknown() {
        let page = "vllm:num_requests_running{engine=\"0\"} 4\n\
                    vllm:num_requests_running{engine=\"1\"} NaN\n\
                    vllm:num_requests_waiting{engine=\"0\"} -1\n\
                    vllm:kv_cache_usage_perc{engine=\"0\"} +Inf\n\
                    vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n";
        assert_eq!(EngineGauges::parse(page), EngineGauges::default());
    }

    #[test]
    fn waiting_for_adapters_is_not_being_full() {
        let deferred = "vllm:num_requests_waiting{engine=\"0\"} 5\n\
            vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 0\n\
            vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"deferred\"} 5\n";
        assert_eq!(EngineGauges::parse(deferred).is_full(), Some(false));
        assert_eq!(EngineGauges::parse(PAGE).is_full(), Some(true));
        assert_eq!(EngineGauges::parse("").is_full(), None);
    }

    #[test]
    fn older_versions_are_read_by_their_own_names() {
        let page = "vllm:num_requests_waiting{model_name=\"a\"} 2.0 1700000000\n\
                    vllm:gpu_cache_usage_perc{model_name=\"a\"} 0.75\n";
        let gauges = EngineGauges::parse(page);
        assert_eq!(gauges.is_full(), Some(true), "reasons aren't told apart");
        assert_eq!(gauges.kv_usage, Some(0.75));
    }
}
