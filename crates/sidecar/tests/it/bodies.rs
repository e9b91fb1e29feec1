//! What clients send as a body.

use crate::support::{CHAT, DEADLINE, Stage, Whole};
use anyhow::ensure;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BY_PATH: &str = "tier: Batch\nmatch: [{path: {value: /v1/audio/transcriptions}}]";
const BY_MODEL: &str = "tier: Batch\nmatch: [{model: {value: big}}]";

#[tokio::test]
async fn a_body_that_is_no_json_reaches_the_engine_under_its_class() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[("audio", BY_PATH), ("big", BY_MODEL)]).await?;
    let bodies: [&'static [u8]; 8] = [
        b"",
        b"[]",
        b"null",
        b"\"x\"",
        b"{",
        b"{\"model\":5}",
        b"{\"model\":\"\xff\xfe\"}",
        b"--wrong\r\nmultipart",
    ];
    for (path, class) in [(CHAT, "_default"), ("/v1/audio/transcriptions", "audio")] {
        for body in bodies {
            let sent = stage.send(path, &[], body).await?;
            let call = stage.engine.next(DEADLINE).await?;
            ensure!(call.body == body, "{body:?}");
            call.answer(StatusCode::BAD_REQUEST, "the engine judges");
            let answer = sent.whole().await?;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST);
            assert_eq!(answer.body, "the engine judges");
            assert_eq!(answer.header("x-fairtide-class"), Some(class), "{body:?}");
        }
    }
    let sent = stage.send(CHAT, &[], r#"{"model":"big"}"#).await?;
    stage
        .engine
        .next(DEADLINE)
        .await?
        .answer(StatusCode::OK, "{}");
    assert_eq!(sent.whole().await?.header("x-fairtide-class"), Some("big"));
    Ok(())
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused_and_the_limit_named() -> anyhow::Result<()> {
    let mut stage = Stage::with_body_limit("", &[], 1000).await?;
    for (body, length) in [
        (vec![b'x'; 1001], true),
        (vec![b'x'; 50_000], true),
        (vec![b'x'; 1001], false),
    ] {
        let mut stream = tokio::net::TcpStream::connect(stage.address).await?;
        let framing = match length {
            true => format!("content-length: {}", body.len()),
            false => "transfer-encoding: chunked".to_owned(),
        };
        let head =
            format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{framing}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        if !length {
            stream
                .write_all(format!("{:x}\r\n", body.len()).as_bytes())
                .await?;
        }
        stream.write_all(&body).await?;
        if !length {
            stream.write_all(b"\r\n0\r\n\r\n").await?;
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        assert!(text.starts_with("HTTP/1.1 413 "), "{text}");
        assert!(text.contains("x-fairtide-outcome: too_large"), "{text}");
        assert!(text.contains("x-fairtide-reason: body_limit"), "{text}");
        assert!(text.contains("x-should-retry: false"), "{text}");
        assert!(text.contains("1000 bytes"), "{text}");
        assert!(!text.contains("retry-after"), "{text}");
    }
    stage.outcome("_default", "too_large", 3.0).await?;
    let sent = stage.send(CHAT, &[], vec![b'x'; 1000]).await?;
    stage
        .engine
        .next(DEADLINE)
        .await?
        .answer(StatusCode::OK, "{}");
    assert_eq!(sent.whole().await?.status, StatusCode::OK);
    assert_eq!(stage.engine.total(), 1);
    Ok(())
}

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_not_waited_for() -> anyhow::Result<()> {
    let stage = Stage::with_body_limit("", &[], 1000).await?;
    let mut stream = tokio::net::TcpStream::connect(stage.address).await?;
    // `Expect` means: tell me before I send. No byte of the body ever comes.
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1001\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut start = [0; 12];
    stream.read_exact(&mut start).await?;
    assert_eq!(&start, b"HTTP/1.1 413");
    Ok(())
}

#[tokio::test]
async fn an_upload_that_is_cut_never_becomes_a_request() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    let mut stream = tokio::net::TcpStream::connect(stage.address).await?;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{{\"half\":");
    stream.write_all(head.as_bytes()).await?;
    drop(stream);
    stage.outcome("_default", "cancelled_queued", 1.0).await?;
    assert_eq!(stage.engine.total(), 0);
    // A large body in several pieces arrives whole.
    let body: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut client = stage.client().await?;
    let sending = client.post(CHAT, &[], body.clone());
    let engine = async {
        let call = stage.engine.next(DEADLINE).await?;
        ensure!(call.body == body);
        call.answer(StatusCode::OK, "{}");
        anyhow::Ok(())
    };
    let (answer, engine) = tokio::join!(sending, engine);
    engine?;
    assert_eq!(Whole::of(answer?).await?.status, StatusCode::OK);
    Ok(())
}
