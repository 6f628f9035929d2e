//! The file in which a look that takes long keeps how far it is.
//!
//! Promises that the file is replaced as a whole after each piece, so that a look that was killed
//! goes on behind the last piece that was counted, and counts nothing twice; and that a file of
//! another database, schema or reading is refused. Fails with the name of the file.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use ledger::hex::{all_from_hex, hex};
use mongodb::bson::{RawDocument, RawDocumentBuf};
use serde::{Deserialize, Serialize};

use super::Error;
use super::tally::Tally;

/// The version of the file.
const VERSION: u32 = 1;

/// The largest file that is read, in bytes. All classes with their samples take a tenth of it.
pub const RESUME_BYTES_MAX: usize = 4 << 20;

/// What a look is at. Counts of one can't be added to those of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LookedAt {
    pub(super) database: String,
    pub(super) accounts: String,
    pub(super) transactions: String,
    /// SHA-256 of the schema.
    pub(super) schema: String,
    pub(super) places: Option<u32>,
}

/// Which collection is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    Accounts,
    Transactions,
    /// Both were read.
    Rest,
}

/// How far a look is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    pub(super) looked_at: LookedAt,
    pub(super) stage: Stage,
    /// The last `_id` that was counted, as the digits of `{_id: …}` in BSON.
    place: Option<String>,
    pub(super) accounts: Tally,
    pub(super) transactions: Tally,
}

impl State {
    pub(super) fn new(looked_at: LookedAt) -> State {
        State {
            version: VERSION,
            looked_at,
            stage: Stage::Accounts,
            place: None,
            accounts: Tally::default(),
            transactions: Tally::default(),
        }
    }

    /// Behind which document the next piece begins.
    pub(super) fn place(&self) -> Result<Option<RawDocumentBuf>, Error> {
        let broken = || Error::File("the file of --resume has no place in it".to_owned());
        let Some(digits) = &self.place else { return Ok(None) };
        let bytes = all_from_hex(digits).ok_or_else(broken)?;
        RawDocumentBuf::from_bytes(bytes).map(Some).map_err(|_| broken())
    }

    pub(super) fn reached(&mut self, place: Option<&RawDocument>) {
        self.place = place.map(|place| hex(place.as_bytes()));
    }

    /// The tally of what is being read.
    pub(super) fn tally(&mut self) -> Option<&mut Tally> {
        match self.stage {
            Stage::Accounts => Some(&mut self.accounts),
            Stage::Transactions => Some(&mut self.transactions),
            Stage::Rest => None,
        }
    }

    /// Goes on to the next collection.
    pub(super) fn next(&mut self) {
        self.place = None;
        self.stage = match self.stage {
            Stage::Accounts => Stage::Transactions,
            Stage::Transactions | Stage::Rest => Stage::Rest,
        };
    }
}

/// Where the state is kept; nowhere, if nobody has named a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    file: Option<PathBuf>,
}

impl Kept {
    pub(super) fn new(file: Option<&Path>) -> Kept {
        Kept { file: file.map(Path::to_owned) }
    }

    /// The state in the file, or a new one if there is no file yet.
    pub(super) fn load(&self, looked_at: LookedAt) -> Result<State, Error> {
        let Some(file) = &self.file else { return Ok(State::new(looked_at)) };
        // One byte more shows that there is more.
        let most = RESUME_BYTES_MAX as u64 + 1;
        let read = |file: fs::File| {
            let mut text = Vec::new();
            file.take(most).read_to_end(&mut text).map(|_| text)
        };
        let text = match fs::File::open(file).and_then(read) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(State::new(looked_at));
            }
            Err(error) => return Err(failed(file, &error)),
        };
        let refused = |problem: &str| {
            Err(Error::Refused(format!(
                "{} {problem}; remove the file to begin anew, or name another one",
                file.display()
            )))
        };
        if text.len() > RESUME_BYTES_MAX {
            return refused("is no file of an interrupted look");
        }
        match serde_json::from_slice::<State>(&text) {
            Err(_) => refused("is no file of an interrupted look"),
            Ok(state) if state.version != VERSION => refused("is of another version of Tandem"),
            Ok(state) if state.looked_at != looked_at => {
                refused("is of another database, schema or --places")
            }
            Ok(state) => Ok(state),
        }
    }

    /// Replaces the file by this state.
    pub(super) fn save(&self, state: &State) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut beside = file.as_os_str().to_owned();
        beside.push(".new");
        let text = serde_json::to_vec(state).expect("numbers and texts always serialize");
        let write = || {
            let mut new = fs::File::create(&beside)?;
            new.write_all(&text)?;
            new.sync_all()?;
            fs::rename(&beside, file)
        };
        write().map_err(|error| failed(file, &error))
    }

    /// Removes the file: the look is at its end.
    pub(super) fn remove(&self) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        match fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(file, &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn failed(file: &Path, error: &std::io::Error) -> Error {
    Error::File(format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;

    fn looked_at(database: &str, places: Option<u32>) -> LookedAt {
        let (accounts, transactions) = ("accounts".to_owned(), "transactions".to_owned());
        let schema = "none".to_owned();
        LookedAt { database: database.to_owned(), accounts, transactions, schema, places }
    }

    #[test]
    fn what_was_saved_is_loaded_and_a_file_of_something_else_is_refused() {
        let file = std::env::temp_dir().join(format!("adopt-{}.json", std::process::id()));
        let kept = Kept::new(Some(&file));
        let mut state = kept.load(looked_at("a", None)).expect("a new one");
        assert_eq!(state.place().expect("none"), None);
        let place = rawdoc! { "_id": f64::NAN };
        state.accounts.read = 7;
        state.reached(Some(&place));
        kept.save(&state).expect("it can be written");
        let loaded = kept.load(looked_at("a", None)).expect("it is there");
        assert_eq!(loaded, state);
        assert_eq!(loaded.place().expect("a place"), Some(place));
        for other in [looked_at("b", None), looked_at("a", Some(2))] {
            assert!(matches!(kept.load(other), Err(Error::Refused(_))));
        }
        let long = format!("{}{}", fs::read_to_string(&file).expect("text"), " ".repeat(4 << 20));
        for odd in ["x", "{}", &long] {
            fs::write(&file, odd).expect("it can be written");
            assert!(matches!(kept.load(looked_at("a", None)), Err(Error::Refused(_))));
        }
        kept.remove().expect("it can be removed");
        kept.remove().expect("it is gone");
        assert_eq!(kept.load(looked_at("a", None)).expect("a new one").accounts.read, 0);
    }
}
