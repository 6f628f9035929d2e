"""One module for each executable in `deploy/`: it owns the options, and calls the rest."""
