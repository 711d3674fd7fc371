//! Dates as days since the 1st of January 1970, a Thursday, in the Gregorian calendar.

/// The seconds of a day on which no clock changes.
pub(super) const SECONDS: i64 = 86_400;

/// The days from the Monday before the 1st of January 1970 to that date.
const MONDAY: i64 = 3;

/// The days from the 1st of March of the year 0 to the 1st of January 1970.
const MARCH: i64 = 719_468;

/// The days of 400 years, after which the leap years repeat.
const CYCLE: i64 = 146_097;

/// The first Monday after a date.
pub(super) fn next_monday(date: i64) -> i64 {
    date + 7 - (date + MONDAY).rem_euclid(7)
}

/// The first 1st of a month after a date.
pub(super) fn next_first(date: i64) -> i64 {
    // In a year that begins with March, the leap day is the last day.
    let day = (date + MARCH).rem_euclid(CYCLE);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - first_of_year(year);
    let month = (5 * of_year + 2) / 153;
    let next = if month < 11 {
        first_of_month(month + 1)
    } else {
        first_of_year(year + 1) - first_of_year(year)
    };
    date - of_year + next
}

/// The days of a 400-year cycle before one of its years.
fn first_of_year(year: i64) -> i64 {
    365 * year + year / 4 - year / 100 + year / 400
}

/// The days of a year before one of its months. The lengths 31, 30, 31, 30 and 31 repeat.
fn first_of_month(month: i64) -> i64 {
    (153 * month + 2) / 5
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;
    use jiff::civil::date;

    use super::*;

    #[test]
    fn mondays_and_firsts_are_those_of_the_calendar() {
        let mut day = date(1899, 12, 1);
        let mut number = i64::from((day - date(1970, 1, 1)).get_days());
        while day < date(2405, 1, 1) {
            let monday = 7 - i64::from(day.weekday().to_monday_zero_offset());
            assert_eq!(next_monday(number) - number, monday, "{day}");
            let first = i64::from(day.days_in_month() - day.day()) + 1;
            assert_eq!(next_first(number) - number, first, "{day}");
            (day, number) = (day + 1.day(), number + 1);
        }
    }
}
