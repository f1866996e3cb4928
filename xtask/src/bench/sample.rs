//! Figures of two libraries, taken in turn, and the conclusions from them.
#![forbid(unsafe_code)]

/// A row is slower only if so few of the ways in which chance can fall show it as slower.
const CHANCE: f64 = 0.001;

/// The figures of one row: one of each library for every round, in the order of the rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    pub stock: Vec<f64>,
    pub ours: Vec<f64>,
}

impl Pairs {
    pub fn stock_median(&self) -> Option<f64> {
        median(&self.stock)
    }

    pub fn ours_median(&self) -> Option<f64> {
        median(&self.ours)
    }

    /// Ours to the stock library's, medians.
    pub fn ratio(&self) -> Option<f64> {
        let stock = self.stock_median().filter(|stock| *stock > 0.0)?;
        Some(self.ours_median()? / stock)
    }

    /// Whether ours is more than `bound` times the stock library's, by the medians alone: for
    /// counts, which do not depend on other work of the machine.
    pub fn exceeds(&self, bound: f64) -> Option<bool> {
        self.ratio().map(|ratio| ratio > bound)
    }

    /// The same for times: more by the medians, and in so many of the rounds that chance does not
    /// explain it (sign test).
    pub fn exceeds_surely(&self, bound: f64) -> Option<bool> {
        let (over, all) = self.rounds_over(bound);
        Some(self.exceeds(bound)? && at_least(over, all) < CHANCE)
    }

    /// In how many rounds ours was more than `bound` times the stock library's, and of how many.
    pub fn rounds_over(&self, bound: f64) -> (usize, usize) {
        let rounds = self.stock.iter().zip(&self.ours);
        let all = rounds.len();
        let over = rounds.filter(|(stock, ours)| **ours > bound * **stock);
        (over.count(), all)
    }
}

/// The value in the middle, or halfway between the two there.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(half.checked_sub(1)?)?;
    Some(lower.midpoint(upper))
}

/// The chance that at least `heads` of `tosses` of a fair coin are heads.
fn at_least(heads: usize, tosses: usize) -> f64 {
    // ways[k]: in how many of all the falls, as a share, k are heads.
    let mut ways = vec![1.0];
    for _ in 0..tosses {
        let mut next = vec![0.0; ways.len() + 1];
        for (k, share) in ways.iter().enumerate() {
            for fall in [k, k + 1] {
                if let Some(sum) = next.get_mut(fall) {
                    *sum += share / 2.0;
                }
            }
        }
        ways = next;
    }
    ways.iter().skip(heads).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(rounds: &[(f64, f64)]) -> Pairs {
        Pairs {
            stock: rounds.iter().map(|round| round.0).collect(),
            ours: rounds.iter().map(|round| round.1).collect(),
        }
    }

    #[test]
    fn a_median_is_the_middle_or_between_the_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn coins_fall_as_they_do() {
        assert_eq!(at_least(0, 3), 1.0);
        assert_eq!(at_least(2, 2), 0.25);
        assert_eq!(at_least(2, 3), 0.5);
        assert_eq!(at_least(4, 3), 0.0);
    }

    #[test]
    fn equal_is_not_more() {
        let even = pairs(&[(2.0, 2.0)]);
        assert_eq!(even.ratio(), Some(1.0));
        assert_eq!(even.exceeds(1.0), Some(false));
        assert_eq!(even.exceeds(0.5), Some(true));
    }

    #[test]
    fn a_few_rounds_are_not_sure_and_many_are() {
        let slower = [(10.0, 11.0); 20];
        let few = slower.get(..5).map(pairs);
        assert_eq!(few.and_then(|few| few.exceeds_surely(1.0)), Some(false));
        assert_eq!(pairs(&slower).exceeds_surely(1.0), Some(true));
        let mixed: Vec<_> = (0..20)
            .map(|round| (10.0, if round % 3 == 0 { 9.0 } else { 10.5 }))
            .collect();
        assert_eq!(pairs(&mixed).exceeds_surely(1.0), Some(false));
    }

    #[test]
    fn rounds_are_counted() {
        let few = pairs(&[(2.0, 1.0), (2.0, 3.0), (2.0, 2.0)]);
        assert_eq!(few.rounds_over(1.0), (1, 3));
        assert_eq!(few.rounds_over(0.5), (2, 3));
    }

    #[test]
    fn nothing_measured_is_no_answer() {
        assert_eq!(Pairs::default().ratio(), None);
        assert_eq!(pairs(&[(0.0, 1.0)]).exceeds(1.0), None);
    }
}
