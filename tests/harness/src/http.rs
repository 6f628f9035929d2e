//! HTTP as a test speaks it: one request per connection; and Prometheus text.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// A header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).next()
    }

    /// All headers of this name.
    pub fn headers<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.head.lines().filter_map(move |line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The same answer.
    ///
    /// # Panics
    /// When the status is another one.
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// Asks once; `None` when nobody answers in time, or not in HTTP.
pub async fn get(address: SocketAddr, path: &str) -> Option<Answer> {
    send(address, "GET", path, &[], "", Duration::from_secs(5)).await
}

/// Sends a request; `None` when nobody answers in time, or not in HTTP.
pub async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
    limit: Duration,
) -> Option<Answer> {
    let request = request(address, (method, path), headers, body);
    let text = tokio::time::timeout(limit, ask(address, request)).await.ok()?.ok()?;
    parsed(&text)
}

/// Reads until there is enough of the body, and gives the rest of the answer up. An answer without
/// success is read to its end. `None` when nobody answers in time, or not in HTTP.
pub async fn get_until(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    limit: Duration,
    is_enough: impl Fn(&str) -> bool,
) -> Option<Answer> {
    let reading = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request = request(address, ("GET", path), headers, "");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut bytes = Vec::new();
        loop {
            let read = stream.read_buf(&mut bytes).await.ok()?;
            let answer = parsed(&String::from_utf8_lossy(&bytes));
            let is_over = |answer: &Answer| answer.status == 200 && is_enough(&answer.body);
            if read == 0 || answer.as_ref().is_some_and(is_over) {
                return answer;
            }
        }
    };
    tokio::time::timeout(limit, reading).await.ok()?
}

fn request(
    address: SocketAddr,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    let host = address.to_string();
    let length = body.len().to_string();
    let own = [("Host", host.as_str()), ("Content-Length", length.as_str())];
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let given = |name: &str| headers.iter().any(|(of, _)| of.eq_ignore_ascii_case(name));
    for (name, value) in own.into_iter().filter(|(name, _)| !given(name)) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{head}\r\n{body}")
}

/// An answer, as much of it as there is; `None` before its head is there.
fn parsed(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut answer = Answer { status, head: head.to_owned(), body: body.to_owned() };
    if answer.header("Transfer-Encoding") == Some("chunked") {
        answer.body = joined(&answer.body);
    }
    Some(answer)
}

/// The content of a body in chunks, each after a line with its length in bytes.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or(0);
        let Some(chunk) = rest.get(..length).filter(|chunk| !chunk.is_empty()) else { break };
        body.push_str(chunk);
        chunks = rest[length..].trim_start_matches("\r\n");
    }
    body
}

async fn ask(address: SocketAddr, request: String) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    // A server may answer before it has read everything.
    drop(stream.write_all(request.as_bytes()).await);
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes).await {
        Err(error) if bytes.is_empty() => return Err(error),
        // It cuts off who still sends when its answer is out.
        Ok(_) | Err(_) => {}
    }
    String::from_utf8(bytes).map_err(std::io::Error::other)
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
    fn a_body_in_chunks_is_joined() {
        assert_eq!(joined("3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"), "abc0123456789");
    }

    #[tokio::test]
    async fn an_answer_without_an_end_is_given_up_when_there_is_enough_of_it() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("somebody asks");
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await.expect("it reads");
            while stream.write_all(b"4\r\nrow\n\r\n").await.is_ok() {}
        });
        let is_enough = |body: &str| body.matches('\n').count() >= 2;
        let limit = Duration::from_secs(30);
        let answer = get_until(address, "/rows", &[], limit, is_enough).await.expect("an answer");
        assert!(answer.body.starts_with("row\nrow\n"), "{answer:?}");
        serving.await.expect("the connection is given up");
    }

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
