//! The other end of `lua/sliding_window/general.lua`, in both layouts.

use super::{Left, Twin, Wire, push_double};
use crate::algorithm::{Algorithm as _, BucketLayout, LimitStatus, SlidingWindow};
use crate::policy::Policy;

impl Wire for SlidingWindow {
    fn twin(&self) -> Twin {
        match self.layout() {
            BucketLayout::List => Twin::SlidingWindowList,
            BucketLayout::Hash => Twin::SlidingWindowHash,
        }
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        push_double(request, self.width());
        push_double(request, self.span());
    }

    fn own_numbers(&self) -> usize {
        3
    }

    fn with_own_numbers(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit, width, span] = numbers else { return None };
        let buckets = span.checked_div(width)?;
        Some(Policy::SlidingWindow(Self::new(limit, span, buckets, self.layout()).ok()?))
    }

    fn width(&self) -> usize {
        4
    }

    fn others_width(&self) -> usize {
        0
    }

    fn read(&self, state: &[u64], _others: Option<&[u64]>) -> Option<Left> {
        let &[limit, remaining, retry_at, reset_at] = state else { return None };
        Some(Left::Statuses(vec![LimitStatus { limit, remaining, retry_at, reset_at }]))
    }
}
