//! Printing a list of documents, page by page.

use bson::Document;
use client::Listing;

use crate::exit::{Error, Exit};

/// Prints each document of a list with `print`.
///
/// # Errors
/// When the server is away, or `print` fails.
pub async fn print_all(
    mut listing: Listing,
    mut print: impl FnMut(&Document) -> Result<(), Error>,
) -> Result<Exit, Error> {
    loop {
        let page = listing.next_page().await?;
        if page.is_empty() {
            return Ok(Exit::Ok);
        }
        page.iter().try_for_each(&mut print)?;
    }
}
