//! Requests that were carried out before and come again, because their answer was lost or late
//! (IBTA volume 1, 9.7.4.1.3).

use super::{Reply, Request, Responder, reliable::range_of};
use crate::host::{Host, RemoteAccess};
use crate::wire::Kind;

impl Responder {
    /// Answers again. Sends and writes are acknowledged, up to the latest; reads are read again;
    /// operations that may happen only once are answered from memory. A request that cannot be
    /// answered is dropped: a stray duplicate is no reason to end a connection.
    pub(super) fn take_duplicate(&mut self, request: &mut Request<'_>, host: &mut impl Host) {
        let headers = &request.packet.headers;
        let psn = headers.bth.psn;
        let operation = headers.opcode.operation();
        match operation.kind() {
            Kind::Send | Kind::Write => self.push_ack(host),
            Kind::ReadRequest => self.read_again(request, host),
            _ => {
                let known = self
                    .resources()
                    .find(|resource| resource.psn == psn && resource.operation == operation);
                let Some(reply) = known.map(|resource| resource.reply) else {
                    request.counters.dropped += 1;
                    return;
                };
                self.reply_again(request, reply);
            }
        }
    }

    fn read_again(&mut self, request: &mut Request<'_>, host: &mut impl Host) {
        let headers = &request.packet.headers;
        let psn = headers.bth.psn;
        let Some(reth) = headers.reth else {
            return;
        };
        let packets = request.attributes.path_mtu.packets(reth.length);
        let range = range_of(reth);
        let past = packets <= self.expected.since(psn);
        let allowed = request.attributes.access.read
            && (range.length == 0 || host.check_remote(range, RemoteAccess::Read).is_ok());
        if !past || !allowed {
            request.counters.dropped += 1;
            return;
        }
        let reply = Reply::Data {
            psn,
            range,
            sent: 0,
            packets,
        };
        self.reply_again(request, reply);
    }

    /// Answers once more, unless the answer is still to be sent. Each request may have its answer
    /// and one that repeats a part of it; further requests are dropped, and the peer repeats them.
    fn reply_again(&mut self, request: &mut Request<'_>, reply: Reply) {
        if self.replies.holds(&reply) {
            return;
        }
        let most = 2 * usize::from(request.attributes.max_dest_rd_atomic);
        if self.replies.responses() >= most {
            request.counters.dropped += 1;
            return;
        }
        self.delay.end();
        self.replies.repeat(reply);
    }
}
