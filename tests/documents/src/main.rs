//! Writes `deploy/configuration.md`, `deploy/limits.md` and `deploy/metrics.md`. Run it when a
//! flag, a default, a limit, a metric or a help text has changed.

fn main() -> std::io::Result<()> {
    let root = documents::root();
    std::fs::write(root.join(documents::CONFIGURATION), documents::configuration())?;
    std::fs::write(root.join(documents::LIMITS), documents::limits())?;
    std::fs::write(root.join(documents::METRICS), documents::metrics())
}
