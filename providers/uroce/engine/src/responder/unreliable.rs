//! Unreliable connection: a message of which a packet is missing is dropped whole (IBTA volume 1,
//! 9.8.2).

use super::reliable::Outcome;
use super::{Refusal, Request, Responder};
use crate::host::Host;
use crate::wire::Kind;

impl Responder {
    /// A write before it that could not be done is lost by itself.
    fn send_unreliable(
        &mut self,
        request: &mut Request<'_>,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        let begins = request
            .packet
            .headers
            .opcode
            .operation()
            .position()
            .begins();
        if begins && host.settle().is_err() {
            request.counters.dropped += 1;
        }
        self.send(request, host)
    }

    pub(super) fn take_unreliable(
        &mut self,
        request: &mut Request<'_>,
        host: &mut impl Host,
    ) -> Result<(), Refusal> {
        let headers = &request.packet.headers;
        let operation = headers.opcode.operation();
        if headers.bth.psn != self.expected {
            request.counters.out_of_sequence += 1;
            // The received part of the message is lost; its receive request waits for the next.
            self.current = None;
        }
        self.expected = headers.bth.psn.next();
        if operation.position().begins() {
            self.current = None;
        }
        if self.check_order(operation).is_err() || !request.fits_mtu() {
            self.current = None;
            request.counters.dropped += 1;
            return Ok(());
        }
        let outcome = match operation.kind() {
            Kind::Send => self.send_unreliable(request, host),
            _ => self.write(request, host),
        };
        match outcome {
            Ok(Outcome::Done(_)) => Ok(()),
            Err(Refusal::LOCAL) => Err(Refusal {
                nak: None,
                ..Refusal::LOCAL
            }),
            Ok(Outcome::NotReady) | Err(_) => {
                self.current = None;
                request.counters.dropped += 1;
                Ok(())
            }
        }
    }
}
