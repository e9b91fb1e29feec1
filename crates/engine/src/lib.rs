//! What is particular to the engine behind the sidecar, which today is vLLM: what queues and what
//! passes, what a request asks for, what an answer says of its tokens, and the pages on which the
//! engine tells about itself.
//!
//! Pure: bytes in, facts out. Nothing here changes a byte, and whatever can't be read is unknown,
//! never an error and never zero.

#![deny(missing_docs)]

mod answer;
mod metric_page;
mod models;
mod request;
mod routes;
mod stream;
mod usage;

pub use answer::PlainAnswer;
pub use metric_page::EngineGauges;
pub use models::max_model_len;
pub use request::{JsonBody, PromptSize};
pub use routes::{PRIVILEGED_HEADERS, queues};
pub use stream::StreamMeter;
pub use usage::Usage;
