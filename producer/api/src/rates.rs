//! How many requests may come in a second: of a token, and of an address that has no good one.
//!
//! A *bucket* holds what is allowed in a second, and fills evenly. Promises that on average no more
//! is taken than the rate: an array counts as many as it has items, and may be larger than a bucket;
//! then what is over is owed, and the next request has to wait for it. Addresses are kept in a table
//! of limited size. Fails with the time after which to come again.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::problem::{Code, Problem};

/// The most addresses that are told apart.
pub const ADDRESSES_MAX: usize = 16_384;

/// Where a request comes from that came by no connection.
const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A bucket of any rate holds what comes in so long.
const FULL: Duration = Duration::from_secs(1);

/// A bucket, by the moment at which it is full again.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    fn full(now: Instant) -> Bucket {
        Bucket { full_at: now }
    }

    /// Takes so many if it has `least`, or owes nothing where that is 0. Otherwise says how long to
    /// wait for that.
    fn take(
        &mut self,
        rate: NonZeroU32,
        least: u32,
        count: u32,
        now: Instant,
    ) -> Result<(), Duration> {
        let missing = self.missing(now);
        let needed = missing + each(rate) * least;
        if needed > FULL {
            return Err(needed - FULL);
        }
        self.full_at = now + missing + each(rate) * count;
        Ok(())
    }

    /// How long it takes to fill.
    fn missing(self, now: Instant) -> Duration {
        self.full_at.saturating_duration_since(now)
    }

    /// How many it has.
    fn left(self, rate: NonZeroU32, now: Instant) -> u32 {
        let left = FULL.saturating_sub(self.missing(now)).as_nanos() / each(rate).as_nanos();
        u32::try_from(left).map_or(rate.get(), |left| left.min(rate.get()))
    }
}

/// How long one takes to come.
fn each(rate: NonZeroU32) -> Duration {
    (FULL / rate.get()).max(Duration::from_nanos(1))
}

/// The rate of a caller.
#[derive(Debug)]
pub struct Rate {
    /// So many in a second.
    pub per_second: NonZeroU32,
    bucket: Mutex<Bucket>,
}

