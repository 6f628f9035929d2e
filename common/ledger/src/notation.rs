//! How a ledger writes amounts of money.
//!
//! Owns the one form of a ledger, whole minor units or decimals, and how many decimal places the
//! amounts of a currency have: by ISO 4217, or as the owner of the ledger has said of a code of
//! their own. Promises that an amount in the other form is refused and never guessed, because 1250
//! and 1250.00 differ by a factor of a hundred; and that no decimal has more places than its
//! currency. Without a currency, or with one that nobody has told of, a decimal has up to
//! [`Amount::PLACES_MAX`] places. Fails with a [`NotationError`] that names the form and what to
//! write.

use std::collections::BTreeMap;

use iso_currency::Currency;
use rust_decimal::Decimal;

use crate::amount::{Amount, AmountError};
use crate::limits::echo;
use crate::remedy::Remedy;

/// The form of all amounts of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Whole numbers of the smallest unit: 1250 is 12.50 EUR, and 1250 JPY. Stored as Int64.
    #[default]
    MinorUnits,
    /// Decimal numbers of the currency: 1250 is 1250.00 EUR. Stored as Decimal128.
    Decimals,
}

impl Form {
    /// Both.
    pub const ALL: [Form; 2] = [Form::MinorUnits, Form::Decimals];

    /// What it is called in settings and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Form::MinorUnits => "minor-units",
            Form::Decimals => "decimals",
        }
    }

    /// The form of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Form> {
        Form::ALL.into_iter().find(|form| form.name() == name)
    }

    /// As it is told to a person.
    #[must_use]
    pub fn told(self) -> &'static str {
        match self {
            Form::MinorUnits => "the amounts of this ledger are whole minor units",
            Form::Decimals => "the amounts of this ledger are decimals",
        }
    }
}

/// The form and the currencies of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notation {
    /// The form of all its amounts.
    pub form: Form,
    /// Decimal places of the owner's own currencies, by their codes.
    pub own: BTreeMap<String, u32>,
}

/// What every [`NotationError::Point`] says, so that a whole file can be judged by it.
pub const HAS_POINT: &str = "has a decimal point";

/// Why a value is no amount of this ledger. The texts are cut to be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotationError {
    /// It would be none in any ledger.
    #[error(transparent)]
    Amount(AmountError),
    /// It is no number.
    #[error("{value} is not a number; {}, written like {example}", .form.told())]
    NotANumber {
        /// What was given.
        value: String,
        /// The form of the ledger.
        form: Form,
        /// An amount in this form.
        example: &'static str,
    },
    /// It has a point, in a ledger of minor units.
    #[error("{value} {HAS_POINT}, and {}: {remedy}", Form::MinorUnits.told())]
    Point {
        /// What was given.
        value: String,
        /// What to write.
        remedy: String,
    },
    /// It is a float of JSON, which can't hold money exactly, in a ledger of decimals.
    #[error("{value} is a floating-point number; write it as a text, like \"{example}\"")]
    Float {
        /// What was given.
        value: String,
        /// The same as a text, or another amount where that is none.
        example: String,
    },
    /// It has more places than its currency.
    #[error(
        "{value} has more decimal places than {currency} has ({places}), and {}; round it",
         .form.told()
    )]
    Places {
        /// What was given.
        value: String,
        /// Its currency.
        currency: String,
        /// How many places it may have.
        places: u32,
        /// The form of the ledger.
        form: Form,
    },
    /// A program has made it of minor units, in a ledger of decimals.
    #[error("{value} is a whole number of minor units, and {}; make a decimal of it",
            Form::Decimals.told())]
    Whole {
        /// What was given.
        value: String,
    },
}

/// How many decimal places ISO 4217 gives a currency; `None` for codes that are none, and for those
/// like gold that have no minor unit.
fn iso_places(code: &str) -> Option<u32> {
    Currency::from_code(code).and_then(Currency::exponent).map(u32::from)
}

impl Notation {
    /// How many decimal places the amounts of a currency have, if that is known.
    #[must_use]
    pub fn places(&self, currency: &str) -> Option<u32> {
        self.own.get(currency).copied().or_else(|| iso_places(currency))
    }

