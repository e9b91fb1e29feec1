//! Command line and environment. Each flag also reads a variable of its name.

use crate::{
    EngineAddress, Marker,
    lifecycle::DrainPlan,
    pod,
    run::{Config, Port},
    source::{
        PolicySource,
        channel::{Authorities, ChannelConfig},
    },
};
use clap::{Parser, error::ErrorKind};
use fairtide_policy::bootstrap::{Bootstrap, Checks};
use fairtide_resolve::ObjectKey;
use fairtide_telemetry::LogFormat;
use http::Uri;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// Admission sidecar of one LLM engine: queues, orders and limits what reaches it
///
/// In a pod that it was injected into, all comes from FAIRTIDE_BOOTSTRAP, and only the flags of
/// logs and --max-body-bytes are taken. `fairtide-sidecar mark-terminating [--state-dir DIR]` is
/// that pod's hook: it tells the running sidecar that the pod is going away.
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

    /// Where the engine listens (HOST:PORT or unix:/PATH); as many as --listen, in their order
    #[arg(
        long,
        env = "FAIRTIDE_UPSTREAM",
        value_name = "HOST:PORT",
        required = true,
        value_delimiter = ','
    )]
    pub upstream: Vec<EngineAddress>,

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

    /// File with the mode of this one pod (Enforce or Bypass); its changes are followed
    #[arg(long, env = "FAIRTIDE_MODE_FILE", value_name = "FILE")]
    pub mode_file: Option<PathBuf>,

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

/// What may be said beside FAIRTIDE_BOOTSTRAP.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "fairtide-sidecar",
    version,
    about = "Admission sidecar, as injected into a pod"
)]
pub struct PodFlags {
    /// Largest request body that is taken, in bytes
    #[arg(long, env = "FAIRTIDE_MAX_BODY_BYTES", value_name = "BYTES", default_value_t = 64 << 20,
          value_parser = clap::value_parser!(u64).range(1..))]
    max_body_bytes: u64,

    /// error, warn, info, debug or trace; or target=level,...
    #[arg(
        long,
        env = "FAIRTIDE_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    log_level: String,

    /// auto, json or text
    #[arg(
        long,
        env = "FAIRTIDE_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "auto"
    )]
    log_format: LogFormat,
}

/// The hook.
#[derive(Clone, Debug, Parser)]
#[command(name = "fairtide-sidecar mark-terminating")]
struct MarkFlags {
    /// The sidecar's state folder; in a pod it comes from FAIRTIDE_BOOTSTRAP
    #[arg(long, env = "FAIRTIDE_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

/// What is wrong with the command line, in one line that says what to write.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub(crate) String);

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// To run.
    Run(Box<Run>),
    /// To tell the running sidecar that the pod is going away.
    Mark(Marker),
    /// Only for a text: help or version.
    Text(String),
}

/// What to run, and how to log.
#[derive(Clone, Debug)]
pub struct Run {
    /// What to run.
    pub config: Config,
    /// Which lines are logged.
    pub log_level: String,
    /// How.
    pub log_format: LogFormat,
    /// What this process is.
    pub role: Role,
}

/// Which of the sidecar's processes this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The only one.
    Alone,
    /// The first in its container, which keeps the listeners open and a worker alive.
    Supervisor,
    /// The one that serves, on the supervisor's listeners.
    Worker,
}

/// The hook's name.
const MARK: &str = "mark-terminating";

/// Where the kubelet reads why a container ended. Nothing is written where there is no such file.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Tells the kubelet why this process ends at once. It shows that in the pod's status.
pub fn report_to_kubelet(text: &str) {
    report_to(TERMINATION_LOG.as_ref(), text);
}

fn report_to(file: &std::path::Path, text: &str) {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(file);
    // Without it the kubelet reads the log.
    if let Ok(mut file) = file {
        let _ = std::io::Write::write_all(&mut file, text.as_bytes());
    }
}

/// Reads flags of any kind; `Ok(Err(text))` is help or version.
fn parse<F: Parser>(
    args: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Result<F, String>, UsageError> {
    match F::try_parse_from(args) {
        Ok(flags) => Ok(Ok(flags)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Ok(Err(error.render().to_string()))
            }
            _ => Err(UsageError(one_line(&error.render().to_string()))),
        },
    }
}

// === impl Flags ===

