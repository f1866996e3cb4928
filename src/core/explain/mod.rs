#![forbid(unsafe_code)]
//! The texts of `IBVERBS_EXPLAIN`: the reason of a call's failure, as far as it can be found, and
//! advice.
//!
//! The modules here take plain values and return text. `export::observe` reads the values out of
//! C's arguments and asks the device for its limits. The state transitions are those of
//! `uroce_engine::qp::table`, the same table that uroce executes.

pub mod address;
pub mod completion;
pub mod memory;
pub mod object;
pub mod post;
pub mod qp;

use kit::errno::Errno;
use kit::names;

/// Reasons found, in the order in which they are printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reasons(Vec<String>);

/// An unsigned member of a structure. A program whose value was -1 finds it here, too.
fn member<T: Copy + Into<u64>>(value: T) -> String {
    let (value, bits): (u64, usize) = (value.into(), 8 * size_of::<T>());
    match u64::MAX >> (64 - bits) {
        all if all == value => format!("{value} (-1 in {bits} bits)"),
        _ => value.to_string(),
    }
}

impl Reasons {
    /// Adds a sentence.
    pub fn add(&mut self, sentence: impl Into<String>) {
        self.0.push(sentence.into());
    }

    /// Adds a sentence before all others.
    pub fn first(&mut self, sentence: String) {
        self.0.insert(0, sentence);
    }

    /// Adds a sentence if it applies.
    pub fn add_if(&mut self, applies: bool, sentence: impl FnOnce() -> String) {
        if applies {
            self.0.push(sentence());
        }
    }

