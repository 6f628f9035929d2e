//! A worker's HTTP side as a test sees it: one request per connection, and Prometheus text.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer of a worker.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Asks once; `None` when nobody answers in time, or not in HTTP.
pub async fn get(address: SocketAddr, path: &str) -> Option<Answer> {
    let asked = tokio::time::timeout(Duration::from_secs(5), ask(address, path)).await;
    let text = asked.ok()?.ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

async fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// The metrics of one worker at one moment.
#[derive(Clone, Debug)]
pub struct Metrics(String);

impl Metrics {
    /// Reads Prometheus text.
    #[must_use]
    pub fn new(text: String) -> Metrics {
        Metrics(text)
    }

    /// The sum of all samples of this name that carry all of these labels; zero when there is none.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.samples(name, labels).sum()
    }

    /// Whether a family of this name is described.
    #[must_use]
    pub fn describes(&self, name: &str) -> bool {
        let line = format!("# TYPE {name} ");
        self.0.lines().any(|found| found.starts_with(&line))
    }

    /// The names of all families.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.0.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
    }

    fn samples(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = f64> {
        let wanted: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        self.0.lines().filter_map(move |line| {
            let (sample, value) = line.rsplit_once(' ')?;
            let (found, carried) = sample.split_once('{').unwrap_or((sample, ""));
            let fits = found == name && wanted.iter().all(|label| carried.contains(label));
            if fits { value.parse().ok() } else { None }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_told_apart_by_name_and_labels() {
        let text = "# HELP a_total x\n# TYPE a_total counter\n\
                    a_total{state=\"done\",k=\"1\"} 3\na_total{state=\"canceled\"} 4\na_totals 9\nb 1.5";
        let metrics = Metrics::new(text.to_owned());
        assert!((metrics.sum("a_total", &[]) - 7.0).abs() < f64::EPSILON);
        assert!((metrics.sum("a_total", &[("state", "done")]) - 3.0).abs() < f64::EPSILON);
        assert!((metrics.sum("b", &[]) - 1.5).abs() < f64::EPSILON);
        assert!(metrics.describes("a_total") && !metrics.describes("a"));
        assert_eq!(metrics.families().collect::<Vec<_>>(), ["a_total"]);
    }
}
