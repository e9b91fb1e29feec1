//! Lines out of a body, however it is cut.

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// A snapshot of a thousand classes is about 1 MiB.
const MAX_LINE: usize = 16 << 20;

/// Why there is no next line.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinesError {
    #[error("the channel broke: {0}")]
    Broken(#[from] hyper::Error),
    #[error("a line is longer than {MAX_LINE} bytes")]
    TooLong,
}

pub(super) struct Lines {
    body: Incoming,
    buffer: BytesMut,
    /// So much of the buffer holds no line end.
    searched: usize,
}

// === impl Lines ===

impl Lines {
    pub(super) fn new(body: Incoming) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next line that isn't empty; `None` at the end. Nothing is lost when it is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, LinesError> {
        loop {
            while let Some(line) = self.take() {
                if !line.trim_ascii().is_empty() {
                    return Ok(Some(line));
                }
            }
            if self.buffer.len() > MAX_LINE {
                return Err(LinesError::TooLong);
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    fn take(&mut self) -> Option<Bytes> {
        let end = self.buffer[self.searched..]
            .iter()
            .position(|&b| b == b'\n');
        let Some(end) = end.map(|end| end + self.searched) else {
            self.searched = self.buffer.len();
            return None;
        };
        self.searched = 0;
        let line = self.buffer.split_to(end).freeze();
        self.buffer.advance(1);
        Some(line)
    }
}
