"""Owns the demo's input: accounts, transfers, and what must become of each.

The same arguments give the same files. Exactly the transfers that are meant to be refused can
be: an account never sends more than it has at the start, in any order of settlement, and the
values meant to be too high exceed all the money there is.
"""

import csv
import random
from collections import Counter
from dataclasses import dataclass

SEED = 1
BALANCE = 1_000_000  # Minor units.
VALUE_MAX = 5_000
CURRENCY = "EUR"
REFUSED_PER_REASON_MAX = 20
TRANSFERS_MIN, ACCOUNTS_MIN = 10, 3

INSUFFICIENT = "insufficient_funds"
FROZEN = "account_frozen"
NOT_FOUND = "account_not_found"


@dataclass(frozen=True)
class Expected:
    """How many transfers must end in which way."""

    done: int
    canceled: dict


def generate(directory, transfers, accounts):
    """Writes accounts.csv and transfers.csv; returns what must become of the transfers."""
    rng = random.Random(SEED)
    names = [f"acct-{number:0{max(4, len(str(accounts)))}}" for number in range(1, accounts + 1)]
    *active, frozen = names
    refused = _refused(rng, active, frozen, transfers)
    rows = _settled(rng, active, transfers - len(refused)) + [row for _, row in refused]
    rng.shuffle(rows)
    _write(
        directory / "accounts.csv",
        ["account", "balance", "floor", "currency", "status"],
        ([name, BALANCE, 0, CURRENCY, "frozen" if name == frozen else "open"] for name in names),
    )
    _write(
        directory / "transfers.csv",
        ["id", "source", "destination", "value", "currency"],
        ([f"demo-{number:07}", *row, CURRENCY] for number, row in enumerate(rows, 1)),
    )
    return Expected(len(rows) - len(refused), dict(Counter(reason for reason, _ in refused)))


def _settled(rng, active, count):
    """Transfers that cannot be refused: each source can pay all of its own from the start."""
    pairs = [rng.sample(active, 2) for _ in range(count)]
    sent = Counter(source for source, _ in pairs)
    rows = []
    for source, destination in pairs:
        highest = min(VALUE_MAX, BALANCE // sent[source])
        rows.append((source, destination, rng.randint(1, highest)))
    return rows


def _refused(rng, active, frozen, transfers):
    """(reason, transfer) for those that must be refused, half of them by either side."""
    each = max(1, min(REFUSED_PER_REASON_MAX, transfers // 100))
    all_money = BALANCE * (len(active) + 1)
    refused = []
    for number in range(each):
        source, destination = rng.sample(active, 2)
        refused.append((INSUFFICIENT, (source, destination, all_money + number + 1)))
        for reason, name in ((FROZEN, frozen), (NOT_FOUND, f"nobody-{number}")):
            account = rng.choice(active)
            pair = (account, name) if number % 2 else (name, account)
            refused.append((reason, (*pair, rng.randint(1, 100))))
    return refused


def _write(path, header, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
