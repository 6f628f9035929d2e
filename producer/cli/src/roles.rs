//! `roles`: the rights of each program, for MongoDB and RabbitMQ.
//!
//! Promises to make and change nothing but the roles, and these only with `--apply`: users and
//! their passwords are the operator's. The commands for users are printed. Names from settings
//! stand in them as literals of the shell that they are for.

use std::io::Write;

use clap::Args;
use mongo::{ROLES, Role, Store};
use queue::{Permissions, Topology, parse_url, permissions};
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit::{Error, Exit};

pub(crate) const HELP: &str = "\
Each program gets a user of its own, with the rights that its work needs:
  tandem-worker     settles; creates no transaction and no account
  tandem-producer   submits and waits; changes nothing that is there
  tandem-api        what `producer serve` offers: also accounts, cancel, unpark, dead letters
  tandem-auditor    reads, for `producer audit`; needs no user of RabbitMQ
None of them may change collections, indexes, validators, queues or exchanges: run `producer init`
as an administrator (`readWrite` and `dbAdmin` on the database, `configure` under the prefix), and
`producer roles --apply` as one who may make roles (`userAdmin`).

Examples:
  producer roles                     the commands that make roles and users
  producer roles --apply             makes the roles of MongoDB, and prints the rest
  producer roles --json              the same for a script";

/// Whether to make the roles.
#[derive(Args, Clone, Debug)]
pub struct RolesArgs {
    /// Create the roles in the database; those that are there get these rights and no others
    #[arg(long)]
    pub apply: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What is printed.
struct Report {
    store: Store,
    /// Each role, and whether it is new, if it was applied.
    roles: Vec<(&'static Role, Option<bool>)>,
    virtual_host: String,
    permissions: Vec<Permissions>,
}

/// Prints the rights, and gives MongoDB the roles if that was asked for.
///
/// # Errors
/// When the server stays away, or this user may not make roles.
pub async fn run(
    context: &Context,
    args: &RolesArgs,
    (amqp_url, queue_prefix): (&str, &str),
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set("run the same command again: it repeats what is there already");
    let amqp = parse_url(amqp_url).map_err(|error| Error::BadInput(error.to_string()))?;
    let store = context.client.store();
    // What the collections are called is in the ledger's settings.
    if !args.apply
        && let Err(error) = store.check_settings().await
    {
        context.client.note(&format!(
            "the ledger's settings can't be read ({error}), so its collections have the names of a \
             ledger without a schema here"
        ));
    }
    let mut roles = Vec::new();
    for role in &ROLES {
        let is_new = match args.apply {
            true => Some(context.client.apply_role(role).await?),
            false => None,
        };
        roles.push((role, is_new));
    }
    let report = Report {
        store: store.clone(),
        roles,
        virtual_host: amqp.vhost,
        permissions: permissions(&Topology::new(queue_prefix)).to_vec(),
    };
    let written = if args.json { report.json(out) } else { report.text(out) };
    written.map_err(Error::output)?;
    Ok(Exit::Ok)
}

impl Report {
    fn text(&self, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
        let database = self.store.database().name();
        writeln!(out, "Roles of MongoDB, in the database {database}:")?;
        for (role, is_new) in &self.roles {
            match is_new {
                Some(true) => writeln!(out, "  created: {}", role.name)?,
                Some(false) => writeln!(out, "  is as it should be: {}", role.name)?,
                None => writeln!(out, "  {}", role.shell_command(&self.store))?,
            }
        }
        writeln!(out, "Users of MongoDB, in mongosh, with authSource={database}:")?;
        for (role, _) in &self.roles {
            writeln!(out, "  {}", role.shell_user(database))?;
        }
        writeln!(out, "Users of RabbitMQ; add_user asks for a password:")?;
        for one in &self.permissions {
            let patterns = [&one.configure, &one.write, &one.read].map(|text| quoted(text));
            writeln!(out, "  rabbitmqctl add_user {}", one.role)?;
            writeln!(
                out,
                "  rabbitmqctl set_permissions -p {} {} {}",
                quoted(&self.virtual_host),
                one.role,
                patterns.join(" ")
            )?;
        }
        Ok(())
    }

    fn json(&self, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
        let role = |(role, is_new): &(&Role, Option<bool>)| {
            let privileges: Vec<Value> = role
                .privileges()
                .map(|(collection, actions)| {
                    let collection = self.store.stored_name(collection);
                    json!({ "collection": collection, "actions": actions })
                })
                .collect();
            json!({ "name": role.name, "created": is_new, "privileges": privileges })
        };
        let user = |one: &Permissions| {
            json!({
                "name": one.role,
                "configure": one.configure,
                "write": one.write,
                "read": one.read,
            })
        };
        let report = json!({
            "database": self.store.database().name(),
            "roles": self.roles.iter().map(role).collect::<Vec<_>>(),
            "virtualHost": self.virtual_host,
            "permissions": self.permissions.iter().map(user).collect::<Vec<_>>(),
        });
        writeln!(out, "{report}")
    }
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_quote_is_one_word_of_the_shell() {
        assert_eq!(quoted("it's; rm"), r"'it'\''s; rm'");
    }
}
