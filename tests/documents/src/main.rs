//! Writes `deploy/configuration.md` and `deploy/metrics.md`. Run it when a flag, a default, a metric or
//! a help text has changed.

fn main() -> std::io::Result<()> {
    let root = documents::root();
    std::fs::write(root.join(documents::CONFIGURATION), documents::configuration())?;
    std::fs::write(root.join(documents::METRICS), documents::metrics())
}
