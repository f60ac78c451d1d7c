//! What help shows: `-h` the options that most people need, `--help` all that the command uses.

use clap::{Arg, ArgAction, Command};

/// The long names of the options of a run that `-h` shows.
const MOST_NEEDED: [&str; 20] = [
    "url",
    "simulate",
    "server-cmd",
    "against-cmd",
    "model",
    "api-key-env",
    "max-concurrency",
    "request-rate",
    "random-input-len",
    "random-output-len",
    "goodput",
    "num-prompts",
    "starts",
    "resume",
    "save-baseline",
    "baseline",
    "require",
    "output-dir",
    "quiet",
    "verbose",
];

/// Commands that take the flags of a run, and the groups of flags that they accept and do not use.
const UNUSED: [(&str, &[&str]); 5] = [
    ("run", &[]),
    ("calibrate", &[]),
    ("plan", &["Comparison"]),
    ("preflight", &["Run", "Comparison"]),
    ("list", &["Server", "Run", "Comparison"]),
];

/// The command line with its help shaped.
pub(super) fn shaped(command: Command) -> Command {
    UNUSED.iter().fold(command, |command, (name, unused)| {
        command.mut_subcommand(name, |command| shortened(command, unused))
    })
}

/// One command whose `-h` fits a screen, without the groups of flags that it does not use.
pub(super) fn shortened(command: Command, unused: &[&str]) -> Command {
    let command = command.mut_args(|arg| {
        let heading = arg.get_help_heading().unwrap_or_default();
        if unused.contains(&heading) {
            return arg.hide(true);
        }
        let is_needed = heading.is_empty() || is_most_needed(&arg);
        arg.hide_short_help(!is_needed)
    });
    command
        .after_help("`--help` shows all options, environment variables and exit codes.")
        .after_long_help(super::ENVIRONMENT_HELP)
}

fn is_most_needed(arg: &Arg) -> bool {
    let is_help = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    is_help || arg.get_long().is_some_and(|long| MOST_NEEDED.contains(&long))
}
