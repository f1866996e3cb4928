//! Which module needs which.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Crate, Name};

/// A circle of a crate: the modules in it.
pub type Circle = BTreeSet<String>;

/// The name of the root module in lists.
const ROOT: &str = "crate";
/// Parts of the longest path that is looked for: a name that is imported from another crate of the
/// same name would lead on for ever.
const DEEPEST: usize = 12;

/// Modules, and which others each needs.
pub struct Graph {
    modules: Vec<Name>,
    /// From a module to those it needs, with the items that it names there.
    edges: BTreeMap<usize, BTreeMap<usize, BTreeSet<String>>>,
}

impl Graph {
    pub fn new(all: &Crate) -> Self {
        let modules: Vec<_> = all.0.keys().cloned().collect();
        let mut edges = BTreeMap::<usize, BTreeMap<usize, BTreeSet<String>>>::new();
        for (number, module) in all.0.values().enumerate() {
            for path in &module.names {
                let to = find(all, path, &mut BTreeSet::new())
                    .and_then(|to| modules.iter().position(|module| *module == to));
                if let Some(to) = to.filter(|to| *to != number) {
                    let items = edges.entry(number).or_default().entry(to).or_default();
                    items.extend(path.last().cloned());
                }
            }
        }
        Self { modules, edges }
    }

    /// The circles: the largest sets of two modules or more in which each leads to every other.
    pub fn circles(&self) -> Vec<Circle> {
        let reached: Vec<_> = (0..self.modules.len())
            .map(|from| self.reach(from))
            .collect();
        let leads = |from: usize, to: usize| reached.get(from).is_some_and(|set| set.contains(&to));
        let mut circles = Vec::new();
        let mut seen = BTreeSet::new();
        for from in 0..self.modules.len() {
            if !leads(from, from) || seen.contains(&from) {
                continue;
            }
            let circle: Vec<_> = (0..self.modules.len())
                .filter(|to| leads(from, *to) && leads(*to, from))
                .collect();
            seen.extend(circle.iter().copied());
            circles.push(circle.into_iter().map(|at| self.name(at)).collect());
        }
        circles
    }

    /// The imports that make a circle: a line a pair of modules, with the items that are named.
    pub fn imports(&self, circle: &Circle) -> Vec<String> {
        let mut lines = Vec::new();
        for (from, edges) in &self.edges {
            for (to, items) in edges {
                let (from, to) = (self.name(*from), self.name(*to));
                if circle.contains(&from) && circle.contains(&to) {
                    let items: Vec<_> = items.iter().map(String::as_str).collect();
                    lines.push(format!("{from} -> {to}: {}", items.join(" ")));
                }
            }
        }
        lines
    }

    /// The modules that a module reaches, over at least one edge.
    fn reach(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for to in self.edges.get(&at).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(*to) {
                    open.push(*to);
                }
            }
        }
        reached
    }

    fn name(&self, at: usize) -> String {
        match self.modules.get(at) {
            Some(name) if !name.is_empty() => name.join("::"),
            _ => ROOT.to_owned(),
        }
    }
}

