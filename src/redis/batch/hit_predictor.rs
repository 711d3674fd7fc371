//! Predicts whether a limiter's next calls are hits, which the optimistic script path decides
//! faster.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::policy::Policy;
use crate::policy::decision::{Decision, Status};
use crate::policy::multi_policy::Response;
use crate::policy::policy_set::PolicySet;
use crate::protocol::value::COUNTS;

/// Predicts hits if most of the calls completed last were hits. A hit is a call that is admitted by
/// windows that were already open. The optimistic path makes the same decisions, but only hits are
/// faster on it.
#[derive(Debug, Default)]
pub(crate) struct HitPredictor(AtomicBool);

/// At most one call in 8 may be a miss: a miss costs about four times what each hit saves.
const CALLS_PER_MISS: usize = 8;

impl HitPredictor {
    pub(crate) fn expects_hits(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn learn(&self, calls: usize, misses: usize) {
        self.set(misses * CALLS_PER_MISS <= calls);
    }

    pub(crate) fn set(&self, expects_hits: bool) {
        self.0.store(expects_hits, Ordering::Relaxed);
    }

    /// Whether a take of one unit was admitted by windows that were open and are stored packed.
    pub(crate) fn is_hit(policies: &PolicySet, response: &Response) -> bool {
        let Decision { status, capacity, remaining, .. } = response.decision;
        let was_open = |remaining: u64, capacity: u64| {
            (2..COUNTS).contains(&capacity.saturating_sub(remaining))
        };
        matches!(status, Status::Allowed | Status::AllowedLast)
            && match &response.limits {
                Some(several) if policies.alone().is_none() => {
                    let mut limits = several.limits.iter().zip(policies.named());
                    limits.all(|(one, named)| {
                        !matches!(named.policy, Policy::FixedWindow(_) | Policy::CalendarWindow(_))
                            || was_open(one.remaining, one.capacity)
                    })
                }
                _ => was_open(remaining, capacity),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{FixedWindow, Gcra, LimitStatus, Outcome};
    use crate::policy::multi_policy::PolicyOutcome;
    use crate::policy::policy_set::NamedPolicy;

    fn is_hit(status: Status, remaining: u64) -> bool {
        is_hit_at(5, status, remaining)
    }

    fn is_hit_at(limit: u64, status: Status, remaining: u64) -> bool {
        let window =
            PolicySet::single(Policy::FixedWindow(FixedWindow::new(limit, 1_000).unwrap()));
        let decision = Decision {
            status,
            limit,
            capacity: limit,
            remaining,
            retry_after_ms: 0,
            next_after_ms: 0,
            reset_after_ms: 9,
            retry_at: 7,
            reset_at: 10_000,
            at: 7,
        };
        HitPredictor::is_hit(&window, &decision.into())
    }

    #[test]
    fn admissions_by_open_windows_are_hits() {
        assert!(is_hit(Status::Allowed, 3));
        assert!(is_hit(Status::AllowedLast, 0));
        assert!(!is_hit(Status::Allowed, 4), "the window has just been opened");
        assert!(!is_hit_at(8_192, Status::AllowedLast, 0), "the window is not packed any more");
        assert!(is_hit_at(8_192, Status::Allowed, 1));
        assert!(!is_hit(Status::Refused, 0));
    }

    #[test]
    fn hits_are_predicted_after_replies_with_at_most_an_eighth_of_misses() {
        let predictor = HitPredictor::default();
        assert!(!predictor.expects_hits());
        for (calls, misses, expects_hits) in
            [(1, 0, true), (8, 1, true), (8, 2, false), (1, 1, false)]
        {
            predictor.learn(calls, misses);
            assert_eq!(predictor.expects_hits(), expects_hits);
        }
    }

    #[test]
    fn under_several_policies_only_windows_decide_what_is_a_hit() {
        let gcra = Policy::Gcra(Gcra::new(5, 1_000, 5).unwrap());
        let window = Policy::FixedWindow(FixedWindow::new(5, 1_000).unwrap());
        let named = |(name, policy): (&str, Policy)| NamedPolicy {
            name: name.into(),
            policy,
            key_dimension: 0,
        };
        let policies = [("a", gcra), ("b", window)].map(named);
        let policies = PolicySet::multi(policies.to_vec()).unwrap();
        let response = |remaining: [u64; 2]| {
            let outcomes = remaining.map(|remaining| PolicyOutcome {
                cost: 1,
                outcome: Outcome::Admitted,
                blocked_until: 0,
                ban_step: 0,
                changes_at: None,
                statuses: vec![LimitStatus {
                    limit: 5,
                    capacity: 5,
                    remaining,
                    retry_at: 0,
                    next_at: 0,
                    reset_at: 0,
                    mark: 0,
                }]
                .into(),
            });
            Response::of_policies(&policies, &outcomes, 7)
        };
        assert!(HitPredictor::is_hit(&policies, &response([4, 3])));
        assert!(!HitPredictor::is_hit(&policies, &response([3, 4])));
    }
}
