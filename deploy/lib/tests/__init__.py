"""Tests of the deploy scripts: `deploy/lib/check`, or one file of them with `-k`."""
