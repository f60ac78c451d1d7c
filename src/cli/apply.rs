//! The settings that flags make: laid over the defaults, or over what a file said.

use std::path::Path;

use super::args::{
    ApiArg, FailOnArg, JudgeArgs, LoadArgs, OutputArgs, OutputFormatArg, PhaseArgs, RunArgs,
    ServerArgs, SlotStartArg, TriStateArg,
};
use crate::compare::gate::Requirement;
use crate::error::{Error, Result};
use crate::harness::{Action, Detail, Entry, OutputFormat, Surface};
use crate::rng::Seed;
use crate::scenario::file::LaunchSpec;
use crate::settings::{ApiChoice, ApiKey, Launch, Settings, SlotStart, Target, Timeouts, TriState};

/// The preset of the embedded simulator that runs where no server is given.
const DEFAULT_PRESET: &str = "demo";

impl OutputArgs {
    /// What to show, with what to do.
    pub(super) fn surface(&self, action: Action, entry: Entry) -> Surface {
        let format = match self.output_format {
            OutputFormatArg::Terminal => OutputFormat::Terminal,
            OutputFormatArg::Json => OutputFormat::Json,
            OutputFormatArg::Markdown => OutputFormat::Markdown,
        };
        let detail = match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (_, true) => Detail::Verbose,
            _ => Detail::Normal,
        };
        Surface { action, format, detail, entry }
    }

    /// Where results live.
    pub(super) fn apply(&self, settings: &mut Settings) {
        set(&mut settings.output_dir, self.output_dir.clone());
    }
}

/// `K=V` or `K: V`, split once.
fn parse_pair(text: &str, what: &str) -> Result<(String, String)> {
    text.find([':', '='])
        .map(|at| (text[..at].trim().to_owned(), text[at + 1..].trim().to_owned()))
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| {
            Error::usage(format!("{what} `{text}` has no key")).with_hint("write `KEY=VALUE`")
        })
}

impl ServerArgs {
    /// The URL; a variable that is set to nothing names none.
    fn url(&self) -> Option<String> {
        self.url.clone().filter(|url| !url.trim().is_empty())
    }

    /// Whether a server was named at all (else the simulator runs).
    pub(super) fn names_a_server(&self) -> bool {
        self.simulate.is_none()
            && (self.url().is_some() || self.server_cmd.is_some() || self.restart_cmd.is_some())
    }

    /// What the flags say of one side.
    fn launch(&self, command: &Option<String>, restart: &Option<String>) -> LaunchSpec {
        LaunchSpec {
            url: self.url(),
            command: command.clone(),
            ready_path: self.ready.clone(),
            ready_timeout: self.ready_timeout,
            restart: restart.clone(),
            stop: self.stop_cmd.clone().filter(|_| restart.is_some()),
        }
    }

    /// `INFEROMETER_SIM_SLOWDOWN=1.10`: a knob to try the gate.
    fn slow_down(&self, settings: &mut Settings) -> Result<()> {
        let Ok(text) = std::env::var("INFEROMETER_SIM_SLOWDOWN") else { return Ok(()) };
        let factor: Option<f64> = text.parse().ok().filter(|f: &f64| f.is_finite() && *f > 0.0);
        let factor = factor.ok_or_else(|| {
            Error::usage(format!("`INFEROMETER_SIM_SLOWDOWN={text}` is not a factor"))
                .with_hint("write `1.10` for 10 % slower")
        })?;
        if let Launch::Simulator { slowdown, .. } = &mut settings.target.launch {
            *slowdown = factor;
        }
        Ok(())
    }

    fn apply_target(&self, settings: &mut Settings) -> Result<()> {
        if let Some(preset) = &self.against_simulate {
            if !settings.is_simulated() || self.names_a_server() {
                return Err(Error::usage("`--against-simulate` compares simulators").with_hint(
                    "add `--simulate PRESET`, or give the other side by `--against-cmd`",
                ));
            }
            // The knob for trying the gate slows the side that is judged, not its base.
            let launch = Launch::Simulator { preset: preset.clone(), slowdown: 1.0 };
            settings.against = Some(Target { url: String::new(), launch });
        }
        if !self.names_a_server() {
            let against = [&self.against_cmd, &self.against_url, &self.against_restart_cmd];
            // A file may have named the server.
            if settings.is_simulated() && against.iter().any(|side| side.is_some()) {
                return Err(Error::usage("the other side is given, but not the server to judge")
                    .with_hint("add `--url URL` or `--server-cmd COMMAND`"));
            }
        } else if let Some(target) = self.launch(&self.server_cmd, &self.restart_cmd).target()? {
            settings.target = target;
        }
        if let Some(url) = &self.against_url {
            settings.against = Some(Target { url: url.clone(), launch: Launch::External });
        } else if self.against_cmd.is_some() || self.against_restart_cmd.is_some() {
            let spec = self.launch(&self.against_cmd, &self.against_restart_cmd);
            settings.against = LaunchSpec { url: None, ..spec }.against()?;
        }
        Ok(())
    }

