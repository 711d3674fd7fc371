use super::*;

const SECOND: Micros = 1_000_000;

fn acquire(
    own: &Concurrency,
    state: &mut PermitState,
    now: Micros,
    id: PermitId,
    waited: Option<Micros>,
) -> Outcome {
    let request = PermitRequest { id, waited };
    own.normalize(state, now);
    let outcome = own.outcome_of(state, now, 1, Some(request));
    match outcome {
        Outcome::Admitted => own.acquire(state, now, 1, id, own.expires),
        _ => own.queue(state, now, 1, request),
    }
    outcome
}

fn two() -> (Concurrency, PermitState) {
    (Concurrency::new(2, 10 * SECOND).unwrap(), PermitState::default())
}

#[test]
fn permits_end_when_they_are_released_or_expire() {
    let (own, mut state) = two();
    let now = 100 * SECOND;
    assert_eq!(acquire(&own, &mut state, now, 1, None), Outcome::Admitted);
    assert_eq!(acquire(&own, &mut state, now + SECOND, 2, None), Outcome::Admitted);
    assert_eq!(acquire(&own, &mut state, now + SECOND, 3, None), Outcome::Refused);
    assert_eq!(own.retry_at(&state, now + SECOND, 1), now + 10 * SECOND);
    assert_eq!(own.retry_at(&state, now + SECOND, 2), now + 11 * SECOND);
    assert!(own.release(&mut state, now + SECOND, 2));
    assert!(!own.release(&mut state, now + SECOND, 2));
    assert_eq!(acquire(&own, &mut state, now + SECOND, 3, None), Outcome::Admitted);
    assert_eq!(own.remaining(&state, now + 10 * SECOND), 1);
    own.normalize(&mut state, now + 11 * SECOND);
    assert_eq!(state, PermitState::default());
}

#[test]
fn an_expired_permit_is_never_revived() {
    let (own, mut state) = two();
    assert_eq!(acquire(&own, &mut state, SECOND, 1, None), Outcome::Admitted);
    own.normalize(&mut state, 10 * SECOND);
    assert!(own.renew(&mut state, 10 * SECOND, 1));
    own.normalize(&mut state, 20 * SECOND - 1);
    assert!(own.renew(&mut state, 20 * SECOND - 1, 1));
    own.normalize(&mut state, 30 * SECOND - 1);
    assert!(!own.renew(&mut state, 30 * SECOND - 1, 1));
}

#[test]
fn the_call_that_has_waited_longest_is_next() {
    let (own, mut state) = two();
    let now = 100 * SECOND;
    for id in [1, 2] {
        assert_eq!(acquire(&own, &mut state, now, id, None), Outcome::Admitted);
    }
    assert_eq!(acquire(&own, &mut state, now, 3, Some(10)), Outcome::Refused);
    assert_eq!(acquire(&own, &mut state, now, 4, Some(20)), Outcome::Refused);
    assert_eq!(acquire(&own, &mut state, now + 5, 4, Some(3)), Outcome::Refused, "delayed");
    assert!(own.release(&mut state, now + 5, 1));
    assert_eq!(own.remaining(&state, now + 5), 0);
    let now = now + 5;
    assert_eq!(acquire(&own, &mut state, now, 5, None), Outcome::Refused, "it does not wait");
    assert_eq!(acquire(&own, &mut state, now, 3, Some(15)), Outcome::Refused);
    // The first requests of the call were delayed: it has waited longest.
    assert_eq!(acquire(&own, &mut state, now, 3, Some(95)), Outcome::Admitted);
    assert!(own.release(&mut state, now, 2));
    assert_eq!(acquire(&own, &mut state, now, 4, Some(25)), Outcome::Admitted);
    // A waiting process that does not ask again is forgotten.
    assert_eq!(acquire(&own, &mut state, now, 6, Some(0)), Outcome::Refused);
    assert!(own.release(&mut state, now, 4));
    assert_eq!(acquire(&own, &mut state, now, 7, None), Outcome::Refused);
    assert_eq!(acquire(&own, &mut state, now + TICKET_LIFE, 7, None), Outcome::Admitted);
}

#[test]
fn after_a_step_back_permits_live_no_longer_than_their_length() {
    let (own, mut state) = two();
    assert_eq!(acquire(&own, &mut state, 1_000 * SECOND, 1, None), Outcome::Admitted);
    assert_eq!(acquire(&own, &mut state, 100 * SECOND, 2, None), Outcome::Admitted);
    assert_eq!(acquire(&own, &mut state, 100 * SECOND, 3, None), Outcome::Refused);
    assert_eq!(own.retry_at(&state, 100 * SECOND, 2), 110 * SECOND);
}

#[test]
fn numbers_have_limits() {
    let why = |limit, expires| Concurrency::new(limit, expires).unwrap_err().to_string();
    assert_eq!(why(0, 1), "limit must be a whole number from 1 to 1,000,000,000");
    assert_eq!(why(MAX_UNITS + 1, 1), "limit must be a whole number from 1 to 1,000,000,000");
    assert!(why(1, 0).starts_with("expires must be longer than 0"));
    let own = Concurrency::new(MAX_UNITS, SECOND).unwrap();
    assert_eq!(own.outcome(&PermitState::default(), 0, MAX_UNITS + 1), Outcome::Impossible);
    let mut state = PermitState::default();
    for _ in 0..MAX_PERMITS {
        assert_eq!(own.charge(&mut state, 0, 1), Outcome::Admitted);
    }
    assert_eq!(own.charge(&mut state, 0, 1), Outcome::Refused);
    assert_eq!((own.remaining(&state, 0), own.retry_at(&state, 0, 1)), (0, SECOND));
}
