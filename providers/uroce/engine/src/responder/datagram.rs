//! Datagrams (IBTA volume 1, 9.8.3): one packet, one receive request, the network header before the
//! payload.

use super::{Refusal, Request, Responder};
use crate::host::Host;

/// Bytes before the payload in the buffer.
const GRH_LEN: u32 = 40;

impl Responder {
    pub(super) fn take_datagram(
        &mut self,
        request: &mut Request<'_>,
        host: &mut impl Host,
    ) -> Result<(), Refusal> {
        let qkey = request.packet.headers.deth.map(|deth| deth.qkey);
        if qkey != Some(request.attributes.qkey) || !self.hold(request, host)? {
            request.counters.dropped += 1;
            return Ok(());
        }
        let Some((receive, _)) = &self.held else {
            return Ok(());
        };
        let length = request.payload_length().saturating_add(GRH_LEN);
        if u64::from(length) > receive.room() {
            // The request waits for a datagram that fits.
            request.counters.dropped += 1;
            return Ok(());
        }
        let local = Refusal {
            nak: None,
            ..Refusal::LOCAL
        };
        if let Some(grh) = request.grh {
            host.scatter(&receive.sges, 0, grh).map_err(|_| local)?;
        }
        host.scatter(&receive.sges, u64::from(GRH_LEN), request.packet.payload)
            .map_err(|_| local)?;
        self.deliver(request, length, false, host);
        Ok(())
    }
}
