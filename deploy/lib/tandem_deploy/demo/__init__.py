"""The parts of `deploy/demo`.

- `data`: accounts and transfers, and what must become of them.
- `programs`: calls `producer`, runs `worker`s.
- `kill`: kills a worker in the middle, measures the recovery.
- `verdict`: compares, and prints the table.
"""
