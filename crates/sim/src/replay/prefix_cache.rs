//! Which beginnings of prompts an engine still has in its KV cache. Only traces that name the
//! blocks of their prompts (Mooncake's `hash_ids`, 512 tokens each) give any hits.
//!
//! The least recently used block goes first. What running requests hold isn't taken off: the
//! model's KV accounting and this cache are two views of one memory, so hits are an upper bound.

use std::collections::{BTreeMap, HashMap};

/// Tokens of one named block; Mooncake's.
const BLOCK: u64 = 512;

/// Blocks by their last use.
#[derive(Debug)]
pub(super) struct PrefixCache {
    most: usize,
    uses: u64,
    last_use: HashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
}

// === impl PrefixCache ===

impl PrefixCache {
    pub fn new(kv_tokens: u64) -> Self {
        Self {
            most: (kv_tokens / BLOCK) as usize,
            uses: 0,
            last_use: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// Tokens of a prompt that are found, from its beginning; all of it is there from now on.
    pub fn take(&mut self, blocks: &[u64]) -> u64 {
        let hits = blocks
            .iter()
            .take_while(|block| self.last_use.contains_key(block));
        let hits = hits.count() as u64;
        // From its end: of one prompt the beginning, which others may share, stays the longest.
        for block in blocks.iter().rev() {
            self.uses += 1;
            if let Some(before) = self.last_use.insert(*block, self.uses) {
                self.by_use.remove(&before);
            }
            self.by_use.insert(self.uses, *block);
        }
        while self.by_use.len() > self.most {
            if let Some((_, block)) = self.by_use.pop_first() {
                self.last_use.remove(&block);
            }
        }
        hits * BLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unbroken_beginning_hits_and_the_oldest_block_goes_first() {
        let mut cache = PrefixCache::new(4 * BLOCK);
        assert_eq!(cache.take(&[1, 2, 3]), 0);
        assert_eq!(cache.take(&[1, 9, 3]), BLOCK);
        // 2 was used before all others and made room for nothing yet: four are there.
        assert_eq!(cache.take(&[1, 2]), 2 * BLOCK);
        assert_eq!(cache.take(&[7]), 0);
        assert_eq!(cache.take(&[1, 2, 3]), 2 * BLOCK);
    }
}
