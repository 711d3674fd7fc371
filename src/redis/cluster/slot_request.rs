//! A part of a round on its way.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use crate::redis::batch::flush::Round;
use crate::redis::batch::partition::Part;
use crate::redis::batch::script_call::{Answer, Failure, Job};
use crate::redis::connection::{Address, ServerTime};
use crate::time::Micros;

/// Some of a round's calls, and the answers that settle them.
#[derive(Debug)]
pub struct Settled<'a> {
    /// The calls.
    pub round: &'a Round,
    /// The answers to all its jobs.
    pub answers: &'a [Answer],
    /// Which calls of the whole round they are, counted from 0; `None` if they are all.
    pub calls: Option<&'a [u32]>,
}

type Hear = dyn Fn(&[Settled<'_>]) + Send + Sync;

/// Whoever waits for a round.
pub(crate) struct Whole {
    pub(crate) clock: Box<dyn Fn() -> Micros + Send + Sync>,
    pub(crate) hear: Box<Hear>,
    pub(crate) deadline: Instant,
}

/// Calls of one slot that are decided by one job. If it is dropped, they are closed.
pub(crate) struct Piece {
    pub(crate) slot: u16,
    pub(crate) whole: Arc<Whole>,
    round: Round,
    calls: Vec<u32>,
    /// Those to earlier jobs, to which some calls were stale.
    answers: Vec<Answer>,
    job: Option<Job>,
    /// Whether the server needs the script's source.
    pub(crate) with_source: bool,
    /// Who is to be asked in the owner's place, this once.
    pub(crate) ask: Option<Address>,
    /// How often it has been sent elsewhere.
    pub(crate) hops: u32,
    /// Whether it is noted when it runs out of time while it waits.
    pub(crate) is_watched: bool,
    is_settled: bool,
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, calls, .. } = self;
        f.debug_struct("Piece").field("slot", slot).field("calls", calls).finish_non_exhaustive()
    }
}

impl Piece {
    pub(crate) fn new(Part { slot, round, calls }: Part, whole: Arc<Whole>) -> Self {
        Self {
            slot,
            whole,
            round,
            calls,
            answers: Vec::new(),
            job: None,
            with_source: false,
            ask: None,
            hops: 0,
            is_watched: false,
            is_settled: false,
        }
    }

    /// A round that is still to be split.
    pub(crate) fn of_round(round: Round, whole: Arc<Whole>) -> Self {
        let calls = (0..).take(round.len()).collect();
        Self::new(Part { slot: 0, round, calls }, whole)
    }

    /// Splits it by slot. What nobody can decide is given back last.
    pub(crate) fn by_slot(mut self) -> (Vec<Self>, Option<Self>) {
        self.is_settled = true;
        let split = std::mem::take(&mut self.round).by_slot();
        let piece = |part| Self::new(part, Arc::clone(&self.whole));
        (split.parts.into_iter().map(piece).collect(), split.crossing.map(piece))
    }

    /// Splits it into its calls, in their order; it remains whole if it is a single one, or has been
    /// decided in part.
    pub(crate) fn by_call(mut self) -> Vec<Self> {
        if self.calls.len() < 2 || !self.answers.is_empty() {
            return vec![self];
        }
        self.is_settled = true;
        let calls = std::mem::take(&mut self.calls);
        let piece = |Part { slot, round, calls: own }| {
            let calls = own.into_iter().map(|call: u32| calls[call as usize]).collect();
            Self::new(Part { slot, round, calls }, Arc::clone(&self.whole))
        };
        std::mem::take(&mut self.round).by_call(self.slot).into_iter().map(piece).collect()
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.whole.deadline
    }

    /// The job to be sent to a server of this time.
    pub(crate) fn job(&mut self, server_time: &ServerTime) -> &Job {
        let Self { round, whole, answers, job, .. } = self;
        job.get_or_insert_with(|| {
            // What is asked again has been told the time.
            if answers.is_empty() {
                round.set_time(server_time.at((whole.clock)()));
            }
            round.jobs().pop().unwrap_or_else(Job::deciding)
        })
    }

    /// It will be sent to another server, or later.
    pub(crate) fn rewind(&mut self) {
        self.job = None;
        self.with_source = false;
        self.ask = None;
    }

    /// Takes an answer, and says whether that settles it; otherwise it is to be sent once more.
    pub(crate) fn hear(&mut self, answer: Answer, server_time: &ServerTime) -> bool {
        self.answers.push(answer);
        let Some(now) = self.round.again(&self.answers) else { return true };
        server_time.learn(now, (self.whole.clock)());
        self.rewind();
        false
    }

    fn as_settled(&self) -> Settled<'_> {
        Settled { round: &self.round, answers: &self.answers, calls: Some(&self.calls) }
    }

    /// Settles it without an answer.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        let missing = self.round.jobs_in_all().saturating_sub(self.answers.len());
        self.answers.extend(std::iter::repeat_n(Err(failure.clone()), missing));
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if !self.is_settled {
            self.is_settled = true;
            self.fail(&Failure::Closed);
            (self.whole.hear)(&[self.as_settled()]);
        }
    }
}

/// Tells of pieces that have their answers: those of one round together.
pub(crate) fn tell(mut settled: Vec<Piece>) {
    // When a cluster goes down there may be thousands, of a hundred rounds.
    let round = |piece: &Piece| (piece.deadline(), Arc::as_ptr(&piece.whole).addr());
    settled.sort_by_key(round);
    for own in settled.chunk_by_mut(|one, other| Arc::ptr_eq(&one.whole, &other.whole)) {
        own.iter_mut().for_each(|piece| piece.is_settled = true);
        let hear = &own[0].whole.hear;
        hear(&own.iter().map(Piece::as_settled).collect::<Vec<_>>());
    }
}
