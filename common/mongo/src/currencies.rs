//! The form of a ledger's amounts, and the owner's own currencies: when they may be chosen.
//!
//! Promises that the form changes only while no account has a balance in the form that is left, and
//! that the places of a currency never change once they were told. A ledger that is set up over
//! accounts of others has the form of most of the first ones, unless its owner chooses. Fails with a
//! sentence that says what stands in the way.

use std::time::Duration;

use futures_util::TryStreamExt;
use ledger::amount::Amount;
use ledger::limits::echo;
use ledger::notation::{Form, Notation};
use ledger::transaction::check_name;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use super::Store;
use super::catalogue::Catalogue;
use super::ledger_settings::{Choice, ID, LedgerSettings, Misfit, own_currency};
use super::names::ACCOUNTS;
use super::not_ready::NotReady;
use super::own::LEDGER_SETTINGS;
use super::query::Query;

/// So many accounts tell the form of a ledger that is set up over them.
const SAMPLE: i64 = 1_000;

/// How long a look at all accounts may take, which only an operator asks for.
const LOOK_LIMIT: Duration = Duration::from_secs(4 * 3_600);

/// The fields of an account that are amounts.
const AMOUNTS: [&str; 4] = ["balance", "pendingDebits", "pendingCredits", "floor"];

impl Store {
    /// What the owner's choice of a form comes to in this database.
    pub(super) async fn form(
        &self,
        choice: Choice,
        seen: &Catalogue,
    ) -> Result<Option<Form>, NotReady> {
        let accounts_are_there = seen.collections.contains_key(ACCOUNTS);
        match (&seen.settings, choice.amounts) {
            (None, None) if accounts_are_there => self.form_of_accounts().await,
            (Some(settings), Some(form)) if form != settings.notation.form => {
                self.may_leave(settings.notation.form).await.map(|()| Some(form))
            }
            (_, chosen) => Ok(chosen),
        }
    }

    /// The form of most of the first accounts; none if they have no balances.
    pub(super) async fn form_of_accounts(&self) -> Result<Option<Form>, NotReady> {
        let query = self.accounts_with(doc! {})?;
        let (mut whole, mut decimal) = (0, 0);
        for account in self.read_all(query, SAMPLE).await? {
            match account.get("balance").map(Amount::from_bson) {
                Some(Ok(Amount::Decimal(_))) => decimal += 1,
                Some(Ok(Amount::Int(_))) => whole += 1,
                Some(Err(_)) | None => {}
            }
        }
        Ok(match (whole, decimal) {
            (0, 0) => None,
            (whole, decimal) if decimal > whole => Some(Form::Decimals),
            (_, _) => Some(Form::MinorUnits),
        })
    }

    /// Changes the form of a ledger that is set up. If an account in the form that is left comes
    /// meanwhile, it is as before.
    pub(super) async fn change_form(
        &self,
        there: &LedgerSettings,
        form: Form,
    ) -> Result<(), NotReady> {
        let left = there.notation.form;
        if form == left {
            return Ok(());
        }
        self.write_form(form).await?;
        if let Err(refused) = self.may_leave(left).await {
            self.write_form(left).await?;
            return Err(refused);
        }
        Ok(())
    }

    async fn write_form(&self, form: Form) -> Result<(), NotReady> {
        let set = doc! { "$set": { "amounts": form.name() } };
        let collection = self.settings_collection();
        let write = async move { collection.update_one(LEDGER_SETTINGS.named(ID), set).await };
        self.permitted("write the collection `tandem.settings`", write).await.map(drop)
    }

    /// An error if an account has a balance in this form.
    async fn may_leave(&self, form: Form) -> Result<(), NotReady> {
        let types = match form {
            Form::MinorUnits => vec!["int", "long", "double"],
            Form::Decimals => vec!["decimal"],
        };
        let query = self.accounts_with(doc! { "balance": { "$type": types } })?;
        let store = Store { op_limit: LOOK_LIMIT, ..self.clone() };
        match store.read_all(query, 1).await?.is_empty() {
            true => Ok(()),
            false => Err(Misfit::Amounts(form).into()),
        }
    }

