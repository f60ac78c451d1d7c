//! Numbers as people read and write them: durations, rates, counts, changes.

use std::time::Duration;

use crate::error::{Error, Result};

/// Whether a character steers a terminal or turns the direction of writing: a server's words must do
/// neither.
#[must_use]
pub fn steers(letter: char) -> bool {
    let turns = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || turns
}

/// Parses `500ms`, `1.5s`, `10m`, `2h`; a bare number is refused, because its unit would be a guess.
///
/// # Errors
/// Where the unit is missing or unknown, or the number is negative or not finite.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let bad = || {
        Error::usage(format!("`{text}` is not a duration"))
            .with_hint("write a number and its unit: `500ms`, `1.5s`, `10m` or `2h`")
    };
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
    let (number, unit) = text.split_at(split);
    let seconds_per_unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * seconds_per_unit).map_err(|_| bad())
}

/// A duration in the unit that reads best: `850 µs`, `12.3 ms`, `4.2 s`, `3 min 20 s`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "–".into();
    }
    if seconds < 1e-3 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{} ms", significant(seconds * 1e3))
    } else if seconds < 120.0 {
        format!("{} s", significant(seconds))
    } else if seconds < 7200.0 {
        let whole = seconds.round();
        let (minutes, seconds) = ((whole / 60.0).floor(), whole % 60.0);
        match seconds {
            0.0 => format!("{minutes} min"),
            seconds => format!("{minutes} min {seconds} s"),
        }
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}

/// Three significant digits where they matter, never an exponent: `0.123`, `12.3`, `1230`, `45678`.
#[must_use]
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let magnitude = value.abs();
    if magnitude >= 99.95 || magnitude == 0.0 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else if magnitude >= 0.9995 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A value that may be missing, three significant digits.
#[must_use]
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), significant)
}

/// A ratio minus one as a signed percentage: `+1.8 %`, `−0.4 %`.
#[must_use]
pub fn change(ratio_minus_one: f64) -> String {
    if !ratio_minus_one.is_finite() {
        return "–".into();
    }
    let percent = ratio_minus_one * 100.0;
    let digits = usize::from(percent.abs() < 99.95);
    let text = format!("{:.digits$}", percent.abs());
    let zero = text.chars().all(|c| c == '0' || c == '.');
    let sign = match (zero, percent < 0.0) {
        (true, _) => "±",
        (false, true) => "−",
        (false, false) => "+",
    };
    format!("{sign}{text} %")
}

/// Whole numbers with thin groups of three: `1 234 567`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// `1 load point`, `3 load points`.
#[must_use]
pub fn plural(number: usize, one: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {one}{s}", count(number as u64))
}

/// Nanoseconds to milliseconds.
#[must_use]
#[allow(clippy::cast_precision_loss)] // 2^53 ns is 104 days
pub fn ns_to_ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Nanoseconds to seconds.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn ns_to_s(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Seconds to whole nanoseconds, saturating at both ends.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
pub fn s_to_ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(parse_duration("10m").unwrap(), Duration::from_secs(600));
        for bad in ["10", "", "s", "-1s", "1 fortnight", "NaNs"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(duration(0.0123), "12.3 ms");
        assert_eq!(duration(200.0), "3 min 20 s");
        assert_eq!(duration(180.0), "3 min");
        assert_eq!(duration(1949.0), "32 min 29 s");
        assert_eq!(significant(0.123_45), "0.123");
        assert_eq!(significant(45_678.4), "45678");
        assert_eq!(change(0.018), "+1.8 %");
        assert_eq!(change(-0.004), "−0.4 %");
        assert_eq!(change(0.0001), "±0.0 %");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    }
}
