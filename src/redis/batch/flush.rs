//! The batches of several limiters that are sent together.

use std::fmt;
use std::sync::Arc;

use crate::policy::execute::Execution;
use crate::policy::policy_set::Policies;
use crate::redis::batch::call_batch::{Batch, groups_of};
use crate::redis::batch::hit_predictor::Outlook;
use crate::redis::batch::policy_registry::Noting;
use crate::redis::batch::script_call::{Answer, Failure, Job};
use crate::redis::codec::reply::{CallError, Reply};
use crate::redis::codec::wire;
use crate::time::Micros;

/// A script tells of so many outcomes at most: Lua cannot unpack more than 8,000 values.
const MOST_OUTCOMES: usize = 1_000;

/// What is stale is asked again so many times; then Redis's clock does not keep still for long enough.
const MOST_RESENT: u32 = 2;

/// Batches in the order in which they are to be answered.
#[derive(Debug, Default)]
pub struct Round {
    pub(crate) groups: Vec<Group>,
    /// By job: its outcomes so far.
    pub(crate) jobs: Vec<usize>,
    /// The first of the jobs that were made last, and how often jobs had been made before.
    latest: usize,
    resent: u32,
    pub(crate) peeks: bool,
    /// What is to be noted, where that is all that is asked.
    pub(crate) noting: Option<Noting>,
}

/// One limiter's calls.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) policies: Arc<Policies>,
    pub(crate) batch: Batch,
    job: usize,
    /// Earlier jobs that it was in, and to which it was stale.
    stale_in: Vec<usize>,
    /// By call, in the order in which they were made: in which of the groups from this one on it is. Nothing if they are
    /// all in this one.
    pub(crate) waves: Vec<u8>,
}

/// Why a call has no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// The whole job has no answer.
    Job(Failure),
    /// The script had none for this call.
    Call(CallError),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(failure) => failure.fmt(f),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unanswered {}

impl Round {
    /// A round without calls, that has the text of a prefix's policies noted, for so many milliseconds: its one
    /// answer are all texts that are.
    #[must_use]
    pub fn noting(prefix: &str, text: &str, lasting_ms: u64) -> Self {
        let noting = Some(Noting::new(prefix, text, lasting_ms));
        let mut round = Self::default();
        (round.noting, round.jobs) = (noting, vec![0]);
        round
    }

    /// A round whose calls tell what would become of them, and change nothing.
    #[must_use]
    pub fn peeking() -> Self {
        Self { peeks: true, ..Self::default() }
    }

    /// Adds a limiter's calls.
    pub fn push(&mut self, policies: Arc<Policies>, batch: Batch) {
        let job = self.place(batch.outcomes(&policies));
        self.groups.push(Group { policies, batch, job, stale_in: Vec::new(), waves: Vec::new() });
    }

    /// Whether a limiter's calls fit into the latest job, or there is none.
    pub(crate) fn has_room_for(&self, policies: &Policies, batch: &Batch) -> bool {
        let others = self.jobs[self.latest..].last();
        others.is_none_or(|others| others + batch.outcomes(policies) <= MOST_OUTCOMES)
    }

    /// Adds the calls of another round behind its own.
    pub(crate) fn extend(&mut self, other: Self) {
        for Group { policies, batch, .. } in other.groups {
            self.push(policies, batch);
        }
    }

    /// Whether it peeks; and the limiters' calls.
    pub(crate) fn into_groups(self) -> (bool, Vec<Group>) {
        (self.peeks, self.groups)
    }

    /// How many jobs have been made in all, those to be asked again among them.
    #[cfg(feature = "redis")]
    pub(crate) fn jobs_in_all(&self) -> usize {
        self.jobs.len()
    }

    /// Finds room in the latest job, or in a new one.
    fn place(&mut self, outcomes: usize) -> usize {
        let fits = self.jobs[self.latest..]
            .last()
            .is_some_and(|others| others + outcomes <= MOST_OUTCOMES);
        if !fits {
            self.jobs.push(0);
        }
        let job = self.jobs.len() - 1;
        self.jobs[job] += outcomes;
        job
    }

