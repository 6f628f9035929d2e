"""Keeps the balances of accounts from outcome events alone, with nothing of Tandem's.

    pip install pika
    python3 follow.py EVENTS [ACCOUNT=BALANCE ...]

It ends after so many different events and prints the balances as JSON. What makes it right: a durable
queue, which keeps what comes while nobody listens; repeats are dropped by their id; an event is
acknowledged when it is booked. A program that runs for ever keeps ids and balances in its database,
written together, and takes the ids of the last days into account.
"""

import json
import os
import sys
import time

import pika

PREFIX = os.environ.get("TANDEM_QUEUE_PREFIX", "tandem")
URL = os.environ.get("TANDEM_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/%2f")


def book(balances, event):
    """Adds the changes of a transaction that is done."""
    if event["state"] != "done":
        return
    legs = event.get("legs") or [
        {"account": event["source"], "amount": -event["value"]},
        {"account": event["destination"], "amount": event["value"]},
    ]
    for leg in legs:
        account = leg["account"]
        balances[account] = balances.get(account, 0) + leg["amount"]


def listen(channel, wanted, balances, known):
    """Books events until so many different ones are known."""
    for method, properties, body in channel.consume(f"{PREFIX}.balances", inactivity_timeout=60):
        if method is None:
            sys.exit(f"no event for 60 s; {len(known)} of {wanted} are known")
        if properties.message_id not in known:
            known.add(properties.message_id)
            book(balances, json.loads(body))
        channel.basic_ack(method.delivery_tag)
        if len(known) >= wanted:
            channel.cancel()
            return


def main():
    wanted = int(sys.argv[1])
    balances = {name: int(value) for name, value in (word.split("=") for word in sys.argv[2:])}
    known = set()
    while len(known) < wanted:
        try:
            with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
                channel = connection.channel()
                channel.queue_declare(f"{PREFIX}.balances", durable=True)
                channel.queue_bind(f"{PREFIX}.balances", f"{PREFIX}.events", "transaction.*")
                channel.basic_qos(prefetch_count=500)
                print("listening", file=sys.stderr, flush=True)
                listen(channel, wanted, balances, known)
        except pika.exceptions.AMQPError as error:
            print(f"{error!r}; connecting again", file=sys.stderr, flush=True)
            time.sleep(0.5)
    print(json.dumps(balances, sort_keys=True))


if __name__ == "__main__":
    main()
