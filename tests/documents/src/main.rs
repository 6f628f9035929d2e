//! Writes `deploy/configuration.md`, `deploy/limits.md`, `deploy/metrics.md` and
//! `common/schemas/openapi.json`. Run it when a flag, a default, a limit, a metric, a help text or
//! the HTTP API has changed.

fn main() -> std::io::Result<()> {
    let root = documents::root();
    std::fs::write(root.join(documents::CONFIGURATION), documents::configuration())?;
    std::fs::write(root.join(documents::LIMITS), documents::limits())?;
    std::fs::write(root.join(documents::METRICS), documents::metrics())?;
    std::fs::write(root.join(documents::OPENAPI), api::openapi::text())
}