/// The module that defines the item of a path; `None` for another crate's, and for unknown items.
/// `seen` stops the search at re-exports of each other.
fn find(all: &Crate, path: &[String], seen: &mut BTreeSet<Name>) -> Option<Name> {
    if path.len() > DEEPEST || !seen.insert(path.to_vec()) {
        return None;
    }
    if all.0.contains_key(path) {
        // The path names the module itself, to use its items by a shorter path: that counts.
        return Some(path.to_vec());
    }
    let at = (0..path.len()).rev().find(|at| {
        path.get(..*at)
            .is_some_and(|module| all.0.contains_key(module))
    })?;
    let (name, rest) = path.split_at(at);
    let (item, behind) = rest.split_first()?;
    let module = all.0.get(name)?;
    if module.defines.contains(item) {
        return Some(name.to_vec());
    }
    let exports = module.exports.get(item);
    if let Some(to) = exports.or_else(|| module.imports.get(item)) {
        let to: Name = to.iter().chain(behind).cloned().collect();
        return find(all, &to, seen);
    }
    // Globs of other crates are in no module of this one.
    let globs = module.export_globs.iter();
    let mut globs = globs.filter(|glob| all.0.contains_key(*glob));
    globs.find_map(|glob| {
        let to: Name = glob.iter().chain(rest).cloned().collect();
        find(all, &to, seen)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(modules: &[(&str, &str)]) -> Crate {
        let mut all = Crate::default();
        for (name, text) in modules {
            let name = name.split("::").filter(|part| !part.is_empty());
            let items = syn::parse_file(text).expect("Rust").items;
            all.add(name.map(str::to_owned).collect(), &items);
        }
        all
    }

    fn circles(modules: &[(&str, &str)]) -> Vec<String> {
        let circles = Graph::new(&read(modules)).circles().into_iter();
        circles
            .map(|circle| circle.into_iter().collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn two_modules_that_import_each_other_are_a_circle() {
        let there = [
            ("", "mod a; mod b;"),
            ("a", "use crate::b::B; pub struct A;"),
            ("b", "use super::a::A; pub struct B;"),
        ];
        assert_eq!(circles(&there), ["a b"]);
        let one_way = [
            ("", "mod a; mod b;"),
            ("a", "use crate::b::B; pub struct A;"),
            ("b", "pub struct B;"),
        ];
        assert_eq!(circles(&one_way), [""; 0]);
    }

    #[test]
    fn imports_of_a_circle_are_listed_with_their_items() {
        let all = read(&[
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::b::{B, E}; use crate::c::C; pub struct A;"),
            ("b", "use super::a::A; pub struct B; pub struct E;"),
            ("c", "pub struct C;"),
        ]);
        let graph = Graph::new(&all);
        let circles = graph.circles();
        let imports: Vec<_> = circles.iter().flat_map(|c| graph.imports(c)).collect();
        assert_eq!(imports, ["a -> b: B E", "b -> a: A"]);
    }

    #[test]
    fn a_path_in_code_counts_as_an_import() {
        let there = [
            ("", "mod a; mod b;"),
            ("a", "pub fn f() { crate::b::g(); }"),
            ("b", "pub fn g() { crate::a::f(); }"),
        ];
        assert_eq!(circles(&there), ["a b"]);
    }

    #[test]
    fn a_name_is_the_module_s_that_defines_it() {
        let gathered = [
            ("", "mod room;"),
            ("room", "mod a; mod b; pub use a::A; pub use b::*;"),
            ("room::a", "pub struct A;"),
            ("room::b", "use super::A; pub struct B;"),
        ];
        assert_eq!(circles(&gathered), [""; 0]);
        let owned = [
            ("", "mod room;"),
            ("room", "mod a; use a::A; pub struct Shared(A);"),
            ("room::a", "use super::Shared; pub struct A;"),
        ];
        assert_eq!(circles(&owned), ["room room::a"]);
    }

    #[test]
    fn a_name_from_the_parent_s_private_import_is_the_module_s_that_defines_it() {
        let there = [
            ("", "mod a; mod room;"),
            ("a", "use crate::room::b::B; pub struct A;"),
            (
                "room",
                "pub mod b; use crate::a; use crate::a::A; use name::name;",
            ),
            ("room::b", "use super::A; use super::name; pub struct B;"),
        ];
        assert_eq!(circles(&there), ["a room::b"]);
        let by_module = [
            ("", "mod a; mod room;"),
            ("a", "use crate::room::b::B; pub fn f() {}"),
            ("room", "pub mod b; use crate::a;"),
            ("room::b", "pub struct B; fn g() { super::a::f(); }"),
        ];
        assert_eq!(circles(&by_module), ["a room::b"]);
    }

    #[test]
    fn tests_other_crates_and_nested_modules_are_no_circle() {
        let there = [
            ("", "mod a; mod b;"),
            ("a", "use crate::b::B; pub struct A;"),
            (
                "b",
                "use std::fmt; #[cfg(test)] mod tests { use crate::a::A; } #[cfg(test)] use crate::a::A;
                 mod inner { use super::B; } pub struct B;",
            ),
        ];
        assert_eq!(circles(&there), [""; 0]);
    }

    #[test]
    fn re_exports_of_each_other_end() {
        let there = [
            ("", "mod a; mod b; mod c;"),
            ("a", "pub use crate::b::*;"),
            ("b", "pub use crate::a::*; pub use another::*;"),
            ("c", "use crate::a::Nothing;"),
        ];
        assert_eq!(circles(&there), [""; 0]);
    }
}