    /// The key: from a named variable, a file, `INFEROMETER_API_KEY`, or `OPENAI_API_KEY` where a
    /// URL was given on purpose.
    fn key(
        &self,
        target: &Target,
        read: &dyn Fn(&Path) -> Result<String>,
    ) -> Result<Option<ApiKey>> {
        if self.api_key.is_some() {
            return Err(Error::usage("`--api-key` would show the key in the process list")
                .with_hint("use `--api-key-env NAME` or `--api-key-file PATH`"));
        }
        if let Some(name) = &self.api_key_env {
            let key = std::env::var(name).map_err(|_| {
                Error::usage(format!("the environment variable `{name}` is not set"))
                    .with_hint("`--api-key-env` takes the name of a variable, not the key")
            })?;
            return Ok(Some(ApiKey::new(key)));
        }
        if let Some(path) = &self.api_key_file {
            let key = read(path)?;
            return Ok(Some(ApiKey::new(key.trim_end_matches(['\r', '\n']))));
        }
        let of = |name| std::env::var(name).ok().filter(|key| !key.is_empty()).map(ApiKey::new);
        // A bench must not send a key to a server that was not named on purpose.
        let is_named = target.launch == Launch::External && !target.url.is_empty();
        let on_purpose = is_named || self.url().is_some();
        Ok(of("INFEROMETER_API_KEY").or_else(|| of("OPENAI_API_KEY").filter(|_| on_purpose)))
    }

    fn apply(&self, settings: &mut Settings, read: &dyn Fn(&Path) -> Result<String>) -> Result<()> {
        self.apply_target(settings)?;
        set_some(&mut settings.model, self.model.clone().filter(|model| !model.is_empty()));
        if let Some(api) = self.api {
            settings.api = match api {
                ApiArg::Auto => ApiChoice::Auto,
                ApiArg::Completions => ApiChoice::Completions,
                ApiArg::Chat => ApiChoice::Chat,
            };
        }
        let key = self.key(&settings.target, read)?;
        // The embedded simulator asks for none.
        settings.api_key = key.filter(|_| !settings.is_simulated());
        for header in &self.headers {
            settings.headers.push(parse_pair(header, "header")?);
        }
        if let Some(extra) = &self.extra_body {
            settings.extra_body = serde_json::from_str(extra)
                .map_err(|e| Error::usage("`--extra-body` is not a JSON object").with_cause(e))?;
        }
        set_some(&mut settings.ca_cert, self.ca_cert.clone());
        settings.insecure |= self.insecure;
        let defaults = settings.timeouts;
        settings.timeouts = Timeouts {
            connect: self.connect_timeout.unwrap_or(defaults.connect),
            first_byte: self.first_byte_timeout.unwrap_or(defaults.first_byte),
            idle: self.idle_timeout.unwrap_or(defaults.idle),
            total: self.total_timeout.or(defaults.total),
        };
        Ok(())
    }
}

impl LoadArgs {
    fn apply(&self, settings: &mut Settings) {
        set_some(&mut settings.num_prompts, self.num_prompts);
        set_some(&mut settings.measurement_time, self.measurement_time);
        if let Some(seed) = self.seed {
            settings.seed = Seed(seed);
        }
        if let Some(ignore_eos) = self.ignore_eos {
            settings.ignore_eos = match ignore_eos {
                TriStateArg::Auto => TriState::Auto,
                TriStateArg::On => TriState::On,
                TriStateArg::Off => TriState::Off,
            };
        }
        if let Some(slot_start) = self.slot_start {
            settings.slot_start = match slot_start {
                SlotStartArg::Spread => SlotStart::Spread,
                SlotStartArg::Together => SlotStart::Together,
            };
        }
        settings.replay_prompts |= self.replay_prompts;
    }
}

