//! From the submission of a hold to its end, with workers.
