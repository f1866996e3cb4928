//! Actions of rules: ibv_create_flow_action(3).

use std::{fmt, sync::Arc};

use kit::abi::{kernel::*, *};

use super::headers::{self, Ethernet, Ipv4, Ipv6, Ports};
use crate::{
    context::Context,
    error::{Error, Result},
    sys::flow_action as sys,
};

/// The key of AES-GCM, as RFC 4106 has it for ESP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AesGcm<'a> {
    /// The key: 16, 24 or 32 bytes.
    pub key: &'a [u8],
    /// The salt.
    pub salt: u32,
    /// The first initialization vector, where the device makes them ([`EspParameters::full`]). It
    /// is never used twice with one key.
    pub vector: u64,
    /// How many bytes the integrity check value has.
    pub check_length: u32,
}

impl fmt::Debug for AesGcm<'_> {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesGcm").finish_non_exhaustive()
    }
}

/// A header that a device puts around ESP, or takes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encapsulation {
    /// Ethernet.
    Ethernet(Ethernet),
    /// IPv4.
    Ipv4(Ipv4),
    /// IPv6.
    Ipv6(Ipv6),
    /// UDP.
    Udp(Ports),
}

impl Encapsulation {
    fn written(self) -> (ibv_flow_spec_type, Vec<u8>) {
        match self {
            Self::Ethernet(header) => (IBV_FLOW_SPEC_ETH, headers::ethernet(header)),
            Self::Ipv4(header) if headers::others(header) == [0; 4] => {
                (IBV_FLOW_SPEC_IPV4, headers::ipv4(header))
            }
            Self::Ipv4(header) => (IBV_FLOW_SPEC_IPV4_EXT, headers::ipv4_ext(header)),
            Self::Ipv6(header) => (IBV_FLOW_SPEC_IPV6, headers::ipv6(header)),
            Self::Udp(header) => (IBV_FLOW_SPEC_UDP, headers::ports(header)),
        }
    }
}

/// What an [`EspAction`] does: `struct ibv_flow_action_esp`. Without [`EspParameters::encrypt`] it
/// decrypts, and without [`EspParameters::full`] the packets that the program sends have their
/// ESP header, and those that it receives keep it (inline crypto).
///
/// Parameters that [`EspAction::modify`] gets and that have not been set stay as they are.
#[derive(Clone, Default)]
#[must_use = "`Context::esp_action` makes an action"]
pub struct EspParameters(sys::Esp);

impl EspParameters {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    fn flag(mut self, flag: ib_uverbs_flow_action_esp_flags) -> Self {
        self.attributes().flags |= flag;
        self
    }

    fn attributes(&mut self) -> &mut ib_uverbs_flow_action_esp {
        self.0.attributes.get_or_insert_default()
    }

    /// The key. A new action needs one.
    ///
    /// # Errors
    /// EINVAL if it has not 16, 24 or 32 bytes.
    pub fn aes_gcm(mut self, key: AesGcm<'_>) -> Result<Self> {
        let invalid = Error::new("ibv_create_flow_action_esp", libc::EINVAL);
        let invalid = invalid.because("the key has not 16, 24 or 32 bytes");
        let length = match key.key.len() {
            16 => 16,
            24 => 24,
            32 => 32,
            _ => return Err(invalid),
        };
        let mut words = [0; 8];
        let (chunks, _) = key.key.as_chunks();
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u32::from_ne_bytes(*chunk);
        }
        self.0.key = Some(ib_uverbs_flow_action_esp_keymat_aes_gcm {
            iv: key.vector,
            iv_algo: IB_UVERBS_FLOW_ACTION_IV_ALGO_SEQ,
            salt: key.salt,
            icv_len: key.check_length,
            key_len: length,
            aes_key: words,
        });
        Ok(self)
    }

    /// Encrypts.
    pub fn encrypt(self) -> Self {
        self.flag(IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT)
    }

    /// The transport mode of RFC 4301, in place of the tunnel mode.
    pub fn transport(self) -> Self {
        self.flag(IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT)
    }

    /// The device adds and removes the header and the trailer of ESP, and refuses packets that
    /// come again.
    pub fn full(self) -> Self {
        self.flag(IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD)
    }

    /// The index of the security parameters (SPI), with [`EspParameters::full`].
    pub fn index(mut self, index: u32) -> Self {
        self.attributes().spi = index;
        self
    }

    /// The first sequence number, with [`EspParameters::full`].
    pub fn sequence(mut self, number: u32) -> Self {
        self.attributes().seq = number;
        self
    }

    /// The length of the padding that hides that of packets (RFC 4303), with
    /// [`EspParameters::full`].
    pub fn padding(mut self, length: u32) -> Self {
        self.attributes().tfc_pad = length;
        self
    }

    /// After that many packets all are dropped (RFC 4301), with [`EspParameters::full`].
    pub fn limit(mut self, packets: u64) -> Self {
        self.attributes().hard_limit_pkts = packets;
        self
    }

    /// The upper 32 bits of the sequence number (ESN).
    pub fn extended_sequence(mut self, number: u32) -> Self {
        self.0.esn = Some(number);
        self
    }

    /// The lower 32 bits of the sequence number have passed their middle: with inline crypto an
    /// action is modified at the middle and at the end of them.
    pub fn new_window(self) -> Self {
        self.flag(IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW)
    }

    /// Packets that come again are dropped, by a window of that many sequence numbers, with
    /// [`EspParameters::full`].
    pub fn replay_window(mut self, size: u32) -> Self {
        self.0.replay = Some(ib_uverbs_flow_action_esp_replay_bmp { size });
        self
    }

    /// A header around ESP, behind those that were named before, with [`EspParameters::full`].
    pub fn around(mut self, header: Encapsulation) -> Self {
        self.0.around.push(header.written());
        self
    }
}

