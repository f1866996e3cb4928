//! Several send requests at once.
#![forbid(unsafe_code)]

use std::fmt;

use kit::abi::{IBV_QPT_XRC_SEND, ibv_wr_opcode};

use crate::{
    address::AddressHandle,
    error::PostError,
    qp::QueuePair,
    request::{Receiver, SendRequest},
    sys,
    transport::{Connected, Datagram, RawPacket, Transport},
};

/// Send requests that a device gets at once: ibv_wr_post(3) ([`QueuePair::batch`]). It has all of
/// them or none, and begins when it has the last one.
///
/// A batch is a list of requests until [`Batch::post`]; a dropped one, and [`Batch::abort`], post
/// none. Other threads may post and poll meanwhile.
///
/// ```
/// use verbs::{Access, ReceiveRequest, SendRequest};
/// # verbs::use_uroce("lo");
/// # let context = verbs::Device::find("uroce_lo")?.open()?;
/// # let pd = context.protection_domain()?;
/// # let cq = context.completion_queue(64)?;
/// let build = || pd.reliable(&cq).access(Access::REMOTE_WRITE).inline(16).batches().build();
/// # let (a, b) = (build()?, build()?);
/// # let (at_a, at_b) = (a.endpoint(), b.endpoint());
/// # b.post_receive(ReceiveRequest::new(pd.buffer(8)?))?;
/// # let (qp, _b) = (a.connect(&at_b)?, b.connect(&at_a)?);
/// # let remote = pd.memory_region(64, Access::REMOTE_WRITE)?.remote();
/// let mut batch = qp.batch();
/// batch.push(SendRequest::write(pd.buffer(64)?, remote).unsignaled())?;
/// batch.push(SendRequest::send_inline(*b"written").id(1))?;
/// batch.post()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "`post` posts the requests"]
pub struct Batch<'a, T> {
    qp: &'a QueuePair<T>,
    entries: Vec<Entry>,
}

struct Entry {
    request: SendRequest,
    opcode: ibv_wr_opcode,
    receiver: Option<Receiver>,
}

impl<'a, T: Transport> Batch<'a, T> {
    pub(crate) fn new(qp: &'a QueuePair<T>) -> Self {
        let entries = Vec::new();
        Self { qp, entries }
    }

    fn add(
        &mut self,
        request: SendRequest,
        receiver: Option<Receiver>,
    ) -> Result<(), PostError<SendRequest>> {
        let address = receiver.as_ref().map(|to| &to.address);
        match request.check_for_batch(T::KIND, &self.qp.inner.qp.pd, address) {
            Ok(opcode) => {
                self.entries.push(Entry {
                    request,
                    opcode,
                    receiver,
                });
                Ok(())
            }
            Err(error) => Err(PostError::new(error, request)),
        }
    }

    /// How many requests it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Posts all requests: ibv_wr_start(3) to ibv_wr_complete(3).
    ///
    /// # Errors
    /// Of ibv_wr_complete(3), with all requests: ENOMEM if the send queue has not that many places,
    /// EINVAL if the queue pair was built without
    /// [`batches`](crate::QueuePairBuilder::batches). If the device may have the requests, the
    /// queue pair is moved into the error state ([`PostError`]).
    pub fn post(self) -> Result<(), PostError<Vec<SendRequest>>> {
        let Self { qp, mut entries } = self;
        if entries.is_empty() {
            return Ok(());
        }
        let flights = entries.iter_mut();
        let flights = flights
            .map(|entry| entry.request.take_flight(entry.receiver.as_ref()))
            .collect();
        let qp = &qp.inner;
        let posted = qp
            .qp
            .sends
            .post_all("ibv_wr_complete", flights, |numbered| {
                let details: Vec<_> = entries
                    .iter()
                    .map(|entry| {
                        let receiver = entry.receiver.as_ref();
                        let mut details = entry.request.details(entry.opcode, receiver);
                        // Each request of XRC names one, used or not.
                        let named = details.srq.or(Some(0));
                        details.srq = named.filter(|_| T::KIND == IBV_QPT_XRC_SEND);
                        details
                    })
                    .collect();
                let all = numbered.iter().zip(&details);
                let all: Vec<_> = all
                    .map(|((wr_id, flight), details)| (*wr_id, *flight, details))
                    .collect();
                sys::batch::post(&qp.qp, &all)
            });
        qp.contain(posted.map_err(|(error, back)| match back {
            None => PostError::kept(error),
            Some(flights) => {
                let all = entries.into_iter().zip(flights);
                let all = all.map(|(entry, flight)| entry.request.with_flight(flight));
                PostError::new(error, all.collect())
            }
        }))
    }

    /// Posts none: the requests.
    #[must_use]
    pub fn abort(self) -> Vec<SendRequest> {
        self.entries.into_iter().map(|one| one.request).collect()
    }
}

impl<T: Connected> Batch<'_, T> {
    /// Adds a request.
    ///
    /// # Errors
    /// EINVAL, with the request, where [`QueuePair::post`] refuses it, and for windows of type 1.
    pub fn push(&mut self, request: SendRequest) -> Result<(), PostError<SendRequest>> {
        self.add(request, None)
    }
}

impl Batch<'_, RawPacket> {
    /// Adds a frame.
    ///
    /// # Errors
    /// EINVAL, with the request, where [`QueuePair::post`] refuses it.
    pub fn push(&mut self, request: SendRequest) -> Result<(), PostError<SendRequest>> {
        self.add(request, None)
    }
}

impl Batch<'_, Datagram> {
    /// Adds a message to the queue pair of that number, which has that key.
    ///
    /// # Errors
    /// EINVAL, with the request, where [`QueuePair::post_to`] refuses it.
    pub fn push_to(
        &mut self,
        request: SendRequest,
        address: &AddressHandle,
        number: u32,
        qkey: u32,
    ) -> Result<(), PostError<SendRequest>> {
        let address = address.clone();
        let receiver = Receiver {
            address,
            number,
            qkey,
        };
        self.add(request, Some(receiver))
    }
}

impl<T> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Batch");
        shown.field("requests", &self.entries.len());
        shown.finish_non_exhaustive()
    }
}
