//! A command line: its words and its environment.

use std::collections::BTreeMap;

use super::redact::{redact_all, redact_command};
use crate::error::{Error, Result};

/// A command as it is run: leading `NAME=value` words are its environment, as in a shell.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables set for it.
    pub environment: BTreeMap<String, String>,
}

impl CommandLine {
    /// Splits a command line by the rules of a POSIX shell; nothing is expanded.
    ///
    /// # Errors
    /// Where a quote is not closed or no program is named.
    pub fn parse(text: &str) -> Result<Self> {
        let words = shlex::split(text).ok_or_else(|| {
            Error::usage(format!("`{}` has a quote that is not closed", redact_command(text)))
        })?;
        let is_assignment = |word: &&String| assignment(word).is_some();
        let count = words.iter().take_while(is_assignment).count();
        let argv: Vec<String> = words[count..].to_vec();
        if argv.is_empty() {
            return Err(Error::usage("the server command names no program"));
        }
        let environment = words[..count]
            .iter()
            .filter_map(|word| assignment(word))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Ok(Self { argv, environment })
    }

    /// The words with secrets hidden: what may be stored and shown.
    #[must_use]
    pub fn redacted(&self) -> Vec<String> {
        redact_all(&self.argv)
    }
}

impl std::fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.environment.keys().collect();
        write!(f, "CommandLine({:?}, environment {names:?})", self.redacted())
    }
}

fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let legal = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (starts && legal).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_assignments_are_the_environment() {
        let command = CommandLine::parse("A=1 B='x y' vllm serve --opt=2 'a b'").unwrap();
        assert_eq!(command.argv, ["vllm", "serve", "--opt=2", "a b"]);
        assert_eq!(command.environment["B"], "x y");
        assert!(CommandLine::parse("A=1").is_err());
        assert!(CommandLine::parse("").is_err());
        assert!(CommandLine::parse("run 'x").is_err());
    }
}
