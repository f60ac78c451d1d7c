//! What help shows: `-h` the options that most people need, `--help` all that the command uses.

use clap::{Arg, ArgAction, Command};

/// What help says below the flags.
const ENVIRONMENT_HELP: &str = "\
Environment:
  INFEROMETER_URL, INFEROMETER_MODEL, INFEROMETER_API_KEY  the server
  INFEROMETER_TEST_URL      1 lets `cargo test` send to the configured server
  INFEROMETER_OUTPUT_DIR    directory of results [default: target-reports]
  INFEROMETER_SIM_SLOWDOWN  1.10 makes the simulator 10 % slower, to try the gate
  OPENAI_API_KEY            read only if a URL is given
  NO_COLOR                  no colours

Exit codes:
  0  no regression
  1  regression, or a required limit is missed
  2  usage error
  3  server unusable
  4  results invalid, not comparable or implausible
  130  interrupted";

/// The long names of the options of a run that `-h` shows.
const MOST_NEEDED: [&str; 21] = [
    "filter",
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
        let is_needed = arg.is_positional() || is_most_needed(&arg);
        arg.hide_short_help(!is_needed)
    });
    command
        .after_help("`--help` shows all options, environment variables and exit codes.")
        .after_long_help(ENVIRONMENT_HELP)
}

fn is_most_needed(arg: &Arg) -> bool {
    let is_help = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    is_help || arg.get_long().is_some_and(|long| MOST_NEEDED.contains(&long))
}
