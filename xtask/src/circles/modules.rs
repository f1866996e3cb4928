//! The modules of a crate, read from its files.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use syn::{
    Attribute, Item, Path as SynPath, UseTree, Visibility,
    visit::{self, Visit},
};

/// A path in the crate, without `crate`.
pub type Name = Vec<String>;

/// The data of a module.
#[derive(Debug, Default)]
pub struct Module {
    /// The names that it defines.
    pub defines: BTreeSet<String>,
    /// The names that it re-exports, and their paths.
    pub exports: BTreeMap<String, Name>,
    /// The names that it imports for itself, which its children can name as its own.
    pub imports: BTreeMap<String, Name>,
    /// The modules of which it re-exports all names.
    pub export_globs: Vec<Name>,
    /// The paths that it names.
    pub names: BTreeSet<Name>,
}

/// A crate: its modules, of which the root has the empty name.
#[derive(Debug, Default)]
pub struct Crate(pub BTreeMap<Name, Module>);

impl Crate {
    /// Reads the crate whose root is in a folder. Programs in `bin` are separate crates of one
    /// file.
    ///
    /// # Errors
    /// For files that cannot be read or parsed.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut all = Self::default();
        for root in ["lib.rs", "main.rs"] {
            let file = folder.join(root);
            if file.exists() {
                all.read_file(&file, folder, Name::new())?;
            }
        }
        Ok(all)
    }

    fn read_file(&mut self, file: &Path, folder: &Path, name: Name) -> Result<()> {
        let shown = file.display().to_string();
        let text = fs::read_to_string(file).context(shown.clone())?;
        let parsed = syn::parse_file(&text).context(shown)?;
        for child in self.add(name.clone(), &parsed.items) {
            let (flat, nested) = (format!("{child}.rs"), folder.join(&child));
            let file = [folder.join(flat), nested.join("mod.rs")]
                .into_iter()
                .find(|file| file.exists());
            if let Some(file) = file {
                self.read_file(&file, &nested, joined(&name, [child]))?;
            }
        }
        Ok(())
    }

    /// Adds the items of a module. Returns the modules that have separate files.
    pub fn add(&mut self, name: Name, items: &[Item]) -> Vec<String> {
        let mut reader = Reader {
            name: name.clone(),
            nested: Vec::new(),
            module: Module::default(),
            files: Vec::new(),
        };
        items.iter().for_each(|item| reader.visit_item(item));
        let there = self.0.entry(name).or_default();
        there.defines.extend(reader.module.defines);
        there.exports.extend(reader.module.exports);
        there.imports.extend(reader.module.imports);
        there.export_globs.extend(reader.module.export_globs);
        there.names.extend(reader.module.names);
        reader.files
    }
}

fn joined(name: &[String], rest: impl IntoIterator<Item = String>) -> Name {
    name.iter().cloned().chain(rest).collect()
}

/// Reads one file.
struct Reader {
    name: Name,
    /// Modules inside the file that are being read, which count as the file's.
    nested: Vec<String>,
    module: Module,
    files: Vec<String>,
}

impl Reader {
    /// The path in the crate that a path in this module may mean; `None` for another crate's. A
    /// path without `crate`, `self` or `super` counts as a child's; if it is not one, it is not
    /// found later.
    fn absolute(&self, path: &[String]) -> Option<Name> {
        let here = joined(&self.name, self.nested.iter().cloned());
        let (first, rest) = path.split_first()?;
        let rest = rest.iter().cloned();
        match first.as_str() {
            "crate" => Some(rest.collect()),
            "self" => Some(joined(&here, rest)),
            "super" => {
                let mut base = here;
                let ups = path.iter().take_while(|part| *part == "super").count();
                base.truncate(base.len().checked_sub(ups)?);
                Some(joined(&base, path.iter().skip(ups).cloned()))
            }
            _ => Some(joined(&here, path.iter().cloned())),
        }
    }

    fn take_use(&mut self, tree: &UseTree, before: &[String], exported: bool) {
        match tree {
            UseTree::Path(path) => {
                let before = joined(before, [path.ident.to_string()]);
                self.take_use(&path.tree, &before, exported);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.take_use(tree, before, exported);
                }
            }
            UseTree::Name(name) => self.take_name(before, &name.ident, &name.ident, exported),
            UseTree::Rename(rename) => {
                self.take_name(before, &rename.ident, &rename.rename, exported);
            }
            UseTree::Glob(_) => {
                let Some(path) = self.absolute(before) else {
                    return;
                };
                if exported {
                    self.module.export_globs.push(path);
                } else {
                    self.module.names.insert(path);
                }
            }
        }
    }

    fn take_name(&mut self, before: &[String], of: &syn::Ident, to: &syn::Ident, exported: bool) {
        let of = of.to_string();
        let path = match of.as_str() {
            "self" => before.to_vec(),
            _ => joined(before, [of]),
        };
        let Some(path) = self.absolute(&path) else {
            return;
        };
        if exported && self.nested.is_empty() {
            self.module.exports.insert(to.to_string(), path);
            return;
        }
        if self.nested.is_empty() {
            self.module.imports.insert(to.to_string(), path.clone());
        }
        self.module.names.insert(path);
    }

    fn define(&mut self, item: &Item) {
        let ident = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            _ => return,
        };
        if self.nested.is_empty() {
            self.module.defines.insert(ident.to_string());
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Ok(list) = attribute.meta.require_list() else {
            return false;
        };
        list.path.is_ident("cfg") && list.tokens.to_string().contains("test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test(attributes(item)) {
            return;
        }
        self.define(item);
        match item {
            Item::Use(item) => {
                let exported = !matches!(item.vis, Visibility::Inherited);
                self.take_use(&item.tree, &[], exported);
            }
            Item::Mod(module) => {
                let name = module.ident.to_string();
                match &module.content {
                    None => self.files.push(name),
                    Some((_, items)) => {
                        self.nested.push(name);
                        items.iter().for_each(|item| self.visit_item(item));
                        self.nested.pop();
                    }
                }
            }
            other => visit::visit_item(self, other),
        }
    }

    fn visit_path(&mut self, path: &'ast SynPath) {
        let parts: Name = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        // A path of one part is a name in scope: defined here, or brought in by a `use`.
        if parts.len() > 1
            && let Some(path) = self.absolute(&parts)
        {
            self.module.names.insert(path);
        }
        visit::visit_path(self, path);
    }

    /// A macro's name is not the name of a module.
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
