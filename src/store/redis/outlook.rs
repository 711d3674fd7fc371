//! What is expected of a limiter's next calls.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::decision::{Decision, Status};

/// Whether most of a limiter's calls should be admitted in windows that are open already: so it was with
/// those that were answered last. The script decides the same either way, but not as fast.
#[derive(Debug, Default)]
pub(super) struct Outlook(AtomicBool);

/// One call in so many may be otherwise: it costs about four times what each of the others saves.
const OTHERWISE: usize = 8;

impl Outlook {
    /// Whether it is to be expected.
    pub(super) fn is_good(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Learns that of so many calls so many were otherwise.
    pub(super) fn learn(&self, calls: usize, otherwise: usize) {
        self.set(otherwise * OTHERWISE <= calls);
    }

    pub(super) fn set(&self, is_good: bool) {
        self.0.store(is_good, Ordering::Relaxed);
    }

    /// Whether a call of one unit was decided as expected.
    pub(super) fn is_met_by(decision: &Decision) -> bool {
        let admitted = matches!(decision.status, Status::Allowed | Status::AllowedLast);
        admitted && decision.remaining + 1 < decision.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(status: Status, remaining: u64) -> Decision {
        Decision { status, limit: 5, remaining, retry_after_ms: 0, reset_after_ms: 9, at: 7 }
    }

    #[test]
    fn units_in_open_windows_are_as_expected() {
        assert!(Outlook::is_met_by(&decision(Status::Allowed, 3)));
        assert!(Outlook::is_met_by(&decision(Status::AllowedLast, 0)));
        assert!(
            !Outlook::is_met_by(&decision(Status::Allowed, 4)),
            "the window has just been opened"
        );
        assert!(!Outlook::is_met_by(&decision(Status::Refused, 0)));
    }

    #[test]
    fn nothing_is_expected_before_there_is_an_answer_or_if_an_eighth_was_otherwise() {
        let outlook = Outlook::default();
        assert!(!outlook.is_good());
        for (calls, otherwise, is_good) in
            [(1, 0, true), (8, 1, true), (8, 2, false), (1, 1, false)]
        {
            outlook.learn(calls, otherwise);
            assert_eq!(outlook.is_good(), is_good);
        }
    }
}
