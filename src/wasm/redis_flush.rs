//! Calls that are sent together, and what became of them.

#![allow(clippy::needless_pass_by_value, reason = "wasm-bindgen hands strings over by value")]

use wasm_bindgen::prelude::wasm_bindgen;

use super::whole;
use crate::abi::responses::Answers;
use crate::redis::text::{text_of, values_of};
use crate::redis::{Answer, Failure, Job, Round};
use crate::wasm::redis_store::RedisLedger;

/// A round: JavaScript sends its jobs, one after the other, and brings what is answered.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct RedisRound {
    round: Round,
    /// The jobs that are to be sent, behind those that have been answered.
    jobs: Vec<Job>,
    answers: Vec<Answer>,
    told: Answers,
}

#[wasm_bindgen]
impl RedisRound {
    /// A round without calls. Those of one that `peeks` change nothing.
    #[wasm_bindgen(constructor)]
    pub fn new(peeks: bool) -> Self {
        let round = if peeks { Round::peeking() } else { Round::default() };
        Self { round, ..Self::default() }
    }

    /// Adds what has been noted for a limiter.
    pub fn push(&mut self, ledger: &RedisLedger) {
        let (policies, batch) = ledger.take_noted();
        self.round.push(policies, batch);
    }

    /// Adds a call that tells what taking `cost` units from the keys on the desk would answer. Answers 0, or with a
    /// failure's code.
    #[wasm_bindgen(js_name = pushPeek)]
    pub fn push_peek(&mut self, ledger: &RedisLedger, tag: Option<String>, cost: f64) -> f64 {
        match ledger.peeking(tag.as_deref(), whole(cost)) {
            Ok((policies, batch)) => self.round.push(policies, batch),
            Err(failure) => return failure.code(),
        }
        0.0
    }

    /// Makes the jobs, around this time by the server's clock, and tells how many they are.
    pub fn start(&mut self, epoch_us: f64) -> usize {
        let mut round = std::mem::take(&mut self.round);
        round.set_time(whole(epoch_us));
        self.round = round.in_waves();
        self.jobs = self.round.jobs();
        self.jobs.len()
    }

    /// The names of a job's keys.
    pub fn keys(&self, job: usize) -> Vec<String> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        self.jobs[job].keys.iter().map(text).collect()
    }

    /// A job's arguments.
    pub fn arguments(&self, job: usize) -> Vec<String> {
        self.jobs[job].arguments.iter().map(|argument| text_of(argument)).collect()
    }

    /// Takes the reply to the next job. What is no reply is none to each of its calls.
    pub fn answer(&mut self, reply: &str) {
        self.answers.push(Ok(values_of(reply).unwrap_or_default()));
    }

    /// Takes why the next job has no reply: `ts/wasm/redis/retry-method.ts` has the same numbers.
    pub fn fail(&mut self, kind: u32, why: &str) {
        self.answers.push(Err(match kind {
            0 => Failure::Unavailable(why.into()),
            1 => Failure::Broken(why.into()),
            2 => Failure::TimedOut,
            _ => Failure::Refused(why.into()),
        }));
    }

    /// The server's time in microseconds, if calls are to be asked again, by jobs that are then to be sent; otherwise
    /// -1.
    #[expect(clippy::cast_precision_loss, reason = "the engine's times are below 2^53")]
    pub fn again(&mut self) -> f64 {
        let Some(now) = self.round.again(&self.answers) else { return -1.0 };
        self.jobs = self.round.jobs();
        now as f64
    }

    /// How many jobs are to be sent.
    #[wasm_bindgen(js_name = jobCount)]
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// What became of the calls, once all jobs have been answered: as `ts/backends/redis/batching/response-decoder.ts` reads it.
    pub fn settle(&mut self) -> Vec<f64> {
        let Self { round, answers, .. } = self;
        let (mut told, mut details) = (Answers::with_room_for(round.len()), Vec::new());
        let mut takes = round.takes();
        round.settle(answers, |performed| {
            told.push(performed, takes.next() == Some(true), &mut details);
        });
        drop(takes);
        let mut told = told.close(details);
        let doubles = std::mem::take(&mut told.answers);
        self.told = told;
        doubles
    }

    /// What failures say.
    pub fn texts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told.texts)
    }
}