impl Flags {
    /// Reads a command line and, in a pod, its environment.
    ///
    /// # Errors
    /// What can't be understood.
    pub fn ask(
        args: impl IntoIterator<Item = std::ffi::OsString>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Asked, UsageError> {
        let args: Vec<_> = args.into_iter().collect();
        let bootstrap = pod::bootstrap(&variable);
        if args.get(1).is_some_and(|arg| arg == MARK) {
            return mark(args, bootstrap);
        }
        let Some(bootstrap) = bootstrap else {
            return Self::read(args);
        };
        let flags = match parse::<PodFlags>(args)? {
            Ok(flags) => flags,
            Err(text) => return Ok(Asked::Text(text)),
        };
        Ok(Asked::Run(Box::new(Run {
            config: pod::config(bootstrap?, &variable, flags.max_body_bytes)?,
            log_level: flags.log_level,
            log_format: flags.log_format,
            role: match variable(pod::WORKER) {
                Some(_) => Role::Worker,
                None => Role::Supervisor,
            },
        })))
    }

    /// Reads a command line; the first of `args` is the program's own name.
    ///
    /// # Errors
    /// What can't be understood.
    pub fn read(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Asked, UsageError> {
        match parse::<Self>(args)? {
            Ok(flags) => Ok(Asked::Run(Box::new(Run {
                config: flags.config()?,
                log_level: flags.log_level,
                log_format: flags.log_format,
                role: Role::Alone,
            }))),
            Err(text) => Ok(Asked::Text(text)),
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
        if self.listen.len() != self.upstream.len() && self.upstream.len() != 1 {
            let text = "write one --upstream for all, or one for each --listen, in their order";
            return Err(UsageError(text.to_owned()));
        }
        let upstreams = self.upstream.iter().cycle();
        let ports = self.listen.iter().zip(upstreams);
        Ok(Config {
            ports: ports
                .map(|(&listen, upstream)| Port {
                    listen,
                    upstream: upstream.clone(),
                })
                .collect(),
            admin: self.admin,
            source,
            max_body_bytes: self.max_body_bytes,
            drain: DrainPlan::at_once(Duration::from_secs(self.drain_seconds)),
            engine: None,
            checks: Checks::default(),
            host_network: false,
            state_folder: self.state_dir.clone(),
            mode_file: self.mode_file.clone(),
            pod_ips: Vec::new(),
            restarts: 0,
        })
    }

    fn source(&self) -> Option<PolicySource> {
        if let Some(url) = &self.channel {
            return Some(PolicySource::Channel(ChannelConfig {
                url: url.clone(),
                ca: Authorities::File(self.channel_ca.clone()?),
                token: self.channel_token.clone()?,
                pod: self.pod.clone()?,
                state: self.state_dir.clone(),
                first: None,
            }));
        }
        Some(PolicySource::Manifests {
            folder: self.manifests.clone()?,
            pool: self.pool.clone()?,
        })
    }
}

fn mark(
    args: Vec<std::ffi::OsString>,
    bootstrap: Option<Result<Bootstrap, UsageError>>,
) -> Result<Asked, UsageError> {
    let flags = match parse::<MarkFlags>(args.into_iter().skip(1))? {
        Ok(flags) => flags,
        Err(text) => return Ok(Asked::Text(text)),
    };
    let folder = match (flags.state_dir, bootstrap) {
        (Some(folder), _) => folder,
        (None, Some(bootstrap)) => bootstrap?.state_folder.into(),
        (None, None) => {
            let text =
                "where is the sidecar's state folder? write mark-terminating --state-dir DIR";
            return Err(UsageError(text.to_owned()));
        }
    };
    Ok(Asked::Mark(Marker::new(folder)))
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

pub(crate) fn url(text: &str) -> Result<Uri, String> {
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
            Err(error) => error,
            Ok(asked) => panic!("{change}: {asked:?}"),
        };
        error.to_string()
    }

    #[test]
    fn a_good_command_line_is_understood() {
        let Ok(Asked::Run(run)) = read(GOOD) else {
            panic!("not understood");
        };
        assert_eq!(run.config.max_body_bytes, 64 << 20);
        assert_eq!(run.config.drain.time(), Duration::from_secs(30));
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
        let Ok(Asked::Run(run)) = read(&all) else {
            panic!("not understood");
        };
        assert!(matches!(run.config.source, PolicySource::Channel(_)));
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
    fn the_hook_finds_the_state_folder_in_the_pods_environment() {
        let args = || ["fairtide-sidecar", "mark-terminating"].map(Into::into);
        let asked = Flags::ask(args(), |_| None);
        let error = asked.map(|_| ()).expect_err("no folder").to_string();
        assert!(error.contains("--state-dir"), "{error}");
        let text = r#"{"v":1,"listeners":[],"admin":"a","checks":{},"stateFolder":"/s","modeFile":"m",
            "drain":{"graceSeconds":1,"lameDuckSeconds":1,"engineStopSeconds":1},
            "channel":{"url":"u","caPem":"","tokenFile":"t"}}"#;
        let variable = |name: &str| (name == pod::BOOTSTRAP).then(|| text.to_owned());
        let asked = Flags::ask(args(), variable).expect("a folder");
        assert!(format!("{asked:?}").contains("/s"), "{asked:?}");
    }

    #[test]
    fn several_ports_have_their_own_upstreams_or_one() {
        let mut args: Vec<&str> = GOOD.to_vec();
        args.push("--listen=127.0.0.1:8002");
        assert!(matches!(read(&args), Ok(Asked::Run(run)) if run.config.ports.len() == 2));
        args.push("--upstream=unix:/run/engine.sock");
        assert!(matches!(read(&args), Ok(Asked::Run(run)) if run.config.ports.len() == 2));
        args.push("--upstream=localhost:1");
        let error = read(&args).map(|_| ()).expect_err("three").to_string();
        assert!(error.contains("--upstream"), "{error}");
    }

    #[test]
    fn the_kubelet_is_told_where_it_listens() {
        let file = std::env::temp_dir().join(format!("fairtide-why-{}", std::process::id()));
        report_to(&file, "x");
        assert!(!file.exists(), "none is made");
        std::fs::write(&file, "older and longer").expect("a file");
        report_to(&file, "why");
        assert_eq!(std::fs::read_to_string(&file).expect("text"), "why");
        std::fs::remove_file(file).expect("removed");
    }
}
