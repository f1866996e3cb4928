#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a fake kernel for tests: unexpected calls must fail them
//! A simulated kernel for tests: it records commands and answers as the test has set.

use super::{Ioctl, Kernel};
use crate::errno::Result;
use crate::sys::{attr::Attr, write::Request};
use crate::table::Private;
use std::cell::RefCell;
use std::sync::Mutex;

/// A call of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A method: object, method, attributes with the bytes of each input.
    Ioctl(u16, u16, Vec<(Attr, Option<Vec<u8>>)>),
    /// A write command: number, structure, driver data, sizes of both parts of the response.
    Write(u32, Vec<u8>, Vec<u8>, usize, usize),
}

type OnIoctl<'f> = dyn FnMut(&mut Ioctl<'_>) -> Result<()> + 'f;
type OnWrite<'f> = dyn FnMut(&mut Request<'_>) -> Result<()> + 'f;

/// The kernel. `on_ioctl` and `on_write` answer.
pub struct Fake<'f> {
    private: Private,
    /// Everything asked so far.
    pub asked: RefCell<Vec<Call>>,
    on_ioctl: RefCell<Box<OnIoctl<'f>>>,
    on_write: RefCell<Box<OnWrite<'f>>>,
}

impl<'f> Fake<'f> {
    /// A kernel with those answers.
    pub fn new(
        on_ioctl: impl FnMut(&mut Ioctl<'_>) -> Result<()> + 'f,
        on_write: impl FnMut(&mut Request<'_>) -> Result<()> + 'f,
    ) -> Self {
        Self {
            private: Private::new(0),
            asked: RefCell::default(),
            on_ioctl: RefCell::new(Box::new(on_ioctl)),
            on_write: RefCell::new(Box::new(on_write)),
        }
    }
}

impl Kernel for Fake<'_> {
    fn private(&self) -> &Private {
        &self.private
    }

    fn ioctl(&self, call: &mut Ioctl<'_>) -> Result<()> {
        let (object, method) = call.target();
        let is_input = |id| id == crate::abi::kernel::ioctl::UVERBS_ATTR_UHW_IN;
        let attrs = call.attrs().to_vec();
        let attrs = attrs
            .into_iter()
            .map(|a| {
                let short = usize::from(a.len) <= crate::sys::attr::INLINE;
                let bytes = (is_input(a.id) || short).then(|| call.input(a.id));
                (a, bytes.flatten())
            })
            .collect();
        self.asked
            .borrow_mut()
            .push(Call::Ioctl(object, method, attrs));
        (self.on_ioctl.borrow_mut())(call)
    }

    fn write(&self, request: &mut Request<'_>) -> Result<()> {
        let number = request.number();
        let parts = request.parts();
        let asked = Call::Write(
            number,
            parts.core_in.to_vec(),
            parts.driver_in.to_vec(),
            parts.core_out.len(),
            parts.driver_out.len(),
        );
        self.asked.borrow_mut().push(asked);
        (self.on_write.borrow_mut())(request)
    }
}

/// Runs `f` with the destruction of objects of lost devices allowed or not. One test at a time:
/// the setting is the process's.
///
/// # Panics
/// When another test failed meanwhile.
pub fn with_disassociate<T>(allow: bool, f: impl FnOnce() -> T) -> T {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    super::allow_disassociate(allow);
    let answer = f();
    super::allow_disassociate(false);
    answer
}
