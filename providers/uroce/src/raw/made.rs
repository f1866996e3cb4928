//! The raw packet objects of a context, for closing it with objects left.

use super::qp::RawQp;
use super::tap::{Flow, KnownFlow};
use kit::sync::Mutex;
use std::sync::{Arc, Weak};

/// Queue pairs and rules that may still be there.
#[derive(Default)]
pub struct Made {
    qps: Mutex<Vec<Weak<RawQp>>>,
    flows: Mutex<Vec<KnownFlow>>,
}

fn note<T>(list: &Mutex<Vec<Weak<T>>>, one: Weak<T>) {
    let mut list = list.lock();
    list.retain(|known| known.strong_count() > 0);
    list.push(one);
}

impl Made {
    /// Notes a queue pair.
    pub fn qp(&self, qp: &Arc<RawQp>) {
        note(&self.qps, Arc::downgrade(qp));
    }

    /// Notes a rule.
    pub fn flow(&self, flow: &Flow) {
        note(&self.flows, flow.known());
    }

    /// Takes all of them out of service.
    pub fn end(&self) {
        for flow in self.flows.lock().drain(..).filter_map(|f| f.upgrade()) {
            flow.end();
        }
        for qp in self.qps.lock().drain(..).filter_map(|qp| qp.upgrade()) {
            qp.end();
        }
    }
}
