//! Wrapping: a line of text broken at spaces to the width of the terminal.

/// A sentence of an error in lines of at most `width` characters where its words allow it; anything
/// else (a line of a file, a caret below it, a log's tail) as it is.
pub(super) fn broken(line: &str, width: usize) -> String {
    let leads = ["error: ", "  because: ", "  hint: ", "gate: "];
    let is_sentence = leads.iter().any(|lead| line.starts_with(lead));
    if !is_sentence || line.chars().count() <= width {
        return line.to_owned();
    }
    let indent = line.len() - line.trim_start().len();
    let mut broken = " ".repeat(indent);
    let mut used = indent;
    for (place, word) in line.split_whitespace().enumerate() {
        let length = word.chars().count();
        match place {
            0 => {}
            _ if used + 1 + length > width => {
                broken.push_str("\n        ");
                used = 8;
            }
            _ => {
                broken.push(' ');
                used += 1;
            }
        }
        broken.push_str(word);
        used += length;
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_and_quoted_lines_are_not() {
        assert_eq!(broken("  hint: aa bb cc", 13), "  hint: aa bb\n        cc");
        assert_eq!(broken("error: short", 13), "error: short");
        assert_eq!(broken("3 | a line of a file", 13), "3 | a line of a file");
    }
}
