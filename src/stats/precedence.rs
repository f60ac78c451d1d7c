//! Precedence: how surprising it is that the worst starts are all new ones.

/// The chance that the worst `ahead` of all starts are new ones where both sides are alike
/// (Nelson, Technometrics 5, 1963): C(base + new − ahead, base) / C(base + new, base). Assumes
/// starts that are exchangeable and no ties at the border; 1 for `ahead` = 0.
#[must_use]
pub fn precedence_p(base: u64, new: u64, ahead: u64) -> f64 {
    let step = |taken: u64| {
        (new.saturating_sub(taken)) as f64 / (base + new).saturating_sub(taken).max(1) as f64
    };
    (0..ahead.min(new)).map(step).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_against_eight_starts_by_hand() {
        // One of two halves the time; the three worst of 16: 8·7·6 / (16·15·14).
        assert_eq!(precedence_p(8, 8, 0), 1.0);
        assert_eq!(precedence_p(8, 8, 1), 0.5);
        assert!((precedence_p(8, 8, 3) - 336.0 / 3360.0).abs() < 1e-15);
        // Six bad starts of eight are above a level of 0.001, seven are below.
        assert!(precedence_p(8, 8, 6) > 0.001 && precedence_p(8, 8, 7) <= 0.001);
    }
}
