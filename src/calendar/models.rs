//! A model of a calendar that threads share: `npm run models`.

use std::sync::Arc;

use loom::thread;

use super::*;

#[derive(Debug)]
struct Utc;

impl Zone for Utc {
    fn offset(&self, _at: i64) -> i64 {
        0
    }

    fn change(&self, _from: i64, _to: i64) -> Option<Change> {
        None
    }
}

#[test]
fn threads_that_look_up_other_windows_get_the_ends_of_theirs() {
    const HOUR_MS: u64 = 3_600_000;
    loom::model(|| {
        let calendar = Arc::new(Calendar::in_zone(Every::HOUR, "UTC", Box::new(Utc)));
        let look_up = |hour: u64| {
            let calendar = Arc::clone(&calendar);
            move || {
                let now = hour * HOUR_MS * 1_000 + 1;
                for _ in 0..2 {
                    assert_eq!(calendar.end_after(now), (hour + 1) * HOUR_MS);
                }
            }
        };
        let other = thread::spawn(look_up(500_000));
        look_up(400_000)();
        other.join().unwrap();
    });
}