impl PhaseArgs {
    fn apply(&self, settings: &mut Settings) -> Result<()> {
        set(&mut settings.warm_up_time, self.warm_up_time);
        set(&mut settings.reference_requests, self.reference_requests);
        set(&mut settings.cool_down, self.cool_down);
        set(&mut settings.starts, self.starts);
        set(&mut settings.rounds, self.rounds);
        if !self.looks.is_empty() {
            settings.looks.clone_from(&self.looks);
        }
        set_some(&mut settings.budget, self.budget);
        settings.skip.preflight |= self.no_preflight;
        settings.skip.warm_up |= self.no_warm_up;
        settings.skip.reference |= self.no_reference;
        set(&mut settings.max_error_rate, self.max_error_rate);
        settings.stop_when_saturated |= self.stop_when_saturated;
        for pair in &self.metadata {
            let (key, value) = parse_pair(pair, "metadata")?;
            settings.metadata.insert(key, value);
        }
        set_some(&mut settings.resume, self.resume.clone());
        set_some(&mut settings.name, self.name.clone());
        Ok(())
    }
}

impl JudgeArgs {
    pub(super) fn apply(&self, settings: &mut Settings) -> Result<()> {
        if self.nresamples.is_some() {
            return Err(Error::usage("`--nresamples` has no meaning here").with_hint(
                "no resampling enters a verdict: the replicate is the server start, set by `--starts`",
            ));
        }
        if self.profile_time.is_some() {
            return Err(Error::usage("`--profile-time` has no meaning here")
                .with_hint("hold a load with `--measurement-time` and profile the server itself"));
        }
        let baseline = &mut settings.baseline;
        set_some(&mut baseline.save, self.save_baseline.clone());
        set_some(&mut baseline.append, self.append_baseline.clone());
        set_some(&mut baseline.compare, self.baseline.clone());
        set_some(&mut baseline.load, self.load_baseline.clone());
        if self.baseline_lenient.is_some() {
            baseline.compare.clone_from(&self.baseline_lenient);
            baseline.lenient = true;
        }
        let judge = &mut settings.judge;
        set(&mut judge.significance_level, self.significance_level);
        set(&mut judge.confidence_level, self.confidence_level);
        set_some(&mut judge.noise_threshold, self.noise_threshold);
        if !self.gate.is_empty() {
            judge.gate = Some(self.gate.clone());
        }
        for limit in &self.require {
            limit.parse::<Requirement>()?; // told before the run, not after it
        }
        judge.require.extend(self.require.iter().cloned());
        judge.fail_on_inconclusive |= self.fail_on == Some(FailOnArg::Inconclusive);
        judge.no_fail |= self.no_fail;
        judge.accept_gain |= self.accept_gain;
        for (name, level) in [
            ("--significance-level", judge.significance_level),
            ("--confidence-level", judge.confidence_level),
        ] {
            if !(level > 0.0 && level < 1.0) {
                return Err(Error::usage(format!("`{name} {level}` does not lie between 0 and 1")));
            }
        }
        Ok(())
    }
}

/// Overrides a setting where a flag was given.
fn set<T>(setting: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *setting = value;
    }
}

/// Overrides an optional setting where a flag was given.
fn set_some<T>(setting: &mut Option<T>, flag: Option<T>) {
    if flag.is_some() {
        *setting = flag;
    }
}

impl RunArgs {
    /// Lays the flags over `settings` (defaults, or what a file said).
    pub(super) fn apply(
        &self,
        settings: &mut Settings,
        read: &dyn Fn(&Path) -> Result<String>,
    ) -> Result<()> {
        self.server.apply(settings, read)?;
        self.load.apply(settings);
        self.phases.apply(settings)?;
        self.judge.apply(settings)?;
        self.output.apply(settings);
        Ok(())
    }

    /// The settings of these flags alone: the simulator's profile where no server is named.
    pub(super) fn settings(&self, read: &dyn Fn(&Path) -> Result<String>) -> Result<Settings> {
        let mut settings = if self.server.names_a_server() {
            Settings::for_url("")
        } else {
            let preset = self.server.simulate.as_deref().unwrap_or(DEFAULT_PRESET);
            let mut settings = Settings::for_simulator(preset);
            settings.no_server_given = self.server.simulate.is_none();
            self.server.slow_down(&mut settings)?;
            settings
        };
        self.apply(&mut settings, read)?;
        Ok(settings)
    }
}
