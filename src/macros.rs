//! The macros: `scenario_group!`, `scenario_main!` and the matrix `scenarios!`.

/// Names a group of targets, as criterion's `criterion_group!` does.
///
/// `config` is a [`Harness`](crate::Harness); each target is a `fn(&mut Harness)`. The name becomes a
/// `pub fn() -> Harness` for [`scenario_main!`](crate::scenario_main).
///
/// ```
/// use inferometer::Settings;
/// use inferometer::{Harness, Load, Scenario, scenario_group};
///
/// fn chat(harness: &mut Harness) {
///     let short = Scenario::new("short").input(512).output(128);
///     harness.group("chat").scenario(short.sweep(Load::concurrency, [1, 4, 16, 64]));
/// }
///
/// fn arrivals(harness: &mut Harness) {
///     let steady = Scenario::new("steady").input(512).output(128);
///     harness.group("arrivals").scenario(steady.sweep(Load::request_rate, [0.5, 2.0]));
/// }
///
/// scenario_group! {
///     name = serving;
///     config = Harness::new(Settings::for_simulator("demo"));
///     targets = chat, arrivals
/// }
///
/// assert_eq!(serving().plan()?.points.len(), 6);
/// # Ok::<(), inferometer::Error>(())
/// ```
///
/// The short form takes its settings from the flags and the environment
/// ([`Harness::from_env`](crate::Harness::from_env)):
///
/// ```no_run
/// # fn chat(_: &mut inferometer::Harness) {}
/// inferometer::scenario_group!(serving, chat);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! scenario_group {
    (name = $name:ident; config = $config:expr; targets = $($target:path),+ $(,)?) => {
        /// Builds the harness and declares every target's groups.
        pub fn $name() -> $crate::Harness {
            let mut harness: $crate::Harness = $config;
            $($target(&mut harness);)+
            harness
        }
    };
    ($name:ident, $($target:path),+ $(,)?) => {
        $crate::scenario_group! {
            name = $name;
            config = $crate::Harness::from_env();
            targets = $($target),+
        }
    };
}

/// The `main` of a bench: the groups make one run, whose gate gives the exit code.
///
/// ```no_run
/// use inferometer::{Harness, Load, Scenario, scenario_group, scenario_main};
///
/// fn chat(harness: &mut Harness) {
///     let short = Scenario::new("short").input(512).output(128);
///     harness.group("chat").scenario(short.load(Load::concurrency(16)));
/// }
///
/// scenario_group!(serving, chat);
/// scenario_main!(serving);
/// ```
#[macro_export]
macro_rules! scenario_main {
    ($($group:path),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::bench_main([$($group()),+])
        }
    };
}

/// The matrix: `"group/scenario": input => output @ load`, as many rows as you like.
///
/// A length is a number, a `[list]` that sweeps, or any expression in parentheses that makes a
/// [`Length`](crate::scenario::Length). Rows of one group are put together.
///
/// ```
/// let groups = inferometer::scenarios! {
///     "chat/short": 512 => 128 @ concurrency [1, 4, 16, 64] slo { ttft_ms: 200, tpot_ms: 30 };
///     "chat/long": [4096, 8192] => 128 @ rate [0.5, 1.0, 2.0];
///     "batch/mixed": (100..=900) => (50..=200) @ concurrency [128]
/// };
/// assert_eq!(groups.len(), 2);
/// assert_eq!(groups[0].points().unwrap().len(), 4 + 2 * 3);
/// ```
///
/// Give them to a harness by [`Harness::groups`](crate::Harness::groups). Another kind of load does
/// not compile:
///
/// ```compile_fail
/// inferometer::scenarios! { "chat/short": 512 => 128 @ users [1, 4] };
/// ```
#[macro_export]
macro_rules! scenarios {
    ($($id:literal : $input:tt => $output:tt @ $kind:ident [$($load:expr),+ $(,)?]
        $(slo { $($limit:ident : $value:expr),+ $(,)? })?);* $(;)?) => {{
        let mut matrix = $crate::internal_use::Matrix::new(file!(), line!());
        $(matrix.row($id, |scenario| {
            let scenario = $crate::scenarios!(@inputs scenario, $input);
            let scenario = $crate::scenarios!(@outputs scenario, $output);
            let scenario = $crate::scenarios!(@loads scenario, $kind [$($load),+]);
            $(let scenario =
                scenario.goodput($crate::Slo::new()$(.$limit($value))+);)?
            scenario
        });)*
        matrix.into_groups()
    }};
    (@inputs $scenario:ident, [$($length:expr),+ $(,)?]) => { $scenario.inputs([$($length),+]) };
    (@inputs $scenario:ident, ($length:expr)) => { $scenario.input($length) };
    (@inputs $scenario:ident, $length:tt) => { $scenario.input($length) };
    (@outputs $scenario:ident, [$($length:expr),+ $(,)?]) => { $scenario.outputs([$($length),+]) };
    (@outputs $scenario:ident, ($length:expr)) => { $scenario.output($length) };
    (@outputs $scenario:ident, $length:tt) => { $scenario.output($length) };
    (@loads $scenario:ident, concurrency [$($load:expr),+]) => {
        $scenario.sweep($crate::Load::concurrency, [$($load),+])
    };
    (@loads $scenario:ident, rate [$($load:expr),+]) => {
        $scenario.sweep($crate::Load::request_rate, [$(f64::from($load)),+])
    };
    (@loads $scenario:ident, $kind:ident [$($load:expr),+]) => {
        compile_error!("the load is `concurrency [...]` or `rate [...]`")
    };
}
