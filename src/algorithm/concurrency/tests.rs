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