    /// Says around which time by the server's clock the calls will be decided: see
    /// [`Batch::set_time`].
    pub fn set_time(&mut self, about: Micros) {
        self.groups.iter_mut().for_each(|group| group.batch.set_time(about));
    }

    /// Whether the time matters to any of the calls before they are decided.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        let is_timed = |group: &Group| {
            group.policies.named().iter().any(|named| wire(&named.policy).is_timed())
        };
        self.groups.iter().any(is_timed)
    }

    /// The jobs that decide all calls; or, after [`again`](Self::again), those that were stale.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        if let Some(noting) = &self.noting {
            return vec![noting.job()];
        }
        let mut jobs: Vec<Job> = self.jobs[self.latest..].iter().map(|_| Job::deciding()).collect();
        for Group { policies, batch, job, .. } in &self.groups {
            let Some(index) = job.checked_sub(self.latest) else { continue };
            let Job { keys, arguments, .. } = &mut jobs[index];
            batch.add_keys_to(keys);
            batch.write(policies, &mut arguments[0]);
        }
        if self.peeks {
            jobs.iter_mut().for_each(|job| job.arguments.push(b"peek".to_vec()));
        }
        jobs
    }

    /// Prepares to ask again what was stale, and tells the server's time; `None` if nothing is to be
    /// asked again. `answers` are those to all jobs so far; those to the jobs that follow are to be put
    /// behind them.
    ///
    /// The calls of one limiter are stale all together, so that their order remains.
    pub fn again(&mut self, answers: &[Answer]) -> Option<Micros> {
        if self.resent == MOST_RESENT || !self.is_timed() {
            return None;
        }
        let (first, mut server_time) = (self.latest, None);
        let mut read = vec![0; self.jobs.len()];
        let mut groups = std::mem::take(&mut self.groups);
        for group in &mut groups {
            let before = read[group.job];
            let outcomes = group.batch.outcomes(&group.policies);
            read[group.job] += outcomes;
            let Some(Ok(values)) = answers.get(group.job).filter(|_| group.job >= first) else {
                continue;
            };
            let reply = Reply::new(values);
            if !group.batch.is_empty() && reply.is_stale(before) {
                if server_time.is_none() {
                    self.latest = self.jobs.len();
                }
                server_time = Some(reply.now());
                group.stale_in.push(group.job);
                group.batch.set_time(reply.now());
                group.job = self.place(outcomes);
            }
        }
        self.groups = groups;
        self.resent += u32::from(server_time.is_some());
        server_time
    }

    /// The number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.batch.len()).sum()
    }

    /// By call, in order: whether it takes units, and does nothing else.
    pub fn takes(&self) -> impl Iterator<Item = bool> {
        self.groups.iter().flat_map(|group| group.batch.takes())
    }

    /// Whether there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Hands out what became of each call, in order; `answers` are those to all jobs.
    pub fn settle(&self, answers: &[Answer], mut each: impl FnMut(Result<Execution, Unanswered>)) {
        let mut replies: Vec<_> =
            answers.iter().map(|answer| answer.as_ref().map(|values| Reply::new(values))).collect();
        let mut groups = self.groups.iter();
        while let Some(group) = groups.next() {
            if group.waves.is_empty() {
                group.settle(&mut replies, &mut each);
                continue;
            }
            let mut waves = Vec::new();
            let others = groups.by_ref().take(groups_of(&group.waves) - 1);
            for wave in std::iter::once(group).chain(others) {
                let mut told = Vec::with_capacity(wave.batch.len());
                wave.settle(&mut replies, &mut |one| told.push(one));
                waves.push(told.into_iter());
            }
            for &wave in &group.waves {
                waves[usize::from(wave)].next().into_iter().for_each(&mut each);
            }
        }
    }
}