    /// Remembers in a ledger that is set up how many decimal places a currency of the owner's own
    /// has. Doing it again changes nothing.
    ///
    /// # Errors
    /// When the places are known and others, an account in this currency has more of them, or the
    /// server is away or refuses.
    pub async fn remember_currency(&self, code: &str, places: u32) -> Result<(), NotReady> {
        check_name("currency", code).map_err(|flaw| Misfit::Places(flaw.to_string()))?;
        if places > Amount::PLACES_MAX {
            let most = Amount::PLACES_MAX;
            let problem = format!("{:?}: a currency has at most {most} places", echo(code));
            return Err(Misfit::Places(problem).into());
        }
        if self.knows(code, places).await? {
            return Ok(());
        }
        self.has_room(code, places).await?;
        let own = own_currency((&code.to_owned(), &places));
        let filter = doc! { "$and": [LEDGER_SETTINGS.named(ID), doc! {
            "currencies.code": { "$ne": code },
        }] };
        let (collection, update) =
            (self.settings_collection(), doc! { "$push": { "currencies": own } });
        let write = async move { collection.update_one(filter, update).await };
        self.permitted("write the collection `tandem.settings`", write).await?;
        match self.knows(code, places).await? {
            true => Ok(()),
            false => Err(Misfit::Places("the ledger is not set up yet".to_owned()).into()),
        }
    }

    /// Whether a currency is known to have so many places.
    async fn knows(&self, code: &str, places: u32) -> Result<bool, NotReady> {
        let notation = self.settings().await?.map(|settings| settings.notation);
        match notation.unwrap_or_default().places(code) {
            None => Ok(false),
            Some(known) if known == places => Ok(true),
            Some(known) => {
                let by = match Notation::default().places(code) {
                    Some(_) => " by ISO 4217",
                    None => "",
                };
                let problem = format!(
                    "{:?} has {known} decimal places{by}, and that does not change",
                    echo(code)
                );
                Err(Misfit::Places(problem).into())
            }
        }
    }

    /// An error if an account in this currency holds an amount with more places.
    async fn has_room(&self, code: &str, places: u32) -> Result<(), NotReady> {
        let is_default = self.layout().and_then(|layout| layout.currency()) == Some(code);
        let filter = match is_default {
            true => doc! { "currency": { "$in": [Bson::from(code), Bson::Null] } },
            false => doc! { "currency": code },
        };
        let code = code.to_owned();
        let own = [(code.clone(), places)].into();
        let notation = Notation { form: Form::Decimals, own };
        let query = self.accounts_with(filter)?;
        let store = Store { op_limit: LOOK_LIMIT, ..self.clone() };
        let looked = async move {
            let mut accounts = query.find().await?;
            while let Some(account) = accounts.try_next().await? {
                let account = query.read(&account);
                let amount = |field: &&str| account.get(*field).ok().flatten();
                let mut amounts = AMOUNTS.iter().filter_map(amount).filter_map(Amount::written);
                let problem = |amount| notation.check_places(amount, Some(&code)).err();
                if let Some(found) = amounts.find_map(problem) {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        };
        match store.permitted("read the collection of accounts", looked).await? {
            None => Ok(()),
            Some(problem) => {
                let problem = format!("an account holds {problem}");
                Err(Misfit::Places(problem).into())
            }
        }
    }

    fn accounts_with(&self, filter: Document) -> Result<Query, NotReady> {
        let fields = AMOUNTS.iter().map(|field| ((*field).to_owned(), 1.into()));
        let projection: Document = fields.collect();
        let query = self.query(ACCOUNTS, doc! { "filter": filter, "projection": projection });
        query.map_err(|error| Misfit::Unreadable(error.to_string()).into())
    }

    /// The first documents that match.
    async fn read_all(&self, query: Query, most: i64) -> Result<Vec<Document>, NotReady> {
        let find = async move {
            let found = query.find().limit(most).await?;
            let read = |found: Vec<RawDocumentBuf>| -> Vec<Document> {
                let read = found.iter().map(|found| Document::try_from(&*query.read(found)));
                read.filter_map(Result::ok).collect()
            };
            found.try_collect().await.map(read)
        };
        self.permitted("read the collection of accounts", find).await
    }
}
