//! The page `/v1/models`.

use serde::Deserialize;

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    max_model_len: Option<u64>,
}

/// The context window in tokens that the engine states, prompt and output together; `None`: it
/// states none. Adapters often say nothing, so of several models the largest counts: refusing a
/// request that fits is worse than passing on one that the engine refuses itself.
pub fn max_model_len(page: &[u8]) -> Option<u64> {
    let models: Models = serde_json::from_slice(page).ok()?;
    let lengths = models.data.iter().filter_map(|model| model.max_model_len);
    lengths.filter(|&length| length > 0).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_stated_length_counts() {
        let page = br#"{"object":"list","data":[
            {"id":"tiny","object":"model","root":"tiny-qwen2","parent":null,"max_model_len":2048},
            {"id":"adapter","object":"model","parent":"tiny","max_model_len":null}]}"#;
        assert_eq!(max_model_len(page), Some(2048));
    }

    #[test]
    fn a_page_without_it_says_nothing() {
        assert_eq!(max_model_len(br#"{"data":[]}"#), None);
        assert_eq!(max_model_len(br#"{"data":[{"id":"a"}]}"#), None);
        assert_eq!(max_model_len(br#"{"data":[{"max_model_len":0}]}"#), None);
        assert_eq!(max_model_len(b"<html></html>"), None);
    }
}