impl Rate {
    /// A rate of which nothing is used yet.
    pub fn new(per_second: NonZeroU32) -> Rate {
        Rate { per_second, bucket: Mutex::new(Bucket::full(Instant::now())) }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// Where none is left.
    pub fn count(&self, now: Instant) -> Result<(), Problem> {
        lock(&self.bucket).take(self.per_second, 1, 1, now).map_err(|wait| self.beyond(wait))
    }

    /// Counts what else a request has than its first item.
    ///
    /// # Errors
    /// Where something is owed already.
    pub fn count_items(&self, more: u32, now: Instant) -> Result<(), Problem> {
        lock(&self.bucket).take(self.per_second, 0, more, now).map_err(|wait| self.beyond(wait))
    }

    /// How many are left, and how long it takes until all of them are there again.
    pub fn left(&self, now: Instant) -> (u32, Duration) {
        let bucket = *lock(&self.bucket);
        (bucket.left(self.per_second, now), bucket.missing(now))
    }

    fn beyond(&self, wait: Duration) -> Problem {
        let rate = self.per_second;
        limited(format!("more than {rate} a second; an array counts as many as it has items"), wait)
    }
}

fn limited(detail: String, wait: Duration) -> Problem {
    Problem { retry_after: Some(wait), ..Problem::new(Code::RateLimited, detail) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

impl Peer {
    /// The address of whoever sends a request; that of a proxy, where there is one.
    pub fn of(parts: &Parts) -> Option<IpAddr> {
        parts.extensions.get::<Peer>().map(|peer| peer.0.to_canonical())
    }
}

/// What counts as one address: all of IPv4, and the half of IPv6 that a provider gives to one
/// customer, who has all addresses in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    V4(u32),
    V6(u64),
}

impl Place {
    fn of(address: IpAddr) -> Place {
        match address.to_canonical() {
            IpAddr::V4(address) => Place::V4(address.to_bits()),
            IpAddr::V6(address) => Place::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// The rates of addresses from which requests without a good token come.
pub struct Strangers {
    rate: Option<NonZeroU32>,
    /// Proxies that are believed when they say from whom a request comes.
    proxies: Vec<IpAddr>,
    table: Mutex<Table>,
}

struct Table {
    of: HashMap<Place, Bucket>,
    /// For all for whom the table has no room.
    others: Bucket,
    /// When those were taken out last that use nothing of their rate.
    swept: Instant,
}

impl Strangers {
    /// Nobody has come yet.
    pub fn new(rate: Option<NonZeroU32>, proxies: &[IpAddr]) -> Strangers {
        let (now, proxies) = (Instant::now(), proxies.iter().map(IpAddr::to_canonical).collect());
        let table = Table { of: HashMap::new(), others: Bucket::full(now), swept: now };
        Strangers { rate, proxies, table: Mutex::new(table) }
    }

    /// Counts a request without a good token.
    ///
    /// # Errors
    /// When its address has sent too many of them.
    pub fn count(&self, request: &Parts, now: Instant) -> Result<(), Problem> {
        let Some(rate) = self.rate else { return Ok(()) };
        // The server notes it with each request.
        let peer = request.extensions.get::<Peer>().map_or(UNKNOWN, |peer| peer.0);
        let place = Place::of(sender(peer, &request.headers, &self.proxies));
        let taken = lock(&self.table).bucket(place, now).take(rate, 1, 1, now);
        taken.map_err(|wait| {
            let problem = format!("more than {rate} requests a second without a good token");
            limited(format!("{problem} from one address"), wait)
        })
    }
}

impl Table {
    fn bucket(&mut self, place: Place, now: Instant) -> &mut Bucket {
        // A bucket is full after a second without a request. So one look each second is enough,
        // and many new addresses cost no more than that.
        if self.of.len() >= ADDRESSES_MAX && now.duration_since(self.swept) >= FULL {
            self.of.retain(|_, bucket| bucket.full_at > now);
            self.swept = now;
        }
        if self.of.len() >= ADDRESSES_MAX && !self.of.contains_key(&place) {
            return &mut self.others;
        }
        self.of.entry(place).or_insert_with(|| Bucket::full(now))
    }
}

/// Who sends a request. A proxy that is believed adds the address of whoever has asked it as the
/// last one of `X-Forwarded-For`; what stands before that was written by others.
fn sender(peer: IpAddr, headers: &HeaderMap, proxies: &[IpAddr]) -> IpAddr {
    let is_proxy = |address: &IpAddr| proxies.contains(&address.to_canonical());
    if !is_proxy(&peer) {
        return peer;
    }
    let values = headers.get_all("x-forwarded-for").iter().rev();
    let texts = values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
    // Before what is no address nothing is believed: then the proxy itself counts.
    let mut said = texts.map_while(|text| text.trim().parse::<IpAddr>().ok());
    said.find(|address| !is_proxy(address)).unwrap_or(peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: u32) -> NonZeroU32 {
        NonZeroU32::new(per_second).expect("above zero")
    }

    fn seconds_until(refused: Result<(), Problem>) -> f64 {
        let problem = refused.expect_err("it is beyond the rate");
        assert_eq!(problem.code, Code::RateLimited);
        problem.retry_after.expect("it says when").as_secs_f64()
    }

    #[test]
    fn an_array_counts_its_items_and_what_is_over_is_owed() {
        let (of_ten, now) = (Rate::new(rate(10)), Instant::now());
        assert!(of_ten.count(now).is_ok() && of_ten.count_items(499, now).is_ok());
        assert_eq!(of_ten.left(now).0, 0);
        let wait = seconds_until(of_ten.count(now));
        assert!((49.0..49.2).contains(&wait), "500 items are 50 s, the bucket had 1 s: {wait}");
        seconds_until(of_ten.count_items(1, now));
        let later = now + Duration::from_secs_f64(wait + 0.01);
        assert!(of_ten.count(later).is_ok() && of_ten.count(later).is_err());
        let one = Rate::new(rate(1));
        let now = Instant::now();
        assert!(
            one.count(now).is_ok() && one.count_items(9, now).is_ok(),
            "also at the least rate"
        );
    }

    #[test]
    fn no_more_than_the_rate_passes_on_average() {
        let (of_three, begin) = (Rate::new(rate(3)), Instant::now());
        let moments = (0..10_000).map(|ms| begin + Duration::from_millis(ms));
        let passed = moments.filter(|now| of_three.count(*now).is_ok()).count();
        assert!((32..=33).contains(&passed), "3 at once, and 3 in each of 10 s: {passed}");
        assert_eq!(of_three.left(begin + Duration::from_secs(60)), (3, Duration::ZERO));
    }

    /// Whether another request from this address passes.
    fn passes(strangers: &Strangers, address: IpAddr, now: Instant) -> bool {
        let (mut parts, ()) = axum::http::Request::new(()).into_parts();
        parts.extensions.insert(Peer(address));
        strangers.count(&parts, now).is_ok()
    }

    #[test]
    fn an_address_is_told_from_others_and_a_customer_s_half_of_ipv6_is_one() {
        let (strangers, now) = (Strangers::new(NonZeroU32::new(1), &[]), Instant::now());
        let of = |text: &str| passes(&strangers, text.parse().expect(text), now);
        assert!(of("192.0.2.1") && of("192.0.2.2") && of("2001:db8::1") && of("2001:db8:0:1::1"));
        assert!(!of("::ffff:192.0.2.1") && !of("2001:db8::ffff:1"));
        let unlimited = Strangers::new(None, &[]);
        assert!((0..1_000).all(|_| passes(&unlimited, UNKNOWN, now)));
    }

    #[test]
    fn very_many_addresses_take_no_more_than_the_table_and_shut_out_nobody_for_long() {
        let (strangers, now) = (Strangers::new(NonZeroU32::new(1), &[]), Instant::now());
        let count = |number: usize, now| {
            passes(&strangers, IpAddr::from((number as u32).to_be_bytes()), now)
        };
        assert!((0..ADDRESSES_MAX).all(|number| count(number, now)));
        assert!(count(ADDRESSES_MAX, now), "those without a place share a bucket");
        assert!(!count(ADDRESSES_MAX + 1, now));
        assert_eq!(lock(&strangers.table).of.len(), ADDRESSES_MAX);
        let later = now + Duration::from_secs(2);
        assert!(count(ADDRESSES_MAX + 1, later));
        assert_eq!(lock(&strangers.table).of.len(), 1, "who uses nothing is forgotten");
    }

    #[test]
    fn only_a_proxy_that_is_named_is_believed_and_only_its_own_word() {
        let proxy: IpAddr = "10.0.0.1".parse().expect("an address");
        let peer: IpAddr = "192.0.2.9".parse().expect("an address");
        for (peer, said, expected) in [
            (peer, &["203.0.113.5"][..], "192.0.2.9"),
            (proxy, &["203.0.113.5"], "203.0.113.5"),
            (proxy, &["1.2.3.4, 203.0.113.5"], "203.0.113.5"),
            (proxy, &["1.2.3.4", "203.0.113.5"], "203.0.113.5"),
            (proxy, &["203.0.113.5, 10.0.0.1"], "203.0.113.5"),
            (proxy, &["203.0.113.5, nonsense"], "10.0.0.1"),
            (proxy, &[], "10.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for value in said {
                headers.append("x-forwarded-for", value.parse().expect("a header"));
            }
            let found = sender(peer, &headers, &[proxy]);
            assert_eq!(found.to_string(), expected, "{peer}: {said:?}");
        }
    }
}
