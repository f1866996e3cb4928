//! Completion counters that a queue pair counts on: ibv_qp_attach_comp_cntr(3).

use kit::abi::*;
use kit::provider::CompCntr;
use std::sync::Arc;
use uroce_engine::work::{Completion, CompletionOpcode, Status};

/// The operations that can be counted: those that complete here. This side does not learn when a
/// peer's read or write ends.
pub const OPERATIONS: u32 = IBV_QP_ATTACH_COMP_CNTR_OP_SEND
    | IBV_QP_ATTACH_COMP_CNTR_OP_RECV
    | IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ
    | IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE;

/// The counters, each with the operations that it counts.
#[derive(Default)]
pub struct Counting(Vec<(u32, Arc<CompCntr>)>);

impl Counting {
    /// Counts the operations `ops`, which no counter counts yet.
    pub fn add(&mut self, ops: u32, counter: Arc<CompCntr>) {
        self.0.push((ops, counter));
    }

    /// Counts a request that has ended, whether it has a completion or not.
    pub fn count(&self, ended: &Completion) {
        match ended.status {
            Status::Success => self.succeeded(ended.opcode, ended.length),
            _ => self
                .those_of(ended.opcode)
                .for_each(|counter| counter.failed()),
        }
    }

    /// Counts a request that has ended well.
    #[inline]
    pub fn succeeded(&self, opcode: CompletionOpcode, length: u32) {
        if !self.0.is_empty() {
            self.those_of(opcode)
                .for_each(|counter| counter.completed(length));
        }
    }

    fn those_of(&self, opcode: CompletionOpcode) -> impl Iterator<Item = &CompCntr> {
        let operation = operation(opcode);
        let counting = self.0.iter().filter(move |(ops, _)| ops & operation != 0);
        counting.map(|(_, counter)| &**counter)
    }
}

/// The operation that a completion is of; 0 if none that can be counted.
fn operation(opcode: CompletionOpcode) -> u32 {
    match opcode {
        CompletionOpcode::Send => IBV_QP_ATTACH_COMP_CNTR_OP_SEND,
        CompletionOpcode::Write => IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
        CompletionOpcode::Read => IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ,
        CompletionOpcode::Receive | CompletionOpcode::ReceiveWithImm => {
            IBV_QP_ATTACH_COMP_CNTR_OP_RECV
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::provider::Counts;

    fn ended(opcode: CompletionOpcode, status: Status, length: u32) -> Completion {
        Completion {
            length,
            ..Completion::new(1, status, opcode)
        }
    }

    #[test]
    fn each_operation_counts_where_it_is_attached() {
        let mut counting = Counting::default();
        let sends = Arc::new(CompCntr::new(Counts::Requests).expect("a counter"));
        let bytes = Arc::new(CompCntr::new(Counts::Bytes).expect("a counter"));
        let moved = IBV_QP_ATTACH_COMP_CNTR_OP_RECV | IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ;
        counting.add(IBV_QP_ATTACH_COMP_CNTR_OP_SEND, Arc::clone(&sends));
        counting.add(moved, Arc::clone(&bytes));
        for (opcode, status) in [
            (CompletionOpcode::Send, Status::Success),
            (CompletionOpcode::Send, Status::WrFlush),
            (CompletionOpcode::Write, Status::Success),
            (CompletionOpcode::Read, Status::Success),
            (CompletionOpcode::Receive, Status::Success),
            (CompletionOpcode::ReceiveWithImm, Status::Success),
            (CompletionOpcode::ReceiveWithImm, Status::WrFlush),
            (CompletionOpcode::FetchAdd, Status::Success),
            (CompletionOpcode::Bind, Status::Success),
        ] {
            counting.count(&ended(opcode, status, 100));
        }
        assert_eq!(sends.counts(), (1, 1));
        assert_eq!(bytes.counts(), (300, 1));
    }
}
