//! Writes `deploy/configuration.md`. Run it when a flag, a default or a help text has changed.

fn main() -> std::io::Result<()> {
    std::fs::write(documents::root().join(documents::CONFIGURATION), documents::configuration())
}
