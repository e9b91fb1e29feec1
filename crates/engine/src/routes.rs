//! What queues and what passes.
//!
//! Denied by default: a path that nobody has heard of may well start the GPU, so each request that
//! could (whatever its path) is admitted, and a new endpoint of a new engine version is under the
//! policy from its first day. What only reads never queues: probes, `/metrics` and `/v1/models`
//! must answer while the queue is full.

/// Headers by which a client would put itself before others inside the engine. vLLM reads
/// `X-Vllm-Priority` before the body's own `priority`; only the sidecar may say such a thing.
pub const PRIVILEGED_HEADERS: &[&str] = &["x-vllm-priority"];

/// Whether a request of this method waits its turn. vLLM generates on `POST` alone.
pub fn queues(method: &str) -> bool {
    !matches!(method, "GET" | "HEAD" | "OPTIONS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_that_read_pass_the_queue() {
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert!(!queues(method), "{method}");
        }
        for method in ["POST", "PUT", "DELETE", "PATCH", "get", "BREW"] {
            assert!(queues(method), "{method}");
        }
    }
}
