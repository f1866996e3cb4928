//! Conditions on the output of a program.
#![forbid(unsafe_code)]

#[derive(Clone, Debug)]
pub enum Check {
    /// The client prints this.
    Says(&'static str),
    /// Neither side prints this.
    NeverSays(&'static str),
    /// perftest's table has a row of numbers for each of these message sizes.
    PerftestRows(Vec<u64>),
}

impl Check {
    /// The violated condition of this output, if any.
    pub fn complaint(&self, output: &str) -> Option<String> {
        match self {
            Self::Says(text) if !output.contains(text) => Some(format!("never printed {text:?}")),
            Self::NeverSays(text) if output.contains(text) => Some(format!("printed {text:?}")),
            Self::PerftestRows(sizes) if *sizes != perftest_sizes(output) => Some(format!(
                "rows for {:?}, not {sizes:?}",
                perftest_sizes(output)
            )),
            _ => None,
        }
    }

    pub fn applies_to_server(&self) -> bool {
        matches!(self, Self::NeverSays(_))
    }
}

/// The message sizes of the rows of perftest's table: the lines that consist of numbers.
fn perftest_sizes(output: &str) -> Vec<u64> {
    output.lines().filter_map(perftest_size).collect()
}

fn perftest_size(line: &str) -> Option<u64> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let numbers = fields.iter().all(|field| field.parse::<f64>().is_ok());
    if !numbers || fields.len() < 4 {
        return None;
    }
    fields.first()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
 Number of qps   : 1		Transport type : IB
 local address: LID 0000 QPN 0x0011 PSN 0x7a7a6c
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:09:00:01
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]
 2       100          300.93         9000.42      398.33   	       523.40
 4       100          300.93         9000.42      398.33   	       523.40
---------------------------------------------------------------------------------------
";

    #[test]
    fn rows_of_the_table_are_found() {
        assert_eq!(perftest_sizes(OUTPUT), [2, 4]);
        assert_eq!(Check::PerftestRows(vec![2, 4]).complaint(OUTPUT), None);
        assert!(Check::PerftestRows(vec![2]).complaint(OUTPUT).is_some());
        assert!(Check::PerftestRows(vec![2]).complaint("").is_some());
    }

    #[test]
    fn words_are_wanted_or_not() {
        assert_eq!(Check::Says("qps").complaint(OUTPUT), None);
        assert!(Check::Says("invalid").complaint(OUTPUT).is_some());
        assert!(Check::NeverSays("qps").complaint(OUTPUT).is_some());
        assert_eq!(Check::NeverSays("invalid").complaint(OUTPUT), None);
    }
}