impl Group {
    /// Hands out what became of its calls, in order.
    fn settle(
        &self,
        replies: &mut [Result<Reply<'_>, &Failure>],
        each: &mut impl FnMut(Result<Execution, Unanswered>),
    ) {
        let Self { policies, batch, job, stale_in, .. } = self;
        for stale in stale_in {
            if let Ok(reply) = &mut replies[*stale] {
                batch.executed(policies, reply).for_each(drop);
            }
        }
        match &mut replies[*job] {
            Ok(reply) => {
                let mut otherwise = 0;
                for one in batch.executed(policies, reply) {
                    let is_met =
                        one.as_ref().is_ok_and(|one| Outlook::is_met_by(policies, &one.response));
                    otherwise += usize::from(!is_met);
                    each(one.map_err(Unanswered::Call));
                }
                batch.learn(otherwise);
            }
            Err(failure) => {
                for _ in 0..batch.len() {
                    each(Err(Unanswered::Job(failure.clone())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{CalendarWindow, FixedWindow, Gcra};
    use crate::calendar::Every;
    use crate::key::Key;
    use crate::policy::Policy;
    use crate::redis::{Names, Value, slot_of};

    fn window() -> Policies {
        Policy::FixedWindow(FixedWindow::new(7, 1_000).unwrap()).into()
    }

    fn gcra() -> Policies {
        Policy::Gcra(Gcra::new(7, 1_000, 7).unwrap()).into()
    }

    fn round(groups: &[(Policies, usize)]) -> Round {
        let mut round = Round::default();
        for (number, (policy, calls)) in groups.iter().enumerate() {
            let names = Names::new(&format!("limiter-{number}"), policy);
            let mut batch = Batch::new();
            for call in 0..*calls {
                batch.push(&names, Key::new(&call.to_string()).unwrap(), 1);
            }
            round.push(Arc::new(policy.clone()), batch);
        }
        round
    }

    fn keys_of(round: &Round) -> Vec<usize> {
        round.jobs().iter().map(|job| job.keys.len()).collect()
    }

    #[test]
    fn calls_of_all_limiters_go_in_one_job() {
        let round = round(&[(gcra(), 2), (window(), 3), (gcra(), 4)]);
        assert_eq!((keys_of(&round), round.len()), (vec![9], 9));
        assert!(round.jobs().iter().all(|job| job.arguments.len() == 1));
    }

    #[test]
    fn a_job_has_no_more_calls_than_lua_can_take() {
        assert_eq!(keys_of(&round(&[(gcra(), 600), (gcra(), 400)])), [1_000]);
        assert_eq!(keys_of(&round(&[(gcra(), 600), (gcra(), 401), (gcra(), 500)])), [600, 901]);
    }

    fn told(now: i64, states: &[f64], outcomes: &[u8]) -> Answer {
        let states = states.iter().flat_map(|number| number.to_be_bytes()).collect();
        let outcomes = Value::Bytes(outcomes.to_vec());
        Ok(vec![Value::Number(now), Value::Bytes(states), outcomes, Value::Bytes(vec![])])
    }

    fn daily() -> Policies {
        Policy::CalendarWindow(CalendarWindow::new(7, Every::Day, "UTC").unwrap()).into()
    }

    fn settled(round: &Round, answers: &[Answer]) -> Vec<Result<u64, Unanswered>> {
        let mut remaining = Vec::new();
        round.settle(answers, |told| {
            remaining.push(told.map(|one| one.response.decision.remaining));
        });
        remaining
    }

    #[test]
    fn what_is_stale_is_asked_again_alone_and_settles_in_its_place() {
        let mut round = round(&[(daily(), 2), (window(), 1), (gcra(), 1), (daily(), 1)]);
        assert!(round.is_timed());
        let first = told(900, &[0., 0., 0., 0., 1., 5., 900., 0., 0., 0.], &[5, 5, 0, 0, 5]);
        let mut answers = vec![first];
        assert_eq!(round.again(&answers), Some(900));
        assert_eq!(keys_of(&round), [3]);
        answers.push(told(901, &[1., 1., 1., 2., 1., 3.], &[]));
        assert_eq!(round.again(&answers), None);
        assert_eq!(settled(&round, &answers), [Ok(6), Ok(5), Ok(2), Ok(7), Ok(4)]);
    }

    /// The script adds flags to the outcome of a key with other numbers, an override or a block.
    #[test]
    fn what_is_stale_is_asked_again_whatever_else_is_known_of_the_key() {
        for known in [8, 16, 32, 8 + 16 + 32] {
            let mut round = round(&[(daily(), 1)]);
            let answers = [told(900, &[0., 0.], &[5 + known])];
            assert_eq!(round.again(&answers), Some(900), "{known}");
        }
    }

    #[test]
    fn what_is_stale_three_times_fails_uncharged() {
        let mut round = round(&[(daily(), 1), (window(), 1)]);
        let mut answers = vec![told(900, &[0., 0., 1., 5.], &[5, 0])];
        for now in [900_u64, 950] {
            assert_eq!(round.again(&answers), Some(now));
            assert_eq!(keys_of(&round), [1]);
            answers.push(told(now.cast_signed() + 50, &[0., 0.], &[5]));
        }
        assert_eq!(round.again(&answers), None);
        assert_eq!(settled(&round, &answers), [Err(Unanswered::Call(CallError::Stale)), Ok(2)]);
    }

    #[test]
    fn a_job_that_fails_when_it_is_asked_again_says_why() {
        let mut round = round(&[(daily(), 1), (window(), 1)]);
        let mut answers = vec![told(900, &[0., 0., 1., 5.], &[5, 0])];
        assert_eq!(round.again(&answers), Some(900));
        answers.push(Err(Failure::TimedOut));
        assert_eq!(round.again(&answers), None);
        let late = Err(Unanswered::Job(Failure::TimedOut));
        assert_eq!(settled(&round, &answers), [late, Ok(2)]);
    }

    #[test]
    fn answers_come_in_the_order_of_the_calls_and_a_job_fails_alone() {
        let round = round(&[(gcra(), MOST_OUTCOMES), (window(), 2), (gcra(), 1)]);
        let mut remaining =
            settled(&round, &[Err(Failure::TimedOut), told(900, &[1., 5., 1., 6., 900., 0.], &[])]);
        let last = remaining.split_off(MOST_OUTCOMES);
        assert!(remaining.iter().all(|told| *told == Err(Unanswered::Job(Failure::TimedOut))));
        assert_eq!(last, [Ok(2), Ok(1), Ok(7)]);
    }

    #[test]
    fn what_limiters_were_answered_shapes_what_they_ask_next() {
        let names = Names::new("api", &window());
        let mut noted = Batch::new();
        let mut forms = Vec::new();
        for count in [1., 2., 1., 3.] {
            let mut round = Round::default();
            noted.push(&names, Key::new("a").unwrap(), 1);
            round.push(Arc::new(window()), noted.take());
            forms.push(round.jobs()[0].arguments[0][0]);
            round.settle(&[told(900, &[1., count], &[])], |told| assert!(told.is_ok()));
        }
        // A window that has just been opened was not to be expected.
        assert_eq!(forms, [2, 2, 8, 2]);
    }

    #[test]
    fn a_round_that_notes_goes_to_the_slot_of_its_key_and_is_settled_by_one_answer() {
        let split = Round::noting("api", "default: gcra", 5).by_slot();
        let [part] = &split.parts[..] else { panic!("{split:?}") };
        assert_eq!((part.slot, part.calls.len()), (slot_of(b"api:~policies"), 0));
        assert!(split.crossing.is_none());
        let mut round = Round::noting("api", "default: gcra", 5).in_waves();
        let jobs = round.jobs();
        assert_eq!(jobs[0].keys.iter().collect::<Vec<_>>(), [b"api:~policies"]);
        assert_eq!(
            (jobs.len(), &jobs[0].arguments[..]),
            (1, &[b"default: gcra".to_vec(), b"5".to_vec()][..])
        );
        assert!(jobs[0].script.is_rare());
        assert_eq!(round.again(&[Ok(vec![Value::Bytes(b"default: gcra".to_vec())])]), None);
    }
}
