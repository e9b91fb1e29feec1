//! An engine on a free port, and just enough HTTP to talk to it by hand.

use fairtide_sim::{
    engine::{Imitated, Options, serve},
    model::{Profile, SchedulingPolicy},
};
use std::{future::Future, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Generous: only a test that fails waits as long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running engine; it stops when this is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub stop: CancellationToken,
    _stop: DropGuard,
}

/// The profile of most tests, with other numbers.
pub fn small(change: impl FnOnce(&mut Profile)) -> Profile {
    let mut profile = Profile::named("small").unwrap();
    change(&mut profile);
    profile
}

/// One request at a time, 20 ms a token: slow enough that nothing ends while a test looks.
pub fn slow() -> Profile {
    small(|profile| {
        profile.max_num_seqs = 1;
        profile.step.base_us = 20_000.0;
    })
}

pub async fn start(profile: Profile, policy: SchedulingPolicy) -> Running {
    start_as(profile, policy, Imitated::default(), None).await
}

/// An engine with the face of another, and room for so many requests.
pub async fn start_as(
    profile: Profile,
    policy: SchedulingPolicy,
    imitated: Imitated,
    most_requests: Option<usize>,
) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = Options {
        profile,
        policy,
        model: "sim".to_owned(),
        imitated,
        most_requests,
    };
    let engine = Running::at(address);
    tokio::spawn(serve(listener, options, engine.stop.clone()));
    engine
}

pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let Ok(done) = tokio::time::timeout(PATIENCE, future).await else {
        panic!("{what}: not within {PATIENCE:?}");
    };
    done
}

/// An answer, its chunks joined.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The events of a stream, `[DONE]` as a string.
    pub fn events(&self) -> Vec<serde_json::Value> {
        let events = self.body.split("\n\n").filter(|event| !event.is_empty());
        events
            .map(|event| {
                let data = event.strip_prefix("data: ").unwrap();
                serde_json::from_str(data).unwrap_or_else(|_| data.into())
            })
            .collect()
    }
}

impl Running {
    /// Something that serves there; `stop` tells it to go.
    pub fn at(address: SocketAddr) -> Self {
        let stop = CancellationToken::new();
        Self {
            address,
            _stop: stop.clone().drop_guard(),
            stop,
        }
    }

    /// Sends a request and leaves the answer to be read.
    pub async fn send(&self, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let method = if body.is_empty() { "GET" } else { "POST" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    pub async fn ask(&self, path: &str, headers: &str, body: &str) -> Answer {
        let stream = self.send(path, headers, body).await;
        read(stream).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(path, "", "").await
    }

    /// The value of a series of the metrics page.
    pub async fn metric(&self, series: &str) -> f64 {
        let page = self.get("/metrics").await.body;
        let line = page.lines().find_map(|line| line.strip_prefix(series));
        let line = line.unwrap_or_else(|| panic!("no {series} in {page}"));
        let (_, value) = line.rsplit_once(' ').unwrap();
        value.parse().unwrap()
    }

    pub async fn until_metric(&self, series: &str, wanted: f64) {
        let reached = async {
            while self.metric(series).await != wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        in_time(&format!("{series} {wanted}"), reached).await;
    }
}

/// Reads on until what was read contains `needle`.
pub async fn read_until(stream: &mut TcpStream, needle: &str) -> String {
    let mut text = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&text).contains(needle) {
            assert_ne!(stream.read_buf(&mut text).await.unwrap(), 0, "it ended");
        }
    };
    in_time(needle, read).await;
    String::from_utf8(text).unwrap()
}

/// Reads an answer to its end.
pub async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    in_time("the answer", stream.read_to_end(&mut bytes))
        .await
        .unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("there is a head");
    let body = if head.contains("transfer-encoding: chunked") {
        unchunked(body)
    } else {
        body.to_owned()
    };
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body,
    }
}

fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").expect("a chunk's size");
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return text;
        }
        text.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").expect("a chunk's end");
    }
}