    /// Adds how many objects of a kind the device has, if that may be why there was no memory.
    pub fn add_most(&mut self, e: Errno, what: &str, limit: &str, most: i64) {
        self.add_if(e == Errno::NOMEM && most > 0, || {
            format!(
                "There is no memory for it: the device has {most} {what} at most ({limit}), all \
                 processes together, and queues count as locked memory (ulimit -l)."
            )
        });
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All sentences.
    pub fn text(&self) -> String {
        self.0.join(" ")
    }
}

/// `ibv_` and the verb, as programs call it.
pub fn call_name(verb: &str) -> String {
    match verb {
        // Called through these alone.
        "reg_mr" => "ibv_reg_mr".to_owned(),
        "free_context" => "ibv_close_device".to_owned(),
        "query_rt_values" => "ibv_query_rt_values_ex".to_owned(),
        verb => format!("ibv_{verb}"),
    }
}

/// A failed call on a device, as one paragraph.
pub fn failure(call: &str, arguments: &str, device: &str, e: Errno, why: &Reasons) -> String {
    let errno = names::errno(e);
    format!(
        "libibverbs: {call}({arguments}) on {device} failed: {errno}. {}\n",
        why.text()
    )
}

/// Arguments that the library refused before any provider saw them; `kind` is the kind of object
/// that the call is about.
pub fn refusal(kind: &str, e: Errno) -> String {
    format!(
        "libibverbs: a call about a {kind} was refused before it reached a provider: {}. An \
         argument is NULL that must not be, or an object is not one of this library's: an \
         earlier call may have failed without its answer being looked at, or the object was \
         destroyed.\n",
        names::errno(e)
    )
}

/// Why a device could not be opened.
pub fn not_opened(device: &str, node: &str, e: Errno) -> String {
    let why = match e.raw() {
        libc::EACCES | libc::EPERM => format!(
            "This process may not open {node}: udev gives it mode 0666 where rdma-core's rules \
             are installed; in a container the node has to be handed in (--device) and the \
             control group has to allow it."
        ),
        libc::ENOENT | libc::ENXIO => format!(
            "{node} is not there: the device has just gone, or the process does not see \
             /dev/infiniband (PrivateDevices= of systemd, a container without --device)."
        ),
        libc::ENODEV => "The device is gone.".to_owned(),
        libc::EMFILE | libc::ENFILE => {
            "There are no more file descriptors ('ulimit -n').".to_owned()
        }
        _ => general(e, "ibv_open_device", "provider"),
    };
    let mut reasons = Reasons::default();
    reasons.add(why);
    failure("ibv_open_device", "", device, e, &reasons)
}

/// EACCES of a context whose commands are written to the kernel comes before all other reasons: the
/// kernel checks the writer before it checks the command.
pub fn other_credentials() -> String {
    "The kernel takes commands by write(2) here, and only with the credentials that the device was \
     opened with: user, groups or capabilities of this process or thread changed since (setuid(2), \
     capset(2), and the like). Change them first, then open the device."
        .to_owned()
}

/// The meaning of an errno alone, where no better reason is known. `provider` is the one that
/// answered.
pub fn general(e: Errno, call: &str, provider: &str) -> String {
    match e.raw() {
        libc::EOPNOTSUPP | libc::ENOSYS => format!(
            "The {provider} does not have this call, or not the requested feature; \
             ibv_query_device_ex reports the device's capabilities."
        ),
        libc::EPROTONOSUPPORT => format!(
            "The running kernel does not know the command behind {call}; a newer kernel is needed."
        ),
        libc::ENOMEM => "There is no memory for it, or a limit is reached: that of lockable \
                         memory (ulimit -l), of the device's objects, or of a queue."
            .to_owned(),
        libc::EBUSY => "Something that was made with the object is still there; it has to be \
                        destroyed first."
            .to_owned(),
        libc::EIO => "The device does not answer: it was removed or reset (IBV_EVENT_DEVICE_FATAL \
                      is its event). Close the context and open the device anew."
            .to_owned(),
        libc::ENODEV => "The device is gone, or the context was inherited by fork(2), in which \
                         case the child has to open the device itself."
            .to_owned(),
        libc::EPERM => "This process has not the right to: raw packets, flow steering, a source \
                        queue pair number and Q_Keys from 0x80000000 on need CAP_NET_RAW."
            .to_owned(),
        libc::EACCES => format!(
            "A rule of the system forbids it to this process, as SELinux does for partition keys \
             ('ausearch -m avc'), or the {provider} does."
        ),
        libc::EFAULT => "An address that was passed is not mapped, or not with the rights that \
                         are needed."
            .to_owned(),
        libc::EINVAL => format!(
            "The {provider} refuses the arguments, and nothing is found wrong with them here; compare \
             them with the man page of {call} and the device's limits (ibv_devinfo -v)."
        ),
        _ => {
            format!("The {provider} returned this; the man page of {call} explains it.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_one_line() {
        let mut why = Reasons::default();
        why.add("One.");
        why.add_if(false, || "Two.".to_owned());
        why.add_if(true, || "Three.".to_owned());
        let text = failure("ibv_x", "a 1", "d", Errno::INVAL, &why);
        assert_eq!(
            text,
            "libibverbs: ibv_x(a 1) on d failed: EINVAL (Invalid argument). One. Three.\n"
        );
    }

    #[test]
    fn likelier_reasons_come_first() {
        let mut why = Reasons::default();
        why.add("It may also be this.");
        why.first(other_credentials());
        assert!(
            why.text()
                .starts_with("The kernel takes commands by write(2)")
        );
        assert!(
            why.text()
                .ends_with("open the device. It may also be this.")
        );
    }

    #[test]
    fn no_right_and_a_rule_are_different_things() {
        let say = |errno| general(Errno(errno), "ibv_create_qp", "provider rxe");
        assert!(say(libc::EPERM).contains("CAP_NET_RAW"));
        assert!(!say(libc::EACCES).contains("CAP_NET_RAW"));
        assert!(say(libc::EACCES).contains("the provider rxe does"));
    }

    #[test]
    fn a_provider_that_lacks_a_call_is_named() {
        assert!(general(Errno::OPNOTSUPP, "ibv_alloc_dm", "provider of rxe0").contains("rxe0"));
    }
}
