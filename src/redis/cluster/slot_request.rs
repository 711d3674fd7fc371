//! The calls of a flush on keys of one slot, on their way to a node.

use crate::redis::batch::partition::FlushPartition;
use crate::redis::batch::script_call::{ScriptCall, ScriptResult};
use crate::redis::connection::{Address, FlushRequest, ServerTime};

/// Calls on keys of one slot, sent as one script call.
pub(crate) struct SlotRequest {
    pub(crate) slot: u16,
    pub(crate) part: FlushRequest,
    script_call: Option<ScriptCall>,
    pub(crate) with_source: bool,
    /// Whether the script call must declare its keys, so it shares no command.
    pub(crate) declares_keys: bool,
    /// The node of an ASK redirect, to be used once in the place of the slot's owner.
    pub(crate) ask: Option<Address>,
    /// The number of redirects and aborted transactions since the last pause.
    pub(crate) redirects: u32,
    pub(crate) is_deadline_tracked: bool,
}

impl SlotRequest {
    pub(crate) fn new(slot: u16, part: FlushRequest) -> Self {
        Self {
            slot,
            part,
            script_call: None,
            with_source: false,
            declares_keys: false,
            ask: None,
            redirects: 0,
            is_deadline_tracked: false,
        }
    }

    /// Splits a flush by slot. The second value has the calls whose keys do not share a slot.
    pub(crate) fn by_slot(mut request: FlushRequest) -> (Vec<Self>, Option<FlushRequest>) {
        let split = request.take_flush().by_slot();
        let part = |part: FlushPartition| Self::new(part.slot, request.part(part));
        let cross_slot = split.cross_slot.map(|part| request.part(part));
        (split.partitions.into_iter().map(part).collect(), cross_slot)
    }

    /// Splits the request into its calls, in order, unless it has one call or some answers.
    pub(crate) fn by_call(self) -> Vec<Self> {
        if self.part.flush.len() < 2 || !self.part.answers.is_empty() {
            return vec![self];
        }
        let Self { slot, mut part, .. } = self;
        let calls = part.take_flush().by_call(slot);
        calls.into_iter().map(|call| Self::new(slot, part.part(call))).collect()
    }

    pub(crate) fn script_call(&mut self, server_time: &ServerTime) -> &ScriptCall {
        let Self { part, script_call, .. } = self;
        script_call.get_or_insert_with(|| {
            part.script_calls(server_time).pop().unwrap_or_else(ScriptCall::deciding)
        })
    }

    /// Resets the request before it is sent to another node, or later.
    pub(crate) fn reset(&mut self) {
        self.script_call = None;
        self.with_source = false;
        self.ask = None;
    }

    /// Adds an answer, and returns whether the request is complete. If not, it must be sent again.
    pub(crate) fn on_answer(&mut self, answer: ScriptResult, server_time: &ServerTime) -> bool {
        self.part.answers.push(answer);
        let is_stale = self.part.retry_stale(server_time);
        if is_stale {
            self.reset();
        }
        !is_stale
    }
}
