//! The other end of `lua/sliding_window.lua`, in both layouts.

use super::{Left, Wire, push_double};
use crate::algorithm::{Algorithm as _, BucketLayout, SlidingWindow, Standing};
use crate::store::redis::script::{SLIDING_WINDOW_HASH, SLIDING_WINDOW_LIST, Script};

impl Wire for SlidingWindow {
    fn script(&self) -> &'static Script {
        match self.layout() {
            BucketLayout::List => &SLIDING_WINDOW_LIST,
            BucketLayout::Hash => &SLIDING_WINDOW_HASH,
        }
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        push_double(request, self.width());
        push_double(request, self.span());
    }

    fn push_cost(&self, _cost: u64, _request: &mut Vec<u8>) {}

    fn width(&self) -> usize {
        4
    }

    fn others_width(&self) -> usize {
        0
    }

    fn read(&self, state: &[u64], _others: Option<&[u64]>) -> Option<Left> {
        let &[limit, remaining, retry_at, settled_at] = state else { return None };
        Some(Left::Told(vec![Standing { limit, remaining, retry_at, settled_at }]))
    }

    fn tells(&self) -> bool {
        true
    }
}
