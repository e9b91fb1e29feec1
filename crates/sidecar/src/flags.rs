//! Command line and environment. Each flag also reads a variable of its name.

use crate::{
    run::Config,
    source::{PolicySource, channel::ChannelConfig},
};
use clap::{Parser, error::ErrorKind};
use fairtide_resolve::ObjectKey;
use fairtide_telemetry::LogFormat;
use http::{Uri, uri::Authority};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// Admission sidecar of one LLM engine: queues, orders and limits what reaches it.
#[derive(Clone, Debug, Parser)]
#[command(name = "fairtide-sidecar", version)]
pub struct Flags {
    /// Address to take traffic on; may be given several times
    #[arg(
        long,
        env = "FAIRTIDE_LISTEN",
        value_name = "ADDR",
        required = true,
        value_delimiter = ','
    )]
    pub listen: Vec<SocketAddr>,

    /// Where the engine listens
    #[arg(long, env = "FAIRTIDE_UPSTREAM", value_name = "HOST:PORT", value_parser = authority)]
    pub upstream: Authority,

    /// Address of probes, metrics and debug pages
    #[arg(long, env = "FAIRTIDE_ADMIN", value_name = "ADDR")]
    pub admin: SocketAddr,

    /// Folder of InferencePool and TrafficClass YAML to obey; its changes are followed
    #[arg(
        long,
        env = "FAIRTIDE_MANIFESTS",
        value_name = "DIR",
        requires = "pool"
    )]
    pub manifests: Option<PathBuf>,

    /// The pool in the manifests to obey
    #[arg(long, env = "FAIRTIDE_POOL", value_name = "NAMESPACE/NAME", value_parser = key)]
    pub pool: Option<ObjectKey>,

    /// The operator whose policies to obey
    #[arg(long, env = "FAIRTIDE_CHANNEL", value_name = "https://HOST:PORT", value_parser = url,
          conflicts_with_all = ["manifests", "pool"],
          requires_all = ["channel_ca", "channel_token", "pod"])]
    pub channel: Option<Uri>,

    /// PEM file of the CA that signs the operator's certificate
    #[arg(
        long,
        env = "FAIRTIDE_CHANNEL_CA",
        value_name = "FILE",
        requires = "channel"
    )]
    pub channel_ca: Option<PathBuf>,

    /// File with the token that says which pod this is
    #[arg(
        long,
        env = "FAIRTIDE_CHANNEL_TOKEN",
        value_name = "FILE",
        requires = "channel"
    )]
    pub channel_token: Option<PathBuf>,

    /// The pod that this sidecar is in
    #[arg(long, env = "FAIRTIDE_POD", value_name = "NAMESPACE/NAME", value_parser = key,
          requires = "channel")]
    pub pod: Option<ObjectKey>,

    /// Folder in which the operator's last policy is kept across restarts
    #[arg(
        long,
        env = "FAIRTIDE_STATE_DIR",
        value_name = "DIR",
        requires = "channel"
    )]
    pub state_dir: Option<PathBuf>,

    /// Largest request body that is taken, in bytes
    #[arg(long, env = "FAIRTIDE_MAX_BODY_BYTES", value_name = "BYTES", default_value_t = 64 << 20,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub max_body_bytes: u64,

    /// How long running and queued requests may take to end after SIGTERM
    #[arg(
        long,
        env = "FAIRTIDE_DRAIN_SECONDS",
        value_name = "SECONDS",
        default_value_t = 30
    )]
    pub drain_seconds: u64,

    /// error, warn, info, debug or trace; or target=level,...
    #[arg(
        long,
        env = "FAIRTIDE_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    pub log_level: String,

    /// auto, json or text
    #[arg(
        long,
        env = "FAIRTIDE_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "auto"
    )]
    pub log_format: LogFormat,
}

/// What is wrong with the command line, in one line that says what to write.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// To run.
    Run(Box<Flags>),
    /// Only for a text: help or version.
    Text(String),
}

// === impl Flags ===

impl Flags {
    /// Reads a command line; the first of `args` is the program's own name.
    ///
    /// # Errors
    /// What can't be understood.
    pub fn read(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Asked, UsageError> {
        match Self::try_parse_from(args) {
            Ok(flags) => Ok(Asked::Run(Box::new(flags))),
            Err(error) => match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    Ok(Asked::Text(error.render().to_string()))
                }
                _ => Err(UsageError(one_line(&error.render().to_string()))),
            },
        }
    }

    /// What to run.
    ///
    /// # Errors
    /// Flags that don't go together.
    pub fn config(&self) -> Result<Config, UsageError> {
        let source = self.source().ok_or_else(|| {
            let text = "where are the policies? write --manifests DIR --pool NAMESPACE/NAME, or \
                        --channel URL --channel-ca FILE --channel-token FILE --pod NAMESPACE/NAME";
            UsageError(text.to_owned())
        })?;
        Ok(Config {
            listen: self.listen.clone(),
            upstream: self.upstream.clone(),
            admin: self.admin,
            source,
            max_body_bytes: self.max_body_bytes,
            drain: Duration::from_secs(self.drain_seconds),
        })
    }

    fn source(&self) -> Option<PolicySource> {
        if let Some(url) = &self.channel {
            return Some(PolicySource::Channel(ChannelConfig {
                url: url.clone(),
                ca: self.channel_ca.clone()?,
                token: self.channel_token.clone()?,
                pod: self.pod.clone()?,
                state: self.state_dir.clone(),
            }));
        }
        Some(PolicySource::Manifests {
            folder: self.manifests.clone()?,
            pool: self.pool.clone()?,
        })
    }
}

