//! The codec of `lua/sliding_window/general.lua` in both layouts.

use super::{Codec, ReplyState, ScriptAlgorithm, push_double};
use crate::algorithm::{Algorithm as _, BucketLayout, LimitStatus, SlidingWindow};
use crate::policy::Policy;

impl Codec for SlidingWindow {
    fn algorithm(&self) -> ScriptAlgorithm {
        match self.layout() {
            BucketLayout::List => ScriptAlgorithm::SlidingWindowList,
            BucketLayout::Hash => ScriptAlgorithm::SlidingWindowHash,
        }
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        push_double(request, self.width());
        push_double(request, self.span());
    }

    fn override_len(&self) -> usize {
        3
    }

    fn with_override(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit, width, span] = numbers else { return None };
        let buckets = span.checked_div(width)?;
        Some(Policy::SlidingWindow(Self::new(limit, span, buckets, self.layout()).ok()?))
    }

    fn state_len(&self) -> usize {
        4
    }

    fn other_parameters_len(&self) -> usize {
        0
    }

    fn decode(&self, state: &[u64], _others: Option<&[u64]>) -> Option<ReplyState> {
        let &[limit, remaining, retry_at, reset_at] = state else { return None };
        Some(ReplyState::Statuses(vec![LimitStatus { limit, remaining, retry_at, reset_at }]))
    }
}
