//! How long a server asks clients to wait (RFC 9110 §10.2.3).

use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// What `Retry-After` asks for, in milliseconds. A date is measured from the answer's own `Date`
/// where it has one: the two clocks need not agree. What is neither a number nor a date is ignored.
pub(crate) fn wait_ms(headers: &HeaderMap) -> Option<u64> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let after = text(RETRY_AFTER)?;
    let seconds = match after.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let now = text(DATE).and_then(unix_s).or_else(clock_s)?;
            unix_s(after)?.saturating_sub(now)
        }
    };
    Some(seconds.saturating_mul(1000))
}

fn clock_s() -> Option<u64> {
    Some(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// The seconds since 1970 of an IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
/// Nothing sends the two older forms any more.
fn unix_s(date: &str) -> Option<u64> {
    let fields: Vec<_> = date.split([' ', ':']).collect();
    let [weekday, day, month, year, hour, minute, second, "GMT"] = fields[..] else { return None };
    if weekday.len() != 4 || !weekday.ends_with(',') {
        return None;
    }
    let clock = [(hour, 24), (minute, 60), (second, 61)];
    let second_of_day = clock.iter().try_fold(0, |sum, (field, below)| {
        let value = number(field, 2).filter(|value| value < below)?;
        Some(sum * 60 + value)
    })?;
    let days = days(number(year, 4)?, month, number(day, 2)?)?;
    Some(days * 86_400 + second_of_day)
}

/// Days since 1970; `None` for a date before that, or one that no calendar has.
fn days(year: u64, month: &str, day: u64) -> Option<u64> {
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let at = MONTHS.iter().position(|name| *name == month)?;
    if day == 0 || day > *months.get(at)? {
        return None;
    }
    let past = year.checked_sub(1)?;
    let before = past * 365 + past / 4 - past / 100 + past / 400;
    let in_year: u64 = months.iter().take(at).sum();
    (before + in_year + day - 1).checked_sub(DAYS_BEFORE_1970)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// From the first day of the year 1.
const DAYS_BEFORE_1970: u64 = 719_162;

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_seconds() {
        for (date, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
            ("Fri, 31 Dec 2100 00:00:00 GMT", 4_133_894_400),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
        ] {
            assert_eq!(unix_s(date), Some(seconds), "{date}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "soon",
            "-1",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 2100 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 Nov 1994 +8:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Wed, 31 Dec 1969 23:59:59 GMT",
            "Sat, 01 Jan 0000 00:00:00 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(unix_s(text), None, "{text}");
        }
    }

    #[test]
    fn a_wait_is_a_number_or_the_time_to_a_date() {
        let wait = |after: &str, date: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, after.parse().unwrap());
            headers.extend(date.map(|date| (DATE, date.parse().unwrap())));
            wait_ms(&headers)
        };
        let then = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(wait(" 7", Some(then)), Some(7_000));
        assert_eq!(wait(&u64::MAX.to_string(), None), Some(u64::MAX));
        assert_eq!(wait(then, Some("Sun, 06 Nov 1994 08:47:37 GMT")), Some(120_000));
        assert_eq!(wait(then, Some("Sun, 06 Nov 1994 09:49:37 GMT")), Some(0));
        // Without a `Date` that can be read, this machine's clock says how long ago that was.
        assert_eq!(wait(then, None), Some(0));
        let far = wait("Fri, 31 Dec 9999 23:59:59 GMT", Some("now")).unwrap();
        assert!(far > 7_000 * 365 * 86_400 * 1000, "{far}");
        assert_eq!(wait("soon", Some(then)), None);
        assert_eq!(wait_ms(&HeaderMap::new()), None);
    }
}