/// What the parser says over several lines, without its usage lines.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let line = lines.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

fn authority(text: &str) -> Result<Authority, String> {
    let wanted = || "write HOST:PORT, such as 127.0.0.1:8001".to_owned();
    let plain = text.strip_prefix("http://").unwrap_or(text);
    let authority: Authority = plain.trim_end_matches('/').parse().map_err(|_| wanted())?;
    if authority.port().is_none() || authority.host().is_empty() || plain.contains('@') {
        return Err(wanted());
    }
    Ok(authority)
}

fn url(text: &str) -> Result<Uri, String> {
    let wanted = || "write https://HOST:PORT".to_owned();
    let url: Uri = text.parse().map_err(|_| wanted())?;
    let plain = url.path_and_query().is_none_or(|path| path.as_str() == "/");
    if url.scheme_str() != Some("https") || url.host().is_none_or(str::is_empty) || !plain {
        return Err(wanted());
    }
    Ok(url)
}

fn key(text: &str) -> Result<ObjectKey, String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(ObjectKey::new(namespace, name))
        }
        _ => Err("write NAMESPACE/NAME".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[&str] = &[
        "--listen=127.0.0.1:8000",
        "--upstream=localhost:8001",
        "--admin=127.0.0.1:9000",
        "--manifests=policies",
        "--pool=chat/llama",
    ];

    fn read(args: &[&str]) -> Result<Asked, UsageError> {
        let args = std::iter::once("fairtide-sidecar").chain(args.iter().copied());
        Flags::read(args.map(Into::into))
    }

    fn error(change: &str) -> String {
        let name = change.split('=').next().unwrap_or_default();
        let mut args: Vec<&str> = GOOD.to_vec();
        args.retain(|arg| !arg.starts_with(name));
        if change.contains('=') {
            args.push(change);
        }
        let error = match read(&args) {
            Ok(Asked::Run(flags)) => flags.config().map(|_| ()).expect_err(change),
            Ok(Asked::Text(text)) => panic!("{text}"),
            Err(error) => error,
        };
        error.to_string()
    }

    #[test]
    fn a_good_command_line_is_understood() {
        let Ok(Asked::Run(flags)) = read(GOOD) else {
            panic!("not understood");
        };
        let config = flags.config().expect("a configuration");
        assert_eq!(config.max_body_bytes, 64 << 20);
        assert_eq!(config.drain, Duration::from_secs(30));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (change, says) in [
            ("--listen=8000", "--listen"),
            ("--listen", "--listen"),
            ("--upstream=8001", "HOST:PORT"),
            ("--upstream=http://u:p@h:1", "HOST:PORT"),
            ("--pool=llama", "NAMESPACE/NAME"),
            ("--pool", "--pool"),
            ("--manifests", "--manifests"),
            ("--channel=https://h:1", "--manifests"),
            ("--state-dir=d", "--channel"),
            ("--max-body-bytes=0", "--max-body-bytes"),
            ("--drain-seconds=soon", "--drain-seconds"),
            ("--log-format=xml", "json"),
            ("--colour=red", "--colour"),
        ] {
            let error = error(change);
            assert!(error.contains(says), "{change}: {error}");
            assert!(!error.contains('\n'), "{change}: {error}");
        }
    }

    #[test]
    fn a_channel_needs_its_files_and_its_pod() {
        let base = &GOOD[..3];
        let channel = [
            "--channel=https://op:1",
            "--channel-ca=ca",
            "--channel-token=t",
            "--pod=chat/llama-0",
        ];
        let all: Vec<&str> = base.iter().chain(&channel).copied().collect();
        let Ok(Asked::Run(flags)) = read(&all) else {
            panic!("not understood");
        };
        let config = flags.config().expect("a configuration");
        assert!(matches!(config.source, PolicySource::Channel(_)));
        for left_out in &channel[1..] {
            let some: Vec<&str> = all.iter().filter(|arg| *arg != left_out).copied().collect();
            let error = read(&some).expect_err(left_out).to_string();
            let name = left_out.split('=').next().unwrap_or_default();
            assert!(error.contains(name), "{left_out}: {error}");
        }
        for wrong in ["http://op:1", "op:1", "https://op:1/path", "https://"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_upstream_may_be_written_as_a_url() {
        assert_eq!(
            authority("http://[::1]:8001/").expect("one").as_str(),
            "[::1]:8001"
        );
    }
}
