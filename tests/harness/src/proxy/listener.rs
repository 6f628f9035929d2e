//! Accepting connections, and ending all of them at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

/// The state of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weather {
    /// It works.
    Fair,
    /// Every new connection is closed at once.
    Refusing,
    /// Connections stay open, new ones are accepted, and nothing gets through.
    Silent,
    /// Everything gets through, each piece with this delay.
    Slow(Duration),
}

/// The state of the network, and how often all existing connections were abandoned: an abandoned
/// connection stays open, and nothing more gets through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forecast {
    pub(super) weather: Weather,
    pub(super) abandoned: usize,
}

/// The state of the network for one connection.
#[derive(Clone)]
pub(super) struct Outlook {
    forecast: watch::Receiver<Forecast>,
    /// How often connections had been abandoned when this one was made.
    born: usize,
}

impl Outlook {
    pub(super) fn of_new_connection(forecast: watch::Receiver<Forecast>) -> Outlook {
        let born = forecast.borrow().abandoned;
        Outlook { forecast, born }
    }

    /// Waits until a piece may be sent on; `false` if the proxy is gone.
    pub(super) async fn lets_through(&mut self) -> bool {
        let born = self.born;
        let open = |now: &Forecast| now.weather != Weather::Silent && now.abandoned == born;
        let weather = match self.forecast.wait_for(open).await {
            Ok(now) => now.weather,
            Err(_) => return false,
        };
        if let Weather::Slow(wait) = weather {
            tokio::time::sleep(wait).await;
        }
        true
    }
}

/// A port of this machine that forwards to a server, as long as the value lives.
pub(super) struct Listener {
    address: SocketAddr,
    forecast: Arc<watch::Sender<Forecast>>,
    cuts: mpsc::UnboundedSender<()>,
    accepting: JoinHandle<()>,
}

impl Listener {
    /// Forwards every connection by `serve`, which gets the client's and the server's stream.
    pub(super) async fn start<S, F>(upstream: SocketAddr, serve: S) -> Listener
    where
        S: Fn(TcpStream, TcpStream, watch::Receiver<Forecast>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Listener::before_any_of(vec![upstream], serve).await
    }

    /// The same before several servers, like a load balancer: every connection goes to the first
    /// server that accepts it, in the order given.
    pub(super) async fn before_any_of<S, F>(upstream: Vec<SocketAddr>, serve: S) -> Listener
    where
        S: Fn(TcpStream, TcpStream, watch::Receiver<Forecast>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("a bound port has an address");
        let fair = Forecast { weather: Weather::Fair, abandoned: 0 };
        let forecast = Arc::new(watch::Sender::new(fair));
        let (cuts, mut cut) = mpsc::unbounded_channel();
        let current = forecast.clone();
        let accepting = tokio::spawn(async move {
            // Dropped with this task, which ends all connections.
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((client, _)) = accepted else { continue };
                        if current.borrow().weather == Weather::Refusing {
                            continue;
                        }
                        // A server that is away closes the client's connection.
                        let connected = TcpStream::connect(upstream.as_slice()).await;
                        let Ok(server) = connected else { continue };
                        let nodelay = client.set_nodelay(true).and(server.set_nodelay(true));
                        if nodelay.is_ok() {
                            connections.spawn(serve(client, server, current.subscribe()));
                        }
                    }
                    Some(()) = cut.recv() => connections.abort_all(),
                    Some(_ended) = connections.join_next() => {}
                }
            }
        });
        Listener { address, forecast, cuts, accepting }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn turn(&self, weather: Weather) {
        self.forecast.send_modify(|forecast| forecast.weather = weather);
    }

    /// Leaves every connection open and lets nothing more through it; new ones work.
    pub(super) fn abandon(&self) {
        self.forecast.send_modify(|forecast| forecast.abandoned += 1);
    }

    /// Closes every connection.
    pub(super) fn cut(&self) {
        self.cuts.send(()).expect("it accepts as long as this value lives");
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
