//! The settings that flags make, laid over the defaults, what code said, or what a file said.

use std::path::Path;

use super::args::{
    FailOnArg, JudgeArgs, OutputArgs, OutputFormatArg, PhaseArgs, RunArgs, ServerArgs,
};
use crate::compare::gate::Requirement;
use crate::error::{Error, Result};
use crate::harness::{Action, Detail, Entry, OutputFormat, Surface};
use crate::report::terminal;
use crate::server::redact_argument;
use crate::settings::launch::LaunchSpec;
use crate::settings::overrides::{set, set_headers, set_some};
use crate::settings::{ApiKey, Launch, Settings, Target, Timeouts, value};

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
        set(&mut settings.output_dir, &self.output_dir);
    }
}

impl ServerArgs {
    /// Whether a server was named at all (else the simulator runs).
    pub(super) fn names_a_server(&self) -> bool {
        let server = self.server.launch();
        let is_named = server.url.is_some() || server.command.is_some() || server.restart.is_some();
        self.simulate.is_none() && is_named
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
        if let Some(preset) = &self.simulate {
            settings.target = Target::simulator(preset);
        }
        self.slow_down(settings)?;
        if let Some(preset) = &self.against_simulate {
            if !settings.is_simulated() || self.names_a_server() {
                return Err(Error::usage("`--against-simulate` compares simulators").with_hint(
                    "add `--simulate PRESET`, or give the other side by `--against-cmd`",
                ));
            }
            // The knob for trying the gate slows the side that is judged, not its base.
            settings.against = Some(Target::simulator(preset));
        }
        if self.names_a_server() {
            set(&mut settings.target, &self.server.launch().target()?);
        } else if settings.is_simulated()
            && [&self.against_cmd, &self.against_url, &self.against_restart_cmd]
                .iter()
                .any(|side| side.is_some())
        {
            return Err(Error::usage("the other side is given, but not the server to judge")
                .with_hint("add `--url URL` or `--server-cmd COMMAND`"));
        }
        if let Some(engine_url) = self.server.engine_url.as_ref().filter(|_| !self.names_a_server())
        {
            if settings.is_simulated() {
                return Err(Error::usage(
                    "`--engine-url` is given, and no gateway before the engine",
                )
                .with_hint("add the gateway's address: `--url URL`"));
            }
            settings.target.engine_url = Some(engine_url.clone());
        }
        if let Some(url) = &self.against_url {
            settings.against = Some(Target::new(url.clone(), Launch::External));
        } else if self.against_cmd.is_some() || self.against_restart_cmd.is_some() {
            settings.against = self.against_launch().against()?;
        }
        Ok(())
    }

    /// A key in a header of the command line is refused nowhere, since a scenario file is not always at hand.
    fn warn_of_readable_headers(&self, headers: &[(String, String)]) -> Result<()> {
        for (text, (name, _)) in self.headers.iter().zip(headers) {
            if redact_argument(text) != *text {
                terminal::print_message(&format!(
                    "warning: the process list shows the header `{name}` while this runs; give the key with \
                     `--api-key-env` or `--api-key-file`, or the header in a scenario file (`[server]`, `headers`)\n"
                ))?;
            }
        }
        Ok(())
    }

    /// The other side, ready and stopped as the server is.
    fn against_launch(&self) -> LaunchSpec {
        let restart = self.against_restart_cmd.clone();
        LaunchSpec {
            url: None,
            engine_url: None,
            command: self.against_cmd.clone(),
            stop: self.server.stop.clone().filter(|_| restart.is_some()),
            restart,
            ..self.server.launch()
        }
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
                // Repeated only if it looks like a variable's name: it may be the key itself.
                let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                let text = match name.chars().all(is_name) {
                    true => format!("the environment variable `{name}` is not set"),
                    false => "`--api-key-env` names no environment variable that is set".to_owned(),
                };
                Error::usage(text).with_hint("it takes the name of a variable, not the key")
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
        let on_purpose = is_named || self.server.launch().url.is_some();
        Ok(of("INFEROMETER_API_KEY").or_else(|| of("OPENAI_API_KEY").filter(|_| on_purpose)))
    }

