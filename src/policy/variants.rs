//! Variants of a limiter's policies: the same policies with other numbers.

use std::sync::Arc;

use crate::algorithm::Algorithm as _;
use crate::calendar::Calendar;
use crate::policy::Policy;
use crate::policy::policy_set::{InvalidPolicySet, PolicySet};

/// The policies of a limiter, and variants of them.
///
/// All variants of a calendar window have the same calendar. A batch whose calendar does not cover
/// the server's time is sent again, so calls under two calendars could change their order.
///
/// All variants use the same states. Any variant can read a state that another one wrote (see
/// [`crate::algorithm`]). So the law across calls under several variants is the law across a change
/// of numbers.
#[derive(Debug, Clone)]
pub struct PolicyVariants {
    /// Variant 0.
    first: Arc<PolicySet>,
    /// The other variants, from number 1.
    others: Vec<Option<Arc<PolicySet>>>,
}

impl PolicyVariants {
    /// Variant 0.
    #[must_use]
    pub fn new(policies: PolicySet) -> Self {
        Self { first: Arc::new(policies), others: Vec::new() }
    }

    /// The policies of a variant. Those of variant 0 if there is no such variant.
    #[must_use]
    pub fn get(&self, number: u16) -> &Arc<PolicySet> {
        let other = usize::from(number).checked_sub(1).and_then(|index| self.others.get(index));
        other.and_then(Option::as_ref).unwrap_or(&self.first)
    }

    /// Adds a variant, and returns its number.
    ///
    /// # Errors
    /// [`InvalidPolicySet`] if the policies differ in more than numbers, or if there are 65,536
    /// variants.
    pub fn add(&mut self, policies: PolicySet) -> Result<u16, InvalidPolicySet> {
        self.first.check_variant(&policies)?;
        let free = self.others.iter().position(Option::is_none).unwrap_or(self.others.len());
        let number = u16::try_from(free + 1).map_err(|_| InvalidPolicySet::TOO_MANY_VARIANTS)?;
        self.others.resize(self.others.len().max(free + 1), None);
        self.others[free] = Some(Arc::new(policies));
        Ok(number)
    }

    /// Removes a variant, other than variant 0. No pending call may use it.
    pub fn remove(&mut self, number: u16) {
        let index = usize::from(number).checked_sub(1);
        if let Some(set) = index.and_then(|index| self.others.get_mut(index)) {
            *set = None;
        }
    }
}

impl PolicySet {
    /// Checks that other policies are a variant of these: they have the same names, algorithms,
    /// layouts, calendars, key dimensions and limits.
    ///
    /// # Errors
    /// [`InvalidPolicySet`] names the rule that they break.
    pub fn check_variant(&self, other: &Self) -> Result<(), InvalidPolicySet> {
        let (own, others) = (self.named(), other.named());
        let is_same = own.len() == others.len()
            && own.iter().zip(others).all(|(one, other)| {
                one.name == other.name
                    && one.key_dimension == other.key_dimension
                    && one.policy.tag() == other.policy.tag()
                    && one.policy.named_limits() == other.policy.named_limits()
                    && calendar_of(&one.policy) == calendar_of(&other.policy)
            });
        if is_same { Ok(()) } else { Err(InvalidPolicySet::NOT_A_VARIANT) }
    }
}

fn calendar_of(policy: &Policy) -> Option<&Calendar> {
    match policy {
        Policy::CalendarWindow(window) => Some(window.calendar()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{CalendarWindow, FixedWindow, Gcra};
    use crate::calendar::Every;

    fn gcra(limit: u64) -> PolicySet {
        Policy::Gcra(Gcra::new(limit, 1_000_000, limit).unwrap()).into()
    }

    #[test]
    fn a_variant_differs_in_numbers_only() {
        let mut variants = PolicyVariants::new(gcra(1));
        assert_eq!(variants.add(gcra(2)), Ok(1));
        let window = Policy::FixedWindow(FixedWindow::new(1, 1_000).unwrap());
        assert_eq!(variants.add(window.into()), Err(InvalidPolicySet::NOT_A_VARIANT));
        assert_eq!(
            [0, 1].map(|number| variants.get(number).named()[0].policy.clone()),
            [gcra(1).named()[0].policy.clone(), gcra(2).named()[0].policy.clone()]
        );
    }

    #[test]
    fn variants_have_one_calendar() {
        let window = |limit, every| -> PolicySet {
            Policy::CalendarWindow(CalendarWindow::new(limit, every, "UTC").unwrap()).into()
        };
        let daily = window(1, Every::Day);
        assert_eq!(daily.check_variant(&window(2, Every::Day)), Ok(()));
        let monthly = daily.check_variant(&window(2, Every::Month));
        assert_eq!(monthly, Err(InvalidPolicySet::NOT_A_VARIANT));
    }

    #[test]
    fn numbers_of_removed_variants_are_used_again() {
        let mut variants = PolicyVariants::new(gcra(1));
        assert_eq!([2, 3, 4].map(|limit| variants.add(gcra(limit)).unwrap()), [1, 2, 3]);
        variants.remove(2);
        variants.remove(0);
        assert_eq!(**variants.get(0), gcra(1));
        assert_eq!([5, 6].map(|limit| variants.add(gcra(limit)).unwrap()), [2, 4]);
        assert_eq!(**variants.get(2), gcra(5));
    }
}
