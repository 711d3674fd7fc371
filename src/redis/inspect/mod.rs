//! What lies in Redis, as far as it can be told without the limiter's policies: for those who look at limits
//! from outside.
//!
//! Nothing here decides. A decision is asked of a limiter, whose numbers say what a state means; a state
//! alone says what is on the books, and of rates the numbers that wrote it.

#[cfg(feature = "redis")]
mod key_query;
mod metadata;
#[cfg(feature = "redis")]
mod reader;
mod stored_name;
mod stored_value;
mod summary;

pub use metadata::StoredExtras;
#[cfg(feature = "redis")]
pub use reader::{Holds, Read, Reader};
pub use stored_name::StoredName;
pub use stored_value::Raw;
pub use summary::Facts;

/// How a state lies in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
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

/// The tags of all algorithms and layouts (see [`Policy::tag`](crate::policy::Policy::tag)), and how their states lie.
pub const TAGS: [(&str, Shape); 11] = [
    ("gcra", Shape::Rate),
    ("tb", Shape::Rate),
    ("lb", Shape::Rate),
    ("tbi", Shape::Interval),
    ("fw", Shape::Window),
    ("cw", Shape::Window),
    ("sc", Shape::Counter),
    ("swl", Shape::List),
    ("swh", Shape::Hash),
    ("sl", Shape::Log),
    ("sls", Shape::Log),
];

/// How the states of a tag lie, if it is one.
#[must_use]
pub fn shape_of(tag: &str) -> Option<Shape> {
    TAGS.iter().find_map(|(name, shape)| (*name == tag).then_some(*shape))
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
    fn every_algorithm_is_known_by_its_tag() {
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
            Policy::SlidingLog(SlidingLog::several(&limits, None).unwrap()),
        ];
        assert_eq!(policies.map(|policy| policy.tag()), TAGS.map(|(tag, _)| tag));
        assert_eq!(shape_of("swh"), Some(Shape::Hash));
        assert_eq!(shape_of("~holds"), None);
    }
}
