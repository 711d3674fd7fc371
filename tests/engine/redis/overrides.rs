//! The numbers of decisions under an override are those that the user wrote, on both stores, whatever
//! its period is.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, FixedWindow};
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::redis::{CallBatch, KeyNames};

use crate::algorithm::buckets::leaky;
use crate::laws::trace::START;
use crate::policy::specs::{DAY, HOUR, RateSpec, SECOND, any_rate};
use crate::redis::operations::{Model, in_memory};
use crate::redis::server::Server;
use crate::redis::twins::{lasting, proven};

/// A limiter on both stores.
struct Twins<'a> {
    server: &'a mut Server,
    policies: PolicySet,
    model: Model,
    now: u64,
}

impl Twins<'_> {
    /// The result on both stores, which is the same.
    fn execute(&mut self, operation: &Operation) -> Execution {
        self.now += 1_000;
        let mut batch = CallBatch::new();
        let names = KeyNames::new("overrides", &self.policies);
        batch.push_operation(&names, &[Some(Key::new("0").unwrap())], None, operation.clone());
        let mode = if matches!(operation, Operation::Peek { .. }) { "peek" } else { "" };
        let more = [mode.to_owned(), self.now.to_string()];
        let executed = self.server.execute(lasting(), &self.policies, &batch, &more).remove(0);
        let expected = in_memory(&mut self.model, &self.policies, &[Some(0)], self.now, operation);
        assert_eq!(executed.as_ref(), Ok(&expected), "{operation:?}");
        expected
    }
}

/// The limits that a decision reports, by limit.
fn limits_of(executed: &Execution) -> Vec<u64> {
    match &executed.response.limits {
        None => vec![executed.response.decision.limit],
        Some(reports) => reports.limits.iter().map(|report| report.limit).collect(),
    }
}

fn reports_what_was_written(
    server: &mut Server,
    policies: PolicySet,
    overridden: Policy,
    before: &[u64],
    after: &[u64],
) -> TestCaseResult {
    let _: () = server.run(&[b"FLUSHALL"]);
    let mut twins = Twins { server, policies, model: Model::default(), now: START };
    let capacity = overridden.capacity();
    let calls = [
        Operation::Take { cost: 1.into() },
        Operation::Peek { cost: 1.into() },
        Operation::Take { cost: capacity.into() },
        Operation::Take { cost: (capacity + 1).into() },
        Operation::Peek { cost: 0.into() },
        Operation::TakeUpTo { units: 2 },
        Operation::Block { lasting: SECOND },
        Operation::Take { cost: 1.into() },
        Operation::Peek { cost: 1.into() },
        Operation::Unblock,
    ];
    for call in &calls {
        prop_assert_eq!(limits_of(&twins.execute(call)), before);
    }
    let policies = vec![Some(Arc::new(overridden))];
    let set = Operation::Override { policies, lasting: DAY };
    prop_assert_eq!(limits_of(&twins.execute(&set)), after);
    for call in &calls {
        prop_assert_eq!(limits_of(&twins.execute(call)), after, "{:?}", call);
    }
    prop_assert_eq!(limits_of(&twins.execute(&Operation::ClearOverride)), before);
    Ok(())
}

/// A rate as `gcra`, whose limit is in its period, or as a leaky bucket, whose limit is its capacity.
fn policy(spec: RateSpec, is_gcra: bool) -> (Policy, u64) {
    if is_gcra { (spec.gcra(), spec.units) } else { (leaky(spec), spec.burst) }
}

// promise: override-limit-reported
#[test]
fn the_limit_of_a_decision_is_the_number_that_the_user_wrote_in_the_override() {
    let cases = (any_rate(), any_rate(), any::<bool>(), any::<bool>());
    proven(cases, |server, (own, other, is_gcra, is_alone)| {
        let ((own, before), (other, after)) = (policy(own, is_gcra), policy(other, is_gcra));
        if is_alone {
            return reports_what_was_written(server, own.into(), other, &[before], &[after]);
        }
        let named =
            |name: &str, policy| NamedPolicy { name: name.into(), policy, key_dimension: 0 };
        let window = Policy::FixedWindow(FixedWindow::new(9, HOUR).unwrap());
        let policies = PolicySet::multi(vec![named("rate", own), named("hour", window)]).unwrap();
        reports_what_was_written(server, policies, other, &[before, 9], &[after, 9])
    });
}

#[test]
fn a_limit_per_hour_is_not_converted_to_the_period_of_the_limiter() {
    let mut server = Server::start();
    let own = RateSpec { units: 100, period: 60 * SECOND, burst: 100 }.gcra();
    for (units, period) in [(500, HOUR), (500, 420 * SECOND)] {
        let other = RateSpec { units, period, burst: 500 }.gcra();
        let own = own.clone().into();
        reports_what_was_written(&mut server, own, other, &[100], &[500]).unwrap();
    }
}
