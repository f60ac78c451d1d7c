use inferometer::report::{Report, html};

/// Writes the sample reports where `INFEROMETER_PREVIEW` says, for looking at them.
#[test]
fn preview() {
    let Some(root) = std::env::var_os("INFEROMETER_PREVIEW") else { return };
    let samples = [
        ("one", super::fixture::one_sided()),
        ("two", super::fixture::two_sided(4)),
        ("abc", super::fixture::configurations()),
        ("rates", super::fixture::rates()),
        ("failed", super::fixture::all_failed("CUDA out of memory")),
        ("single", super::fixture::one_sample()),
        ("hostile", super::fixture::hostile()),
        ("many", super::fixture::two_sided(40)),
    ];
    for (name, input) in samples {
        let folder = std::path::Path::new(&root).join(name);
        let report = Report::new(input);
        html::render(&report, &mut |path, text| {
            let path = folder.join(path);
            #[allow(clippy::disallowed_methods)]
            {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Ok(())
        })
        .unwrap();
        #[allow(clippy::disallowed_methods)]
        {
            use inferometer::report::{markdown, terminal};
            std::fs::write(folder.join("verdict.md"), markdown::render(&report, None)).unwrap();
            let text = terminal::render(&report, 80, terminal::Color::Never);
            std::fs::write(folder.join("terminal.txt"), text).unwrap();
        }
    }
}
