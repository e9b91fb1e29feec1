//! What the answers of a tenant, or of a class, were like of late: the only thing that is known
//! of an answer before it comes.

/// How many of the last answers count.
const KEPT: usize = 32;
/// Assumed of an answer while none was seen: the usual length of a chat answer.
const UNKNOWN: u64 = 256;

/// Output lengths of the last answers, in tokens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    recent: Vec<u32>,
    next: usize,
    p90: Option<u64>,
    mean: Option<u64>,
    median: Option<u64>,
}

// === impl Outputs ===

impl Outputs {
    pub(crate) fn record(&mut self, tokens: u64) {
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        if self.recent.len() < KEPT {
            self.recent.push(tokens);
        } else {
            self.recent[self.next] = tokens;
        }
        self.next = (self.next + 1) % KEPT;
        let mut sorted = self.recent.clone();
        sorted.sort_unstable();
        let n = sorted.len();
        self.p90 = Some(sorted[(n * 9).div_ceil(10) - 1].into());
        self.median = Some(sorted[(n - 1) / 2].into());
        self.mean = Some(sorted.iter().map(|&t| u64::from(t)).sum::<u64>() / n as u64);
    }

    /// The usual length of an answer.
    pub(crate) fn mean(&self) -> u64 {
        self.mean.unwrap_or(UNKNOWN)
    }

    /// The length that half of the answers don't pass.
    pub(crate) fn median(&self) -> Option<u64> {
        self.median
    }

    /// The length that nine of ten answers don't pass, else the class's, else a guess.
    pub(crate) fn p90_or(&self, class: &Outputs) -> u64 {
        self.p90.or(class.p90).unwrap_or(UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_answers_are_forgotten() {
        let mut outputs = Outputs::default();
        assert_eq!(outputs.mean(), UNKNOWN);
        for _ in 0..KEPT {
            outputs.record(1000);
        }
        for _ in 0..KEPT {
            outputs.record(10);
        }
        assert_eq!((outputs.mean(), outputs.p90), (10, Some(10)));
    }

    #[test]
    fn one_long_answer_of_ten_does_not_move_p90() {
        let mut outputs = Outputs::default();
        for _ in 0..9 {
            outputs.record(100);
        }
        outputs.record(9000);
        assert_eq!(outputs.p90, Some(100));
    }
}
