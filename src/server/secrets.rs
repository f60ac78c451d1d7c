//! Secrets: the values that are taken out of a server's log.

use std::collections::BTreeMap;

use super::command::CommandLine;
use super::redact::{LEAST_BYTES, secret_values};
use crate::settings::{ApiKey, is_secret_name};

/// The secret values themselves, to be taken out of a server's log.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Every secret that a command, its environment and the client's key hold.
    pub(super) fn of(
        command: &CommandLine,
        environment: &BTreeMap<String, String>,
        api_key: Option<&ApiKey>,
    ) -> Self {
        let mut values: Vec<String> = api_key.iter().map(|key| key.expose().to_owned()).collect();
        values.extend(secret_values(&command.argv));
        let variables = command.environment.iter().chain(environment);
        values.extend(variables.filter(|(n, _)| is_secret_name(n)).map(|(_, value)| value.clone()));
        values.retain(|value| value.trim().len() >= LEAST_BYTES);
        Self(values)
    }

    /// The text without the secrets.
    pub(super) fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| ApiKey::new(secret).redact(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_values_leave_the_log() {
        let command =
            CommandLine::parse("HF_TOKEN=tok-1234 s --api-key=key-5678 --password pw-90").unwrap();
        let secrets = Secrets::of(&command, &BTreeMap::new(), Some(&ApiKey::new("mine-1")));
        assert_eq!(
            secrets.redact("args: key-5678 tok-1234 pw-90 mine-1 ok"),
            "args: [redacted] [redacted] [redacted] [redacted] ok"
        );
        assert!(!format!("{command:?}").contains("5678"));
        let nested = CommandLine::parse(
            "sh -c 'vllm --api-key key-1 --port 1' curl -H 'Authorization: Bearer key-2'",
        );
        let secrets = Secrets::of(&nested.unwrap(), &BTreeMap::new(), None);
        assert_eq!(secrets.redact("key-1 key-2 --port"), "[redacted] [redacted] --port");
    }
}
