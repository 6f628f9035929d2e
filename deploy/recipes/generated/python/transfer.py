"""Pays, awaits the outcome, and finds it among what ended, with a client that is generated from
common/schemas/openapi.json.

    python3 transfer.py ID SOURCE DESTINATION VALUE

The README.md of the recipes says how to generate it. TANDEM_API is the address of the server,
TANDEM_TOKEN a token of it, if it has any. It prints how the transaction ended: `done`, or
`canceled` with the code of the reason, and the number of that end. What the server refuses ends it
with 1 and the type of the problem.
"""

import json
import os
import sys

from tandem_client import AuthenticatedClient, Client
from tandem_client.api.events import list_events
from tandem_client.api.transactions import show_transaction, submit
from tandem_client.models import (
    CancelCode,
    ListEventsMetadata,
    ListEventsState,
    Metadata,
    NewTransaction,
    Problem,
    State,
)

PROGRAM = {"program": "transfer.py"}
# A set that is closed: each code has a name.
ADVICE = {
    CancelCode.INSUFFICIENT_FUNDS: "ask for less",
    CancelCode.ACCOUNT_NOT_FOUND: "open the account",
}


def connect():
    api = os.environ.get("TANDEM_API", "http://127.0.0.1:8080")
    token = os.environ.get("TANDEM_TOKEN")
    # Longer than an answer may take that was asked to wait.
    return AuthenticatedClient(api, token, timeout=60) if token else Client(api, timeout=60)


def good(answer):
    if isinstance(answer, Problem):
        sys.exit(f"{answer.type_.value}: {answer.detail}")
    if answer is None:
        sys.exit("an answer that the description does not name")
    return answer


def ended(client, transaction):
    """After a lost answer, send the same again: the id is the idempotency key."""
    seen = good(submit.sync(client=client, body=transaction, wait=30))
    while seen.state not in (State.DONE, State.CANCELED):
        seen = good(show_transaction.sync(transaction.id, client=client, wait=30))
    return seen


def number_of(client, id, state):
    """The list of what ended, from its beginning. A program that goes on keeps `next`."""
    metadata = ListEventsMetadata()
    metadata.additional_properties = {f"metadata.{name}": text for name, text in PROGRAM.items()}
    after = 0
    while True:
        page = good(
            list_events.sync(
                client=client,
                after=str(after),
                wait=10,
                state=ListEventsState(state.value),
                metadata=metadata,
            )
        )
        for item in page.items:
            if item.event.id == id:
                return item.number
        after = page.next_


def main():
    id, source, destination, value = sys.argv[1:]
    metadata = Metadata.from_dict(PROGRAM)
    transaction = NewTransaction(
        id=id, source=source, destination=destination, value=value, metadata=metadata
    )
    client = connect()
    seen = ended(client, transaction)
    code = seen.reason.code if seen.reason else None
    print(
        json.dumps(
            {
                "state": seen.state.value,
                "code": code and code.value,
                "number": number_of(client, id, seen.state),
                "advice": ADVICE.get(code, seen.reason.message if seen.reason else ""),
            }
        )
    )


main()
