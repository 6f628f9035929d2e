"""An order and its payment in one MongoDB transaction, with nothing of Tandem's but the collection.

    pip install -r requirements.txt
    python3 order.py ORDER PAYER CENTS [poll|watch]

The payment's document says that it is `unpublished`, so a worker finds it after the commit: there is
no message to send, and the program may die at any moment. Run again with the same order, it pays
nothing twice: the payment's `_id` is made from the order's. It prints how the payment ended.
"""

import json
import os
import sys
import urllib.parse
import urllib.request
from datetime import datetime, timezone

from bson.int64 import Int64
from pymongo import MongoClient
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

FINAL = ("done", "canceled")


def place(database, session, order, payer, cents, payment):
    """Stores order and payment. The same order again stores nothing; another content is refused."""
    known = database.orders.find_one({"_id": order}, session=session)
    if known:
        if (known["payer"], known["cents"]) == (payer, cents):
            return
        raise ValueError(f"order {order} was placed before, with another content")
    stored = {"_id": order, "payer": payer, "cents": cents, "payment": payment}
    database.orders.insert_one(stored, session=session)
    now = datetime.now(timezone.utc)
    database.transactions.insert_one(
        {
            "_id": payment,
            "source": payer,
            "destination": "shop",
            "value": Int64(cents),  # whole minor units
            "state": "initial",
            "unpublished": True,
            "createdAt": now,
            "lastModified": now,
            "metadata": {"order": order},
        },
        session=session,
    )


def polled(payment):
    """Asks Tandem's API, which answers as soon as there is something to tell."""
    name = urllib.parse.quote(payment, safe="")
    while True:
        address = f"{os.environ['TANDEM_API']}/v1/transactions/{name}?wait=30"
        with urllib.request.urlopen(address) as answer:
            found = json.load(answer)
        if found["state"] in FINAL:
            return found


def watched(database, payment):
    """Watches the one document. The stream is opened first: the look sees what happened before it."""
    of_it = [{"$match": {"documentKey._id": payment}}]
    transactions = database.transactions
    with transactions.watch(of_it, full_document="updateLookup") as stream:
        durable = transactions.with_options(read_concern=ReadConcern("majority"))
        found = durable.find_one({"_id": payment})
        while found["state"] not in FINAL:
            found = next(stream)["fullDocument"]
        return found


def main():
    order, payer, cents = sys.argv[1], sys.argv[2], int(sys.argv[3])
    payment = f"order-{order}"
    with MongoClient(os.environ["TANDEM_MONGODB_URI"]) as mongo:
        database = mongo[os.environ["TANDEM_DATABASE"]]
        with mongo.start_session() as session:
            # The driver runs the callback again where another client was in the way.
            session.with_transaction(
                lambda session: place(database, session, order, payer, cents, payment),
                write_concern=WriteConcern("majority"),
            )
        print(f"committed {payment}", flush=True)
        found = watched(database, payment) if "watch" in sys.argv[4:] else polled(payment)
    print("paid" if found["state"] == "done" else f"not paid: {found['reason']['message']}")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        sys.exit(str(error))
