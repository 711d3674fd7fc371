//! Reads what limiters store in Redis, for the command line, without the limiters' policies.
//!
//! Nothing here decides: only a limiter's policies define what a state means for a call. A state
//! alone shows the charged units, and for rates also the parameters that wrote it.

#[cfg(feature = "redis")]
mod key_query;
mod metadata;
#[cfg(feature = "redis")]
mod reader;
mod stored_name;
mod stored_value;
mod summary;

pub use metadata::StoredMetadata;
#[cfg(feature = "redis")]
pub use reader::{HoldSummary, Inspector, KeyPage};
pub use stored_name::StoredName;
pub use stored_value::RawValue;
pub use summary::KeySummary;

/// The layout of a state in Redis, named by the file that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueLayout {
    /// `lua/rate/general.lua`
    Rate,
    /// `lua/fixed_window/general.lua`
    Window,
    /// `lua/token_bucket_interval/general.lua`
    Interval,
    /// `lua/sliding_counter/general.lua`
    Counter,
    /// `lua/sliding_window/list.lua`
    List,
    /// `lua/sliding_window/hash.lua`
    Hash,
    /// `lua/sliding_log.lua`
    Log,
}

/// The tags of all algorithms and layouts (see [`Policy::tag`](crate::policy::Policy::tag)), and
/// the layouts of their states.
pub const TAGS: [(&str, ValueLayout); 11] = [
    ("gcra", ValueLayout::Rate),
    ("tb", ValueLayout::Rate),
    ("lb", ValueLayout::Rate),
    ("tbi", ValueLayout::Interval),
    ("fw", ValueLayout::Window),
    ("cw", ValueLayout::Window),
    ("sc", ValueLayout::Counter),
    ("swl", ValueLayout::List),
    ("swh", ValueLayout::Hash),
    ("sl", ValueLayout::Log),
    ("sls", ValueLayout::Log),
];

/// The layout of a tag's states; `None` if the tag is unknown.
#[must_use]
pub fn layout_of(tag: &str) -> Option<ValueLayout> {
    TAGS.iter().find_map(|(name, layout)| (*name == tag).then_some(*layout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{
        BucketLayout, CalendarWindow, FixedWindow, Gcra, IntervalBucket, LeakyBucket, Levels,
        LogLimit, SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
    };
    use crate::calendar::Every;
    use crate::policy::Policy;

    #[test]
    fn every_algorithm_has_a_tag_and_a_layout() {
        let sliding = |layout| Policy::SlidingWindow(SlidingWindow::new(3, 4, 4, layout).unwrap());
        let limits = [LogLimit { limit: 3, window: 1 }, LogLimit { limit: 4, window: 2 }];
        let policies = [
            Policy::Gcra(Gcra::new(3, 1, 3).unwrap()),
            Policy::TokenBucket(TokenBucket::new(3, 3, 1).unwrap()),
            Policy::LeakyBucket(LeakyBucket::new(3, 3, 1).unwrap()),
            Policy::IntervalBucket(IntervalBucket::new(Levels::full(3), 3, 1).unwrap()),
            Policy::FixedWindow(FixedWindow::new(3, 1_000).unwrap()),
            Policy::CalendarWindow(CalendarWindow::new(3, Every::Day, "UTC").unwrap()),
            Policy::SlidingCounter(SlidingCounter::new(3, 1_000).unwrap()),
            sliding(BucketLayout::List),
            sliding(BucketLayout::Hash),
            Policy::SlidingLog(SlidingLog::new(3, 1, false).unwrap()),
            Policy::SlidingLog(SlidingLog::with_limits(&limits, None).unwrap()),
        ];
        assert_eq!(policies.map(|policy| policy.tag()), TAGS.map(|(tag, _)| tag));
        assert_eq!(layout_of("swh"), Some(ValueLayout::Hash));
        assert_eq!(layout_of("~holds"), None);
    }
}