impl fmt::Debug for EspParameters {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EspParameters");
        shown.field("attributes", &self.0.attributes);
        shown.field("extended_sequence", &self.0.esn);
        shown.finish_non_exhaustive()
    }
}

/// An action that decrypts or encrypts the frames of rules by ESP (IPsec):
/// ibv_create_flow_action_esp(3), [`Context::esp_action`]. Rules name it ([`Rule::action`]) and
/// keep it. Copies are the same one.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use verbs::flow::{AesGcm, Esp, EspParameters, Ethernet, Ipv4, Rule};
/// # let context = verbs::Device::first()?.open()?;
/// # let pd = context.protection_domain()?;
/// # let cq = context.completion_queue(32)?;
/// # let qp = pd.raw_packets(&cq).build()?;
/// let key = AesGcm { key: &[7; 16], salt: 0x1234, vector: 1, check_length: 16 };
/// let action = context.esp_action(&EspParameters::new().aes_gcm(key)?)?;
/// let of = |index| Esp { index, sequence: 0 };
/// let rule = Rule::new()
///     .ethernet(Ethernet::default(), Ethernet::default())
///     .ipv4(Ipv4::default(), Ipv4::default())
///     .esp(of(0x100), of(u32::MAX));
/// let flow = qp.flow(&rule.action(&action))?;
/// // All rules that have the action change with it.
/// action.modify(&EspParameters::new().extended_sequence(1))?;
/// # Ok(())
/// # }
/// ```
///
/// [`Rule::action`]: super::Rule::action
#[derive(Clone)]
pub struct EspAction(pub(super) Arc<sys::Action>);

impl EspAction {
    pub(super) fn object(&self) -> &sys::Action {
        &self.0
    }

    /// Changes what the action does, at once for all flows that have it. Parameters that are not
    /// set stay.
    ///
    /// # Errors
    /// Of ibv_modify_flow_action_esp(3): EOPNOTSUPP if the device cannot, EINVAL for parameters
    /// that do not go together.
    pub fn modify(&self, parameters: &EspParameters) -> Result<()> {
        sys::modify(&self.0, &parameters.0)
    }
}

impl fmt::Debug for EspAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EspAction").finish_non_exhaustive()
    }
}

impl Context {
    /// Makes an action of ESP for flows.
    ///
    /// ```
    /// use verbs::flow::{AesGcm, EspParameters};
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// let key = AesGcm { key: &[7; 16], salt: 0x1234, vector: 1, check_length: 16 };
    /// let refused = context.esp_action(&EspParameters::new().aes_gcm(key)?);
    /// // uroce has no actions.
    /// assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::Unsupported);
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_create_flow_action_esp(3): EOPNOTSUPP if the device has no actions, EINVAL for
    /// parameters that do not go together, for example none of [`EspParameters::aes_gcm`].
    pub fn esp_action(&self, parameters: &EspParameters) -> Result<EspAction> {
        Ok(EspAction(Arc::new(sys::create(self, &parameters.0)?)))
    }
}