    /// Why no account is made in this currency: it differs from one of ISO 4217 by case alone.
    #[must_use]
    pub fn problem_of_currency(&self, currency: &str) -> Option<String> {
        if self.places(currency).is_some() {
            return None;
        }
        let code = currency.trim().to_uppercase();
        let code = Currency::from_code(&code)?.code();
        (currency != code).then(|| {
            format!(
                "{:?} looks like {code} and is another currency; write {code}, or tell the ledger \
                 of a currency of your own with {}",
                echo(currency),
                Remedy::Currency(currency)
            )
        })
    }

    /// A currency and its places, if both are known.
    fn known<'a>(&self, currency: Option<&'a str>) -> Option<(&'a str, u32)> {
        currency.and_then(|currency| Some((currency, self.places(currency)?)))
    }

    fn too_many_places(&self, value: String, (currency, places): (&str, u32)) -> NotationError {
        NotationError::Places { value, currency: currency.to_owned(), places, form: self.form }
    }

    /// Reads an amount as somebody has written it.
    ///
    /// # Errors
    /// When it is none, or is not in the form of this ledger.
    pub fn read(&self, text: &str, currency: Option<&str>) -> Result<Amount, NotationError> {
        // For both forms: no exponent, no underscores.
        let amount = match Amount::parse(text) {
            Ok(amount) => amount,
            Err(AmountError::NotANumber(value)) => return Err(self.not_a_number(value)),
            Err(other) => return Err(NotationError::Amount(other)),
        };
        let amount = match self.form {
            Form::MinorUnits => amount,
            Form::Decimals => Amount::parse_decimal(text).map_err(NotationError::Amount)?,
        };
        self.check(amount, currency)?;
        self.check_written(text, currency)?;
        Ok(amount)
    }

    /// The same of what is captured of a hold, whose form and currency are not known yet: where
    /// amounts are minor units, the hold may be a document of others.
    ///
    /// # Errors
    /// As [`Notation::read`].
    pub fn read_part(&self, text: &str) -> Result<Amount, NotationError> {
        match (self.form, Amount::parse(text)) {
            (Form::MinorUnits, Ok(amount)) => Ok(amount),
            (Form::MinorUnits, Err(_)) | (Form::Decimals, _) => self.read(text, None),
        }
    }

    /// Checks the places of a text: three of them, as in 1.250 EUR, may be thousands.
    fn check_written(&self, text: &str, currency: Option<&str>) -> Result<(), NotationError> {
        let written = text.split_once('.').map_or(0, |(_, places)| places.len());
        match self.known(currency) {
            // A whole decimal is written with one zero, whatever its currency.
            Some(known) if written > known.1.max(1) as usize => {
                Err(self.too_many_places(echo(text).into_owned(), known))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// An error for a value that is no number.
    #[must_use]
    pub fn not_a_number(&self, value: String) -> NotationError {
        let example = match self.form {
            Form::MinorUnits => "1250",
            Form::Decimals => "12.50",
        };
        NotationError::NotANumber { value, form: self.form, example }
    }

    /// An error for a number of JSON that is a float.
    #[must_use]
    pub fn float(&self, number: &str, currency: Option<&str>) -> NotationError {
        let is_plain = matches!(Amount::parse(number), Ok(Amount::Decimal(_)));
        match (self.form, is_plain) {
            (Form::MinorUnits, true) => match self.read(number, currency) {
                Err(error) => error,
                Ok(_) => self.not_a_number(number.to_owned()),
            },
            (Form::MinorUnits, false) => self.not_a_number(number.to_owned()),
            (Form::Decimals, is_plain) => {
                let example = if is_plain { number } else { "12.50" }.to_owned();
                NotationError::Float { value: number.to_owned(), example }
            }
        }
    }

    /// Checks an amount that a program has made.
    ///
    /// # Errors
    /// When it is not in the form of this ledger, or has more places than its currency.
    pub fn check(&self, amount: Amount, currency: Option<&str>) -> Result<(), NotationError> {
        let decimal = match (self.form, amount) {
            (Form::MinorUnits, Amount::Int(_)) => return Ok(()),
            (Form::Decimals, Amount::Int(_)) => {
                return Err(NotationError::Whole { value: amount.to_string() });
            }
            (_, Amount::Decimal(decimal)) => decimal,
        };
        self.check_places(amount, currency)?;
        match self.form {
            Form::Decimals => Ok(()),
            Form::MinorUnits => {
                let remedy = in_minor_units(decimal, self.known(currency));
                Err(NotationError::Point { value: amount.to_string(), remedy })
            }
        }
    }

    /// Checks the places of an amount in whatever form.
    ///
    /// # Errors
    /// When it has more than its currency.
    pub fn check_places(
        &self,
        amount: Amount,
        currency: Option<&str>,
    ) -> Result<(), NotationError> {
        let Amount::Decimal(decimal) = amount else { return Ok(()) };
        match self.known(currency) {
            Some(known) if decimal.normalize().scale() > known.1 => {
                Err(self.too_many_places(amount.to_string(), known))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The same of an amount in a text; a text that is none stays as it is.
    #[must_use]
    pub fn shown_text(&self, text: &str, currency: Option<&str>) -> String {
        Amount::parse(text).map_or_else(|_| text.to_owned(), |amount| self.shown(amount, currency))
    }

    /// An amount as a person reads it: with the places of its currency, and its code.
    #[must_use]
    pub fn shown(&self, amount: Amount, currency: Option<&str>) -> String {
        let Some(currency) = currency else { return amount.to_string() };
        let Some(places) = self.places(currency) else { return format!("{amount} {currency}") };
        let decimal = match amount {
            Amount::Int(units) => Decimal::try_new(units, places).ok(),
            Amount::Decimal(decimal) => {
                let mut padded = decimal.normalize();
                let places = places.max(padded.scale());
                padded.rescale(places);
                Some(padded)
            }
        };
        match decimal {
            Some(decimal) => format!("{decimal} {currency}"),
            None => format!("{amount} {currency}"),
        }
    }
}

/// What to write in place of a decimal in a ledger of minor units.
fn in_minor_units(decimal: Decimal, places: Option<(&str, u32)>) -> String {
    let Some((currency, places)) = places else {
        return "write the number of minor units, like 1250 for 12.50".to_owned();
    };
    let whole = decimal.normalize();
    let units = Decimal::from(10_u64.pow(places)).checked_mul(whole).map(|units| units.normalize());
    let Some(units) = units else { return "write the number of minor units".to_owned() };
    let mut padded = whole;
    padded.rescale(places.max(whole.scale()));
    let meant = format!("write {units} for {padded} {currency}");
    // A program or a spreadsheet may have added the point to a number of minor units.
    match i64::try_from(whole) {
        Ok(written) if whole.is_integer() && places > 0 => {
            let mut minor = Decimal::from(written);
            minor.set_scale(places).unwrap_or_default();
            format!("{meant}, or {written} for {minor} {currency}")
        }
        Ok(_) | Err(_) => meant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notation(form: Form) -> Notation {
        Notation { form, own: BTreeMap::from([("POINTS".to_owned(), 0), ("eur".to_owned(), 1)]) }
    }

    fn read(form: Form, text: &str, currency: &str) -> Result<String, String> {
        let currency = Some(currency).filter(|currency| !currency.is_empty());
        let read = notation(form).read(text, currency);
        read.map(|amount| amount.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn where_amounts_are_minor_units_a_point_is_refused_with_what_to_write() {
        let read = |text, currency| read(Form::MinorUnits, text, currency);
        assert_eq!(read("1250", "EUR"), Ok("1250".to_owned()));
        for (text, currency, said) in [
            (
                "12.50",
                "EUR",
                "12.50 has a decimal point, and the amounts of this ledger are whole \
                              minor units: write 1250 for 12.50 EUR",
            ),
            ("1250.0", "EUR", "write 125000 for 1250.00 EUR, or 1250 for 12.50 EUR"),
            ("-12.5", "KWD", "write -12500 for -12.500 KWD"),
            ("10.0", "JPY", "write 10 for 10 JPY"),
            ("12.50", "", "write the number of minor units, like 1250 for 12.50"),
            ("12.50", "UNHEARD", "write the number of minor units"),
            ("0.001", "EUR", "0.001 has more decimal places than EUR has (2)"),
            (
                "x",
                "EUR",
                "\"x\" is not a number; the amounts of this ledger are whole minor units, \
                          written like 1250",
            ),
            ("1e3", "EUR", "is not a number"),
            ("10000000000000000000", "EUR", "is too large"),
        ] {
            let error = read(text, currency).expect_err(text);
            assert!(error.contains(said), "{error}, and not {said}");
        }
    }

    #[test]
    fn where_amounts_are_decimals_they_have_at_most_the_places_of_their_currency() {
        let read = |text, currency| read(Form::Decimals, text, currency);
        for (text, currency) in [
            ("1250", "EUR"),
            ("12.50", "EUR"),
            ("10.0", "JPY"),
            ("0.001", "KWD"),
            ("7", "POINTS"),
            ("0.000000001", "UNHEARD"),
            ("0.000000001", "XAU"),
            ("0.000000001", ""),
        ] {
            assert_eq!(read(text, currency), Ok(text.to_owned()), "{currency}");
        }
        assert!(!notation(Form::Decimals).read("1250", None).expect("an amount").is_int());
        for (text, currency, said) in [
            (
                "10.5",
                "JPY",
                "10.5 has more decimal places than JPY has (0), and the amounts of \
                             this ledger are decimals; round it",
            ),
            ("12.505", "EUR", "than EUR has (2)"),
            ("1.250", "EUR", "than EUR has (2)"),
            ("1.000", "JPY", "than JPY has (0)"),
            ("0.5", "POINTS", "than POINTS has (0)"),
            ("0.05", "eur", "than eur has (1)"),
            ("0.0000000001", "", "more than 9 decimal places"),
            ("much", "EUR", "the amounts of this ledger are decimals, written like 12.50"),
        ] {
            let error = read(text, currency).expect_err(text);
            assert!(error.contains(said), "{error}, and not {said}");
        }
    }

    #[test]
    fn advice_for_a_float_is_an_amount_of_the_ledger() {
        let said = |form, number| notation(form).float(number, Some("EUR")).to_string();
        assert!(said(Form::MinorUnits, "1250.0").contains("or 1250 for 12.50 EUR"));
        assert!(said(Form::MinorUnits, "1e300").contains("written like 1250"));
        assert!(said(Form::Decimals, "1250.5").contains("write it as a text, like \"1250.5\""));
        assert!(said(Form::Decimals, "1e300").contains("like \"12.50\""));
    }

    #[test]
    fn a_program_is_told_of_an_amount_in_the_other_form() {
        let check = |form, amount| notation(form).check(amount, Some("EUR"));
        let decimal = Amount::parse("1.50").expect("a decimal");
        assert_eq!(check(Form::MinorUnits, Amount::Int(1)), Ok(()));
        assert_eq!(check(Form::Decimals, decimal), Ok(()));
        assert!(matches!(check(Form::MinorUnits, decimal), Err(NotationError::Point { .. })));
        assert!(matches!(check(Form::Decimals, Amount::Int(1)), Err(NotationError::Whole { .. })));
    }

    #[test]
    fn a_currency_that_differs_from_a_known_one_by_case_is_told_and_no_other() {
        let notation = Notation::default();
        for (currency, code) in [("usd", "USD"), ("Eur", "EUR"), (" EUR", "EUR")] {
            let problem = notation.problem_of_currency(currency).expect(currency);
            assert!(problem.contains(&format!("write {code}")), "{problem}");
            assert!(problem.contains("init --currency"), "{problem}");
        }
        for currency in ["EUR", "XAU", "POINTS", "€", ""] {
            assert_eq!(notation.problem_of_currency(currency), None, "{currency}");
        }
        assert_eq!(
            self::notation(Form::Decimals).problem_of_currency("eur"),
            None,
            "it is their own"
        );
    }

    #[test]
    fn a_person_reads_amounts_with_the_places_of_their_currency() {
        let shown = |amount, currency| notation(Form::MinorUnits).shown(amount, currency);
        for (units, currency, expected) in [
            (1250, Some("EUR"), "12.50 EUR"),
            (-5, Some("EUR"), "-0.05 EUR"),
            (0, Some("EUR"), "0.00 EUR"),
            (1250, Some("JPY"), "1250 JPY"),
            (1250, Some("KWD"), "1.250 KWD"),
            (1250, Some("POINTS"), "1250 POINTS"),
            (1250, Some("UNHEARD"), "1250 UNHEARD"),
            (1250, None, "1250"),
            (i64::MIN, Some("EUR"), "-92233720368547758.08 EUR"),
        ] {
            assert_eq!(shown(Amount::Int(units), currency), expected);
        }
        let decimal = |text: &str| Amount::parse(text).expect("a decimal");
        assert_eq!(shown(decimal("12.5"), Some("EUR")), "12.50 EUR");
        assert_eq!(shown(decimal("12.505"), Some("EUR")), "12.505 EUR");
        assert_eq!(shown(decimal("12.5"), None), "12.5");
        let text = |text| notation(Form::MinorUnits).shown_text(text, Some("EUR"));
        assert_eq!([text("-1250"), text("–")], ["-12.50 EUR", "–"]);
    }
}