    pub(super) fn apply(
        &self,
        settings: &mut Settings,
        read: &dyn Fn(&Path) -> Result<String>,
    ) -> Result<()> {
        self.apply_target(settings)?;
        self.server.apply(settings);
        let key = self.key(&settings.target, read)?;
        set_some(&mut settings.api_key, &key);
        if settings.is_simulated() {
            settings.api_key = None; // the embedded simulator asks for none
        }
        let headers: Vec<_> =
            self.headers.iter().map(|text| header(text)).collect::<Result<_>>()?;
        self.warn_of_readable_headers(&headers)?;
        set_headers(settings, &headers);
        if let Some(extra) = &self.extra_body {
            settings.extra_body = serde_json::from_str(extra)
                .map_err(|e| Error::usage("`--extra-body` is not a JSON object").with_cause(e))?;
        }
        set_some(&mut settings.ca_cert, &self.ca_cert);
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

/// `K: V` or `K=V`.
fn header(text: &str) -> Result<(String, String)> {
    value::pair(text).ok_or_else(|| {
        // Not repeated: a key may have been given in a header's place.
        let letters = text.chars().count();
        Error::usage(format!("a header of {letters} letters has no name"))
            .with_hint("write `--header NAME=VALUE`")
    })
}

impl PhaseArgs {
    fn apply(&self, settings: &mut Settings) {
        settings.skip.preflight |= self.no_preflight;
        settings.skip.warm_up |= self.no_warm_up;
        settings.skip.reference |= self.no_reference;
        settings.skip.burn_in |= self.no_burn_in;
        set_some(&mut settings.resume, &self.resume);
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
        set_some(&mut baseline.save, &self.save_baseline);
        set_some(&mut baseline.append, &self.append_baseline);
        set_some(&mut baseline.compare, &self.baseline);
        set_some(&mut baseline.load, &self.load_baseline);
        if self.baseline_lenient.is_some() {
            baseline.compare.clone_from(&self.baseline_lenient);
            baseline.lenient = true;
        }
        let judge = &mut settings.judge;
        set(&mut judge.significance_level, &self.significance_level);
        set(&mut judge.confidence_level, &self.confidence_level);
        set_some(&mut judge.noise_threshold, &self.noise_threshold);
        if !self.gate.is_empty() {
            judge.gate = Some(self.gate.clone());
        }
        for limit in &self.require {
            limit.parse::<Requirement>()?; // told before the run, not after it
            if !judge.require.contains(limit) {
                judge.require.push(limit.clone());
            }
        }
        judge.fail_on_inconclusive |= self.fail_on == Some(FailOnArg::Inconclusive);
        judge.no_fail |= self.no_fail;
        set(&mut judge.allow_failed_starts, &self.allow_failed_starts);
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

impl RunArgs {
    /// Lays the environment and the flags over `settings`: the defaults, what code said, or what a
    /// file said.
    pub(super) fn apply(
        &self,
        settings: &mut Settings,
        read: &dyn Fn(&Path) -> Result<String>,
    ) -> Result<()> {
        self.server.apply(settings, read)?;
        self.overrides.apply(settings);
        self.phases.apply(settings);
        self.judge.apply(settings)?;
        self.output.apply(settings);
        Ok(())
    }

    /// The defaults that go with these flags: the simulator's where no server is named.
    pub(super) fn defaults(&self) -> Settings {
        if self.server.names_a_server() {
            return Settings::for_url("");
        }
        let preset = self.server.simulate.as_deref().unwrap_or(DEFAULT_PRESET);
        let mut settings = Settings::for_simulator(preset);
        settings.no_server_given = self.server.simulate.is_none();
        settings
    }
}
