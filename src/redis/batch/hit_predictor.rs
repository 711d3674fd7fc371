//! What is expected of a limiter's next calls.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::policy::Policy;
use crate::policy::decision::{Decision, Status};
use crate::policy::multi_policy::Response;
use crate::policy::policy_set::Policies;
use crate::redis::codec::COUNTS;

/// Whether most of a limiter's calls should be admitted in windows that are open already: so it was with
/// those that were answered last. The script decides the same either way, but not as fast.
#[derive(Debug, Default)]
pub(crate) struct Outlook(AtomicBool);

/// One call in so many may be otherwise: it costs about four times what each of the others saves.
const OTHERWISE: usize = 8;

impl Outlook {
    /// Whether it is to be expected.
    pub(crate) fn is_good(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Learns that of so many calls so many were otherwise.
    pub(crate) fn learn(&self, calls: usize, otherwise: usize) {
        self.set(otherwise * OTHERWISE <= calls);
    }

    pub(crate) fn set(&self, is_good: bool) {
        self.0.store(is_good, Ordering::Relaxed);
    }

    /// Whether a call of one unit was decided as expected: admitted, and by windows that had been opened before and are
    /// packed still.
    pub(crate) fn is_met_by(policies: &Policies, told: &Response) -> bool {
        let Decision { status, limit, remaining, .. } = told.decision;
        let was_open =
            |remaining: u64, limit: u64| (2..COUNTS).contains(&limit.saturating_sub(remaining));
        matches!(status, Status::Allowed | Status::AllowedLast)
            && match &told.limits {
                Some(several) if policies.alone().is_none() => {
                    let mut limits = several.limits.iter().zip(policies.named());
                    limits.all(|(one, named)| {
                        !matches!(named.policy, Policy::FixedWindow(_) | Policy::CalendarWindow(_))
                            || was_open(one.remaining, one.limit)
                    })
                }
                _ => was_open(remaining, limit),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{FixedWindow, Gcra, LimitStatus, Outcome};
    use crate::policy::multi_policy::PolicyOutcome;
    use crate::policy::policy_set::NamedPolicy;

    fn is_met_by(status: Status, remaining: u64) -> bool {
        is_met_by_limit(5, status, remaining)
    }

    fn is_met_by_limit(limit: u64, status: Status, remaining: u64) -> bool {
        let window = Policies::one(Policy::FixedWindow(FixedWindow::new(limit, 1_000).unwrap()));
        let decision =
            Decision { status, limit, remaining, retry_after_ms: 0, reset_after_ms: 9, at: 7 };
        Outlook::is_met_by(&window, &decision.into())
    }

    #[test]
    fn units_in_open_windows_are_as_expected() {
        assert!(is_met_by(Status::Allowed, 3));
        assert!(is_met_by(Status::AllowedLast, 0));
        assert!(!is_met_by(Status::Allowed, 4), "the window has just been opened");
        assert!(!is_met_by_limit(8_192, Status::AllowedLast, 0), "it is not packed any more");
        assert!(is_met_by_limit(8_192, Status::Allowed, 1));
        assert!(!is_met_by(Status::Refused, 0));
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

    #[test]
    fn among_several_policies_only_windows_need_to_have_been_opened() {
        let gcra = Policy::Gcra(Gcra::new(5, 1_000, 5).unwrap());
        let window = Policy::FixedWindow(FixedWindow::new(5, 1_000).unwrap());
        let named =
            |(name, policy): (&str, Policy)| NamedPolicy { name: name.into(), policy, subject: 0 };
        let policies = [("a", gcra), ("b", window)].map(named);
        let policies = Policies::several(policies.to_vec()).unwrap();
        let told = |remaining: [u64; 2]| {
            let votes = remaining.map(|remaining| PolicyOutcome {
                outcome: Outcome::Admitted,
                blocked_until: 0,
                changes_at: None,
                statuses: vec![LimitStatus { limit: 5, remaining, retry_at: 0, reset_at: 0 }]
                    .into(),
            });
            Response::of_policies(true, &votes, 7, 1)
        };
        assert!(Outlook::is_met_by(&policies, &told([4, 3])));
        assert!(!Outlook::is_met_by(&policies, &told([3, 4])));
    }
}
