//! What requests ask for. Only the schemas of these types are used: a request is read field by
//! field, so that errors name the field.

use ledger::amount::Amount;
use ledger::limits::REASON_BYTES_MAX;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{KnownFormat, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use super::Metadata;
use crate::operation::name_schema;
use crate::param::string;
use crate::words::NewStatus;

/// An amount.
pub struct Amounts;

impl PartialSchema for Amounts {
    fn schema() -> RefOr<Schema> {
        let about = "In the form of the ledger. Where that is minor units: a whole number of them, \
                     like 1250 or \"1250\"; a decimal is refused. Where that is decimals: a text \
                     like \"12.50\", with at most the places of its currency; a whole number is one \
                     of them, so 1250 is 1250.00. At most 10^18. Never a floating-point number";
        whole_or_text(r"^[+-]?[0-9]{1,18}(\.[0-9]{0,9})?$", about)
    }
}

impl ToSchema for Amounts {}

/// An amount: a whole number, or a text of this form.
fn whole_or_text(form: &str, about: &str) -> RefOr<Schema> {
    let format = SchemaFormat::KnownFormat(KnownFormat::Int64);
    let whole = ObjectBuilder::new().schema_type(Type::Integer).format(Some(format));
    let whole = whole.minimum(Some(-Amount::MAX)).maximum(Some(Amount::MAX));
    let text = string().pattern(Some(form));
    let both = AnyOfBuilder::new().item(whole).item(text).description(Some(about));
    RefOr::T(Schema::AnyOf(both.build()))
}

/// A floor: an amount, or none.
pub struct Floors;

impl PartialSchema for Floors {
    fn schema() -> RefOr<Schema> {
        let about = "An amount in the form of the account, as Amounts says it, or `none`";
        whole_or_text(r"^(none|[+-]?[0-9]{1,18}(\.[0-9]{0,9})?)$", about)
    }
}

impl ToSchema for Floors {}

/// A reason that people read.
pub struct Reasons;

impl PartialSchema for Reasons {
    fn schema() -> RefOr<Schema> {
        // Bytes count, not characters.
        let text = string().min_length(Some(1)).max_length(Some(REASON_BYTES_MAX));
        RefOr::T(text.pattern(Some(r"\S")).into())
    }
}

impl ToSchema for Reasons {}

/// A name: the `_id` of a transaction, an account or a currency.
pub struct Name;

impl PartialSchema for Name {
    fn schema() -> RefOr<Schema> {
        RefOr::T(name_schema().description(Some("At most 200 bytes of UTF-8")).into())
    }
}

impl ToSchema for Name {}

/// A transfer that is asked for: source, destination and value, or legs.
#[derive(ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "requests are read field by field, so that errors name the field")]
pub struct NewTransaction {
    /// Its id, which makes it safe to send it again. It may come as the header Idempotency-Key.
    #[schema(value_type = Option<Name>)]
    id: Option<()>,
    /// The account that pays.
    #[schema(value_type = Option<Name>)]
    source: Option<()>,
    /// The account that is paid.
    #[schema(value_type = Option<Name>)]
    destination: Option<()>,
    /// How much, above zero.
    #[schema(value_type = Option<Amounts>)]
    value: Option<()>,
    /// Instead of these three: the changes of two to 1,000 accounts, which sum to zero.
    #[schema(value_type = Option<Vec<NewLeg>>)]
    legs: Option<()>,
    /// The currency that all accounts must have.
    #[schema(value_type = Option<Name>)]
    currency: Option<()>,
    /// Whatever you want to keep with it; at most 256 KiB.
    #[schema(value_type = Option<Metadata>)]
    metadata: Option<()>,
    /// Whether its debits are only reserved until it is confirmed.
    #[schema(value_type = Option<bool>)]
    hold: Option<()>,
    /// A hold that is not confirmed before this moment is released.
    #[schema(value_type = Option<String>, format = DateTime)]
    hold_expires_at: Option<()>,
    /// Nobody settles it before this moment.
    #[schema(value_type = Option<String>, format = DateTime)]
    not_before: Option<()>,
    /// It is canceled if it is not applied before this moment.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<()>,
    /// While it is not decided, no other transaction can have this key.
    #[schema(value_type = Option<Name>)]
    exclusive_key: Option<()>,
}

/// The change of one account.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "requests are read field by field, so that errors name the field")]
pub struct NewLeg {
    /// The account.
    #[schema(value_type = Name)]
    account: (),
    /// The change; below zero it is a debit.
    #[schema(value_type = Amounts)]
    amount: (),
}

/// How much of a hold is captured: all of it, if nothing is named. The rest goes home.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "requests are read field by field, so that errors name the field")]
pub struct NewCapture {
    /// So much of a transfer from one account to another, above zero.
    #[schema(value_type = Option<Amounts>)]
    value: Option<()>,
    /// Instead: an amount for each account of the transaction, between zero and that of its leg,
    /// with the same sign. They sum to zero.
    #[schema(value_type = Option<Vec<NewLeg>>)]
    captured: Option<()>,
}

/// A hold to confirm, and how much of it is captured: all of it, if nothing is named.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "requests are read field by field, so that errors name the field")]
pub struct HoldToConfirm {
    /// The transaction.
    #[schema(value_type = Name)]
    id: (),
    /// So much of a transfer from one account to another, above zero.
    #[schema(value_type = Option<Amounts>)]
    value: Option<()>,
    /// Instead: an amount for each account of the transaction, between zero and that of its leg,
    /// with the same sign. They sum to zero.
    #[schema(value_type = Option<Vec<NewLeg>>)]
    captured: Option<()>,
}

/// A transaction that something is to be done with.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "requests are read field by field, so that errors name the field")]
pub struct NamedTransaction {
    /// The transaction.
    #[schema(value_type = Name)]
    id: (),
}

/// A floor that an account is to have.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "requests are read field by field, so that errors name the field")]
pub struct NewFloor {
    /// The lowest balance that a debit may leave; `none` for no floor at all.
    #[schema(value_type = Floors)]
    floor: (),
    /// The currency that the account must have; without it, whichever it has.
    #[schema(value_type = Option<Name>)]
    currency: Option<()>,
    /// Why; the account keeps it.
    #[schema(value_type = Option<Reasons>)]
    reason: Option<()>,
}

/// An account that is asked for.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "requests are read field by field, so that errors name the field")]
pub struct NewAccount {
    /// Its name.
    #[schema(value_type = Name)]
    account: (),
    /// What it starts with.
    #[schema(value_type = Amounts)]
    balance: (),
    /// The account that pays what it starts with, by a transfer. Then that is above zero.
    #[schema(value_type = Option<Name>)]
    from: Option<()>,
    /// The lowest balance: 0 by default; `none` for no floor at all.
    #[schema(value_type = Option<Amounts>)]
    floor: Option<()>,
    /// The currency that its transactions must have.
    #[schema(value_type = Option<Name>)]
    currency: Option<()>,
    /// Whether it takes postings: open by default.
    #[schema(value_type = Option<NewStatus>)]
    status: Option<()>,
}
