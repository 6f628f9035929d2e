//! producer
fn main() {}
