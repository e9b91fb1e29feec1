//! Splits a byte stream into server-sent events: any chunking, `\n`, `\r\n` or `\r` line ends, one
//! optional space after the colon, comments, and lines of any length in bounded memory.

/// Events above this size aren't looked into. A token with log-probabilities has a few KiB.
const MAX_EVENT: usize = 256 << 10;

/// What stands between two blank lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block<'a> {
    /// The event's data; several `data` lines are joined by a line feed.
    Data(&'a [u8]),
    /// An event with data, too large to be kept.
    TooLarge,
    /// Data behind which the stream ended without a blank line: perhaps cut.
    Rest(&'a [u8]),
}

/// The state between two chunks.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The unfinished line.
    line: Vec<u8>,
    /// The unfinished line is longer than [`MAX_EVENT`]; only its start is kept.
    line_cut: bool,
    /// The data of the unfinished event.
    data: Vec<u8>,
    has_data: bool,
    too_large: bool,
    /// The last byte was `\r`: a `\n` that follows belongs to it.
    after_cr: bool,
}

// === impl Events ===

impl Events {
    pub(super) fn push(&mut self, mut bytes: &[u8], mut on_event: impl FnMut(Block<'_>)) {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|&b| b == b'\n' || b == b'\r') else {
                self.keep(bytes);
                return;
            };
            self.keep(&bytes[..end]);
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(&mut on_event);
        }
    }

    pub(super) fn finish(&mut self, mut on_event: impl FnMut(Block<'_>)) {
        if !self.line.is_empty() {
            self.end_line(&mut on_event);
        }
        if self.has_data && !self.too_large {
            on_event(Block::Rest(&self.data));
        }
        *self = Self::default();
    }

    /// Bytes that it holds on to.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.line.capacity() + self.data.capacity()
    }

    fn keep(&mut self, part: &[u8]) {
        let room = MAX_EVENT.saturating_sub(self.line.len());
        self.line_cut |= part.len() > room;
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self, on_event: &mut impl FnMut(Block<'_>)) {
        let cut = std::mem::take(&mut self.line_cut);
        if self.line.is_empty() {
            if self.has_data {
                on_event(if self.too_large {
                    Block::TooLarge
                } else {
                    Block::Data(&self.data)
                });
            }
            self.data.clear();
            self.has_data = false;
            self.too_large = false;
            return;
        }
        if let Some(value) = data_value(&self.line) {
            if cut || self.data.len() + value.len() > MAX_EVENT {
                self.too_large = true;
            } else {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            self.has_data = true;
        }
        self.line.clear();
        // One huge line must not hold its memory for the rest of a long stream.
        self.line.shrink_to(MAX_EVENT / 16);
        self.data.shrink_to(MAX_EVENT / 16);
    }
}

/// What follows `data:`; comments (`:` first) and other fields give nothing.
fn data_value(line: &[u8]) -> Option<&[u8]> {
    if line == b"data" {
        return Some(b"");
    }
    let value = line.strip_prefix(b"data:")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}
