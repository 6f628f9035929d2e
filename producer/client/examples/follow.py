"""Keeps the balances of accounts from outcome events alone, with nothing of Tandem's.

    pip install pika
    python3 follow.py SECONDS [ACCOUNT=BALANCE ...]

It ends when nothing has come for so many seconds, or on SIGTERM or ^C, and prints the balances and the
number of different events as JSON. What makes the balances right: a durable queue, which keeps what comes while nobody
listens; repeats are dropped by their id; an event is acknowledged after it is booked. A program that
runs for ever writes balances and ids to its database together, and may forget ids after some days.
"""

import json
import os
import signal
import sys
import time

import pika

PREFIX = os.environ.get("TANDEM_QUEUE_PREFIX", "tandem")
URL = os.environ.get("TANDEM_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/%2f")
QUEUE = f"{PREFIX}.balances"


def book(balances, event):
    """Adds the changes of a transaction that is done."""
    if event["state"] != "done":
        return
    # Of a hold, what was captured.
    legs = event.get("captured") or event.get("legs") or [
        {"account": event["source"], "amount": "-" + event["value"]},
        {"account": event["destination"], "amount": event["value"]},
    ]
    for leg in legs:
        account = leg["account"]
        # Amounts are texts. Where accounts hold decimal amounts, use decimal.Decimal.
        balances[account] = balances.get(account, 0) + int(leg["amount"])


def listen(idle_s, balances, known):
    """Books what comes, and returns when nothing has come for a while."""
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        # A quorum queue survives the loss of a broker.
        channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_bind(QUEUE, f"{PREFIX}.events", "transaction.*")
        channel.basic_qos(prefetch_count=500)
        print("listening", file=sys.stderr, flush=True)
        for method, properties, body in channel.consume(QUEUE, inactivity_timeout=idle_s):
            if method is None:
                return
            if properties.message_id not in known:
                known.add(properties.message_id)
                book(balances, json.loads(body))
            channel.basic_ack(method.delivery_tag)


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    idle_s = float(sys.argv[1])
    balances = {name: int(value) for name, value in (word.split("=") for word in sys.argv[2:])}
    known = set()
    while True:
        try:
            listen(idle_s, balances, known)
            break
        except KeyboardInterrupt:
            break
        except (pika.exceptions.AMQPError, OSError) as error:
            print(f"{error!r}; connecting again", file=sys.stderr, flush=True)
            time.sleep(0.5)
    print(json.dumps({"balances": balances, "events": len(known)}, sort_keys=True))


if __name__ == "__main__":
    main()
