//! The rows of the table.
#![forbid(unsafe_code)]

mod between_hosts;
mod guest;
mod loopback;
mod ucx;

use super::row::{Row, Site};

/// All rows, in the order of the document.
pub fn all() -> Vec<&'static Row> {
    let groups = [loopback::ROWS, ucx::ROWS, between_hosts::ROWS, guest::ROWS];
    groups.into_iter().flatten().collect()
}

/// The rows that a run measures.
pub fn rows_of(site: Site) -> impl Iterator<Item = &'static Row> {
    let rows = all().into_iter();
    rows.filter(move |row| row.place.site() == Some(site))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_unique_names() {
        let rows = all();
        let names: std::collections::HashSet<_> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), rows.len());
        assert!(rows.iter().all(|row| !row.name.contains('\t')));
    }
}
