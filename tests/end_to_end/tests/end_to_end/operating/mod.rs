//! What `deploy/operating.md` tells operators to do works: on real servers, while transfers are
//! settled.

mod backup;
mod draining;
mod pausing;
mod replacing;
mod rotating;
mod scaling;

use std::net::SocketAddr;

use harness::deployment::root;
use harness::world::World;
use tokio::process::Command;

/// The health check of the image, in a container where the programs have these addresses.
async fn is_healthy(worker: SocketAddr, api: SocketAddr, page: &str) -> bool {
    let mut check = Command::new(root().join("deploy/healthcheck"));
    check.arg(page).env("TANDEM_HTTP", worker.to_string()).env("TANDEM_LISTEN", api.to_string());
    check.status().await.expect("it runs").success()
}

#[tokio::test]
async fn the_health_check_of_the_image_tells_whether_the_program_answers() {
    let world = World::new().await;
    let nobody = harness::worker::free_address();
    let mut worker = world.worker("one").start().await;
    let mut api = world.api(&[]).await;
    for page in ["/healthz", "/readyz"] {
        assert!(is_healthy(worker.address(), nobody, page).await, "{page} of the worker");
        assert!(is_healthy(nobody, api.address, page).await, "{page} of the API");
    }
    assert!(!is_healthy(worker.address(), nobody, "/no-such-page").await);
    worker.kill();
    api.kill();
    assert!(!is_healthy(worker.address(), api.address, "/healthz").await);
    world.finish().await;
}
