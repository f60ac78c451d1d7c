//! A sample: one line of the Prometheus text format.

/// Lines read of one page. A vLLM page has about 700; a page beyond this is no metrics page.
const MAX_SAMPLES: usize = 100_000;

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    /// The metric's name, with its suffix (`_sum`, `_count`, `_bucket`, `_total`).
    pub name: &'a str,
    /// Its labels in the order sent, values unescaped.
    pub labels: Vec<(&'a str, String)>,
    /// Its value. Never NaN: such samples say nothing and are left out.
    pub value: f64,
}

/// Reads every sample of a page, in order. Comments, blank lines and lines that are no samples (a
/// response head, a broken line) are passed over: half a page is better than none.
///
/// Format: <https://prometheus.io/docs/instrumenting/exposition_formats/>, text version 0.0.4.
#[must_use]
pub fn parse(page: &str) -> Vec<Sample<'_>> {
    page.lines().filter_map(sample).take(MAX_SAMPLES).collect()
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let name_end = line.find(|c: char| !is_name(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(name_end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    // A space must part the name from the value: `date: Sun` is no sample.
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    // The value may be followed by a time stamp, which is not needed.
    let value = number(rest.split_whitespace().next()?)?;
    Some(Sample { name, labels, value })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

fn number(text: &str) -> Option<f64> {
    let value = match text {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        _ => text.parse().ok()?,
    };
    (!value.is_nan()).then_some(value)
}

type Labels<'a> = Vec<(&'a str, String)>;

/// The labels after `{`, and what follows `}`.
fn labels(mut rest: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let equals = rest.find('=')?;
        let name = rest[..equals].trim();
        let quoted = rest[equals + 1..].trim_start().strip_prefix('"')?;
        let (value, after) = quoted_value(quoted)?;
        labels.push((name, value));
        rest = after;
    }
}

/// The value up to its closing quote, with `\\`, `\"` and `\n` undone, and what follows.
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_names_labels_and_values() {
        let page = "# TYPE a counter\na 1\nb{x=\"1\",y=\"q\\\"\\\\\\n,}\"} 2.5e3 1700000000\n\
                    c{} +Inf\nd NaN\n";
        let samples = parse(page);
        assert_eq!(samples.len(), 3);
        assert_eq!((samples[0].name, samples[0].value), ("a", 1.0));
        assert_eq!(samples[1].labels[1], ("y", "q\"\\\n,}".to_owned()));
        assert_eq!(samples[1].value, 2500.0);
        assert_eq!(samples[2].value, f64::INFINITY);
    }

    #[test]
    fn passes_over_what_is_no_sample() {
        for line in ["", "HTTP/1.1 200 OK", "date: Sun", "a", "a{", "a{x=\"1} 2", "a{x} 1", "9a 1"]
        {
            assert_eq!(parse(line), Vec::new(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(page in "(?s).{0,400}") {
            let _ = parse(&page);
        }

        #[test]
        fn never_panics_on_near_samples(page in "[a-c{}=\",\\\\ 0-9.eE+\n#-]{0,200}") {
            let _ = parse(&page);
        }

        #[test]
        fn label_values_survive(value in "(?s).{0,40}", number in -1e12_f64..1e12) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            prop_assume!(!value.contains('\r'));
            let line = format!("m{{l=\"{escaped}\"}} {number}");
            let samples = parse(&line);
            prop_assert_eq!(samples.len(), 1);
            prop_assert_eq!(&samples[0].labels[0].1, &value);
            prop_assert_eq!(samples[0].value, number);
        }
    }
}
