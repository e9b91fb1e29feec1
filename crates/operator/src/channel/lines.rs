//! Reads newline-delimited messages from a request body.

use bytes::{Buf, BytesMut};
use fairtide_policy::Message;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};

/// A report of a thousand classes fits several times over.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Why there is no next message.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// A line without end.
    #[error("a line is longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    /// Not a message.
    #[error("a line is not a message: {0}")]
    NotAMessage(#[from] serde_json::Error),
}

/// The messages of a body.
pub struct Lines<B> {
    body: B,
    buffer: BytesMut,
    /// Bytes of `buffer` that are known to hold no line end.
    searched: usize,
}

// === impl Lines ===

impl<B> Lines<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    /// Reads from `body`.
    pub fn new(body: B) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next message; `None` at the end of the body. Nothing is lost when the future is
    /// dropped half-way.
    ///
    /// # Errors
    /// The connection broke, or the peer doesn't speak the protocol. Reading on is of no use.
    pub async fn next(&mut self) -> Result<Option<Message>, LineError> {
        loop {
            if let Some(line) = self.take_line() {
                let line = line.trim_ascii();
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(serde_json::from_slice(line)?));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(LineError::TooLong);
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(LineError::Broken(error.to_string())),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
            }
        }
    }

    fn take_line(&mut self) -> Option<BytesMut> {
        let end = self.buffer[self.searched..]
            .iter()
            .position(|b| *b == b'\n');
        let Some(end) = end.map(|at| at + self.searched) else {
            self.searched = self.buffer.len();
            return None;
        };
        self.searched = 0;
        let line = self.buffer.split_to(end);
        self.buffer.advance(1);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use std::convert::Infallible;

    fn lines(
        chunks: &[&str],
    ) -> Lines<impl Body<Data = Bytes, Error = Infallible> + Unpin + use<>> {
        let frames: Vec<_> = chunks
            .iter()
            .map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk.as_bytes()))))
            .collect();
        Lines::new(StreamBody::new(futures::stream::iter(frames)))
    }

    fn ack(version: &str) -> Message {
        Message::Ack {
            v: 1,
            version: version.to_owned(),
        }
    }

    #[tokio::test]
    async fn messages_may_be_cut_and_joined_anywhere() {
        let mut lines = lines(&[
            r#"{"type":"ack","v":1,"ver"#,
            "sion\":\"a\"}\r\n\n{\"type\":\"ack\",\"v\":1,\"version\":\"b\"}\n{\"type\":",
            "\"ack\",\"v\":1,\"version\":\"c\"}\n",
        ]);
        for version in ["a", "b", "c"] {
            assert_eq!(lines.next().await.unwrap(), Some(ack(version)));
        }
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let chunk = "x".repeat(MAX_LINE_BYTES / 2);
        let mut lines = lines(&[&chunk, &chunk, &chunk]);
        assert!(matches!(lines.next().await, Err(LineError::TooLong)));
    }

    #[tokio::test]
    async fn other_text_is_no_message() {
        let mut lines = lines(&["GET / HTTP/1.1\n"]);
        assert!(matches!(lines.next().await, Err(LineError::NotAMessage(_))));
    }
}
