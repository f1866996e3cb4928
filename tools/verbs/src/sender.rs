//! The senders of received datagrams.
#![forbid(unsafe_code)]

use crate::{
    address::{AddressHandle, Endpoint},
    completion::{Completion, Operation},
    error::{Error, Result},
    qp::QueuePair,
    sys::calls,
    transport::Datagram,
};

impl QueuePair<Datagram> {
    /// The way to the sender of a datagram that this queue pair has received, for an answer to the
    /// queue pair [`Completion::source`].
    ///
    /// ```
    /// use verbs::{ReceiveRequest, SendRequest};
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// # let queues = [context.completion_queue(32)?, context.completion_queue(32)?];
    /// # let client = pd.datagram(&queues[0]).build(7)?;
    /// # let server = pd.datagram(&queues[1]).build(7)?;
    /// server.post_receive(ReceiveRequest::new(pd.buffer(40 + 64)?))?;
    /// # let to = client.address_handle(&server.endpoint())?;
    /// # client.post_to(SendRequest::send(pd.buffer(8)?), &to, server.number(), 7)?;
    /// # client.post_receive(ReceiveRequest::new(pd.buffer(40 + 64)?))?;
    /// for question in queues[1].wait()? {
    ///     let to = server.answer_handle(&question)?;
    ///     server.post_to(SendRequest::send(pd.buffer(6)?), &to, question.source, 7)?;
    /// }
    /// # let mut answers = 0;
    /// # while answers == 0 {
    /// #     answers = queues[0].wait()?.iter().filter(|one| one.bytes == 40 + 6).count();
    /// # }
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_create_ah_from_wc(3); EINVAL for a completion that is none of a datagram received
    /// here, and for one of a multicast group; EOPNOTSUPP if the header is in memory of a device.
    pub fn answer_handle(&self, datagram: &Completion) -> Result<AddressHandle> {
        self.expect_received("ibv_create_ah_from_wc", datagram)?;
        AddressHandle::of_sender(&self.inner.qp.pd, datagram, self.inner.route.port)
    }

    /// The address of the sender of a datagram that this queue pair has received. A datagram does
    /// not contain the sender's key; here it is the key of this queue pair.
    ///
    /// # Errors
    /// Of ibv_init_ah_from_wc(3); as for [`QueuePair::answer_handle`].
    pub fn sender(&self, datagram: &Completion) -> Result<Endpoint> {
        self.expect_received("ibv_init_ah_from_wc", datagram)?;
        let device = self.inner.qp.pd.context().object();
        let attr = calls::init_ah_from_wc(device, datagram, self.inner.route.port)?;
        Ok(Endpoint {
            number: datagram.source,
            psn: 0,
            qkey: self.inner.endpoint.qkey,
            lid: attr.dlid,
            mtu: self.inner.endpoint.mtu,
            gid: match attr.is_global {
                0 => [0; 16],
                _ => attr.grh.dgid.bytes(),
            },
        })
    }

    fn expect_received(&self, verb: &'static str, datagram: &Completion) -> Result<()> {
        let received = datagram.operation == Operation::Receive && datagram.result.is_ok();
        match received && datagram.queue_pair == self.number() {
            true => Ok(()),
            false => {
                let invalid = Error::new(verb, libc::EINVAL);
                Err(invalid.because("the queue pair has not received this"))
            }
        }
    }
}
