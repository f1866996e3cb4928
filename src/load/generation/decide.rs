#![forbid(unsafe_code)]
//! From evidence to a layout.

use super::evidence::{Evidence, Statement};
use kit::generation::{Layout, USUAL_RELEASE};

/// The user's choice, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The release.
    pub release: u16,
    /// The variable or the kind of line.
    pub from: &'static str,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The layout.
    pub layout: &'static Layout,
    /// The evidence for it.
    pub from: String,
}

/// Chooses among the layouts of a node. The user's choice comes first, then the name of the
/// provider's file, its package, the names of neighbouring files, and last the usual release. The
/// chosen layout has to agree with the symbols that the provider imports.
///
/// # Errors
/// The reason why none is chosen: the evidence is contradictory, or insufficient.
pub fn decide(node: u16, wish: Option<Wish>, evidence: &Evidence) -> Result<Decision, String> {
    let chosen = match wish {
        Some(wish) => release_of(node, wish.release, wish.from.to_owned())?,
        None => found(node, evidence)?,
    };
    let Some((least, symbol)) = &evidence.at_least else {
        return Ok(chosen);
    };
    if *least > chosen.layout.last {
        return Err(format!(
            "{} speaks of release {}, but it imports {symbol}, which came with {least}",
            chosen.from, chosen.layout.last
        ));
    }
    Ok(chosen)
}

fn release_of(node: u16, release: u16, from: String) -> Result<Decision, String> {
    match Layout::of(node, release) {
        Some(layout) => Ok(Decision { layout, from }),
        None => Err(format!(
            "{from} speaks of release {release}, which did not have IBVERBS_PRIVATE_{node}"
        )),
    }
}

fn found(node: u16, evidence: &Evidence) -> Result<Decision, String> {
    if let Some(decision) = agreed(node, &evidence.named)? {
        return Ok(decision);
    }
    if let Some(statement) = &evidence.packaged {
        return release_of(node, statement.release, statement.from.clone());
    }
    // Neighbours of another node are of another release than the provider.
    let near: Vec<Statement> = evidence
        .neighbours
        .iter()
        .filter(|statement| Layout::of(node, statement.release).is_some())
        .cloned()
        .collect();
    if let Some(decision) = agreed(node, &near)? {
        return Ok(decision);
    }
    if let Some(layout) = Layout::of(node, USUAL_RELEASE) {
        let from = format!("the usual release, {USUAL_RELEASE}");
        return Ok(Decision { layout, from });
    }
    only_left(node, evidence)
}

/// The layout on which all of these agree; none without statements.
fn agreed(node: u16, all: &[Statement]) -> Result<Option<Decision>, String> {
    let Some((first, others)) = all.split_first() else {
        return Ok(None);
    };
    let decision = release_of(node, first.release, first.from.clone())?;
    for other in others {
        if !decision.layout.has(other.release) {
            return Err(format!(
                "{} speaks of release {}, {} of {}",
                first.from, first.release, other.from, other.release
            ));
        }
    }
    Ok(Some(decision))
}

/// The only layout that has the provider's imports.
fn only_left(node: u16, evidence: &Evidence) -> Result<Decision, String> {
    if let Some((least, symbol)) = &evidence.at_least {
        let mut left = Layout::of_node(node).filter(|layout| layout.last >= *least);
        if let (Some(layout), None) = (left.next(), left.next()) {
            let from = format!("its import of {symbol}");
            return Ok(Decision { layout, from });
        }
    }
    Err(format!(
        "nothing shows which release of IBVERBS_PRIVATE_{node} it is of"
    ))
}
