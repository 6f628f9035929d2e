"""Checks of the files in deploy/ that need no engine: each module is run by tests/deployment.rs beside it.

A module is started with the root of the repository as its argument and the settings of the programs as
JSON on standard input: {program: {"flags": {flag: takes a value}, "variables": {name: default}}}. It
prints a sentence for each problem, and exits with 1 if there is any.
"""
