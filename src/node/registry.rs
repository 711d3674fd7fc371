//! The ledgers of a thread that one function asks.
//!
//! A function of its own for each ledger costs more: where a program has several limiters, V8 meets several functions at one
//! place, and calls them by a longer way (18 ns of 170, and 38 of 275 with `await`). This one is always the same.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use napi::bindgen_prelude::{Env, Float64Array, Result, Uint32Array, Unknown};
use napi_derive::napi;

use super::hot::{self, Answered, Question, Take};
use super::response::{Answer, Failure};
use crate::clock::Clock;
use crate::key::Key;
use crate::memory;
use crate::policy::decision::Decision;

/// Ledgers, by numbers.
#[derive(Debug, Default)]
struct Ledgers {
    ledgers: Vec<Option<Arc<memory::Ledger>>>,
    free: Vec<usize>,
}

impl Ledgers {
    fn add(&mut self, ledger: Arc<memory::Ledger>) -> usize {
        let number = self.free.pop().unwrap_or(self.ledgers.len());
        self.ledgers.resize(self.ledgers.len().max(number + 1), None);
        self.ledgers[number] = Some(ledger);
        number
    }

    fn remove(&mut self, number: usize) {
        self.ledgers[number] = None;
        self.free.push(number);
    }
}

/// A ledger's place among others, which it leaves when it is dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    ledgers: Rc<RefCell<Ledgers>>,
    number: usize,
}

impl Membership {
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.ledgers.borrow_mut().remove(self.number);
    }
}

/// What the function carries: the ledgers, and which of them it asks.
struct Asked {
    ledgers: Rc<RefCell<Ledgers>>,
    /// Its first element is the number of the ledger.
    which: Uint32Array,
}

/// Asks the ledger whose number stands in front.
struct TakeOfAny;

impl Question for TakeOfAny {
    type Asked = Asked;
    type Place = Answer;

    #[inline]
    fn ask(
        Asked { ledgers, which }: &Asked,
        key: Key<'_>,
        cost: u64,
        clock: &impl Clock,
    ) -> Answered<Option<Decision>> {
        let number = which.first().map_or(usize::MAX, |&number| number as usize);
        let ledgers = ledgers.borrow();
        let Some(Some(ledger)) = ledgers.ledgers.get(number) else {
            return Err(Failure::Panicked);
        };
        Take::ask(ledger, key, cost, clock)
    }
}

/// Takes units from keys of any ledger with a single limit without a name.
#[napi]
#[derive(Debug, Default)]
pub struct Takes {
    ledgers: Rc<RefCell<Ledgers>>,
}

#[napi]
impl Takes {
    /// None yet.
    #[napi(constructor, catch_unwind)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The function that takes `cost` units from `key` of the ledger whose number stands in `which`, and answers into
    /// `answer`. `epochMs` below 0 means the system's clock.
    #[napi(catch_unwind, ts_return_type = "(key: string, cost?: number, epochMs?: number) => void")]
    pub fn bind(
        &self,
        env: Env,
        which: Uint32Array,
        answer: Float64Array,
    ) -> Result<Unknown<'static>> {
        let asked = Asked { ledgers: Rc::clone(&self.ledgers), which };
        hot::function::<TakeOfAny>(env, asked, answer)
    }
}

impl Takes {
    /// Adds a ledger, until the membership is dropped.
    pub(crate) fn admit(&self, ledger: Arc<memory::Ledger>) -> Membership {
        let number = self.ledgers.borrow_mut().add(ledger);
        Membership { ledgers: Rc::clone(&self.ledgers), number }
    }
}
