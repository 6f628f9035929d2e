"""Owns the demo's judgement: what was expected, what came out, and the table that says it."""


def problems(expected, stats, submit_code, audit_code):
    """Every way in which the run was not as it must be; empty when all is well."""
    found = []
    if submit_code != 0:
        found.append(f"producer submit exited with {submit_code}")
    states = {state: count for state, count in stats["states"].items() if count}
    wanted = {"done": expected.done, "canceled": sum(expected.canceled.values())}
    if states != wanted:
        found.append(f"states are {states}, expected {wanted}")
    reasons = {reason: count for reason, count in stats["reasons"].items() if count}
    if reasons != expected.canceled:
        found.append(f"reasons are {reasons}, expected {expected.canceled}")
    if audit_code != 0:
        found.append(f"producer audit exited with {audit_code}")
    return found


def table(expected, stats, kill, recovery_s, transfers, submit_s):
    """The result, as aligned text."""
    rows = [("done", _count(stats["states"].get("done", 0), expected.done))]
    for reason, wanted in sorted(expected.canceled.items()):
        rows.append((f"canceled: {reason}", _count(stats["reasons"].get(reason, 0), wanted)))
    rows.append(("transfers/s, submit to last settled", f"{transfers / submit_s:,.0f}"))
    if kill.rate_before:
        rows.append(("transfers/s, submit to the kill", f"{kill.rate_before:,.0f}"))
    rows += _kill_rows(kill, recovery_s)
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"  {label:<{width}}  {value}" for label, value in rows)


def _count(got, wanted):
    return f"{got:,}" if got == wanted else f"{got:,}  (expected {wanted:,})"


def _kill_rows(kill, recovery_s):
    if not kill.killed:
        return [("worker killed", "none: the transfers were settled before")]
    rows = [("worker killed", ", ".join(kill.killed)), ("in flight at the kill", len(kill.held))]
    if recovery_s is None:
        return [*rows, ("time to recover", "nothing to recover")]
    return [*rows, ("time to recover them", f"{recovery_s:.1f} s")]
