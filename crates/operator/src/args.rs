//! The command line. Each flag also reads a `FAIRTIDE_*` variable.

use crate::{
    run::{Files, Options},
    webhook,
};
use clap::Parser;
use fairtide_api::names;
use fairtide_telemetry::LogFormat;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

/// Reads InferencePools, TrafficClasses and pods, and pushes policies to the sidecars.
#[derive(Debug, Parser)]
#[command(name = "fairtide-operator", version)]
pub struct Args {
    /// Folder of manifests to read in the place of an API server; its changes are followed.
    #[arg(long, env = "FAIRTIDE_MANIFESTS", value_name = "DIR")]
    manifests: Option<PathBuf>,
    /// How to reach the API server. Default: $KUBECONFIG, then the pod's own ServiceAccount.
    #[arg(
        long,
        env = "FAIRTIDE_KUBECONFIG",
        value_name = "FILE",
        conflicts_with = "manifests"
    )]
    kubeconfig: Option<PathBuf>,
    /// Where sidecars connect. [::]:8443 is every address, IPv4 too, also where there is no IPv6.
    #[arg(long, env = "FAIRTIDE_CHANNEL", value_name = "ADDR", value_parser = address)]
    channel: SocketAddr,
    /// Probes and metrics, such as [::]:8080.
    #[arg(long, env = "FAIRTIDE_ADMIN", value_name = "ADDR", value_parser = address)]
    admin: SocketAddr,
    /// The operator's own namespace: of its Lease, and of the Secret with the channel's CA.
    #[arg(
        long,
        env = "FAIRTIDE_NAMESPACE",
        value_name = "NS",
        default_value = names::SYSTEM_NAMESPACE
    )]
    namespace: String,
    /// File with the token that sidecars show. With --manifests only; in a cluster they show
    /// their pod's own.
    #[arg(long, env = "FAIRTIDE_CHANNEL_TOKEN", value_name = "FILE")]
    channel_token: Option<PathBuf>,
    /// Folder for the channel's CA: ca.crt is written there for whoever starts sidecars. With
    /// --manifests the key is kept there too; in a cluster it is in a Secret.
    #[arg(long, env = "FAIRTIDE_CHANNEL_CA_DIR", value_name = "DIR")]
    channel_ca_dir: Option<PathBuf>,
    /// A further DNS name or IP address under which sidecars reach the channel.
    #[arg(
        long,
        env = "FAIRTIDE_CHANNEL_SAN",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = server_name
    )]
    channel_san: Vec<String>,
    /// Where other replicas send sidecars while this one holds the lease. Default: the address of
    /// --channel, where that is a single one. An IP address in brackets may be of either kind.
    #[arg(
        long,
        env = "FAIRTIDE_CHANNEL_ADVERTISE",
        value_name = "URL",
        value_parser = https_url,
        conflicts_with = "manifests"
    )]
    channel_advertise: Option<String>,
    /// Where the API server asks about new pods, such as [::]:9443. Default: no webhook.
    #[arg(
        long,
        env = "FAIRTIDE_WEBHOOK",
        value_name = "ADDR",
        value_parser = address,
        requires = "sidecar_image",
        conflicts_with = "manifests"
    )]
    webhook: Option<SocketAddr>,
    /// Image of the sidecars that the webhook puts into pods, best with a digest.
    #[arg(
        long,
        env = "FAIRTIDE_SIDECAR_IMAGE",
        value_name = "IMAGE",
        requires = "webhook"
    )]
    sidecar_image: Option<String>,
    /// Where those sidecars connect. Default: port 8443 of the operator's Service.
    #[arg(
        long,
        env = "FAIRTIDE_CHANNEL_URL",
        value_name = "URL",
        value_parser = https_url,
        requires = "webhook"
    )]
    channel_url: Option<String>,
    /// Folder with the webhook's tls.crt and tls.key, and ca.crt of who signed it, such as a Secret
    /// of cert-manager. Default: a certificate of the operator's own authority.
    #[arg(
        long,
        env = "FAIRTIDE_WEBHOOK_CERT_DIR",
        value_name = "DIR",
        requires = "webhook"
    )]
    webhook_cert_dir: Option<PathBuf>,
    /// error, warn, info, debug or trace, or target=level,...
    #[arg(
        long,
        env = "FAIRTIDE_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    log_level: String,
    /// auto, json or text.
    #[arg(
        long,
        env = "FAIRTIDE_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "auto"
    )]
    log_format: LogFormat,
}

/// What the command line asks for.
#[derive(Debug)]
pub struct Asked {
    /// What to run, but for the client of the API server.
    pub source: AskedSource,
    /// Everything else.
    pub options: Options,
    /// How much is logged.
    pub log_level: String,
    /// How it is logged.
    pub log_format: LogFormat,
}

/// Where objects come from.
#[derive(Debug)]
pub enum AskedSource {
    /// From files.
    Files(Files),
    /// From the API server of this kubeconfig, or of where we run.
    Cluster(Option<PathBuf>),
}

/// Why the process ends before it begins.
#[derive(Debug, PartialEq, Eq)]
pub enum Exit {
    /// `--help` or `--version`: print this.
    Told(String),
    /// A line that says what to write instead. Exit with 64.
    Usage(String),
}

impl Args {
    /// Reads a command line, its program's name first.
    ///
    /// # Errors
    /// When there is nothing to run.
    pub fn read<I>(line: I) -> Result<Asked, Exit>
    where
        I: IntoIterator,
        I::Item: Into<std::ffi::OsString> + Clone,
    {
        Self::try_parse_from(line)
            .map_err(|error| match error.use_stderr() {
                true => Exit::Usage(one_line(&error.to_string())),
                false => Exit::Told(error.to_string()),
            })?
            .check()
            .map_err(Exit::Usage)
    }

    fn check(self) -> Result<Asked, String> {
        let source = match self.manifests {
            Some(dir) => {
                let token_file = self.channel_token.ok_or(
                    "--manifests needs --channel-token FILE: a file with the token that sidecars show",
                )?;
                let ca_dir = self.channel_ca_dir.clone().ok_or(
                    "--manifests needs --channel-ca-dir DIR: a folder for the channel's CA",
                )?;
                AskedSource::Files(Files {
                    dir,
                    token_file,
                    ca_dir,
                })
            }
            None if self.channel_token.is_some() => {
                return Err(
                    "--channel-token is for --manifests; in a cluster sidecars show their pod's token, so leave it out"
                        .to_owned(),
                );
            }
            None => AskedSource::Cluster(self.kubeconfig),
        };
        let webhook = self.webhook.zip(self.sidecar_image);
        let webhook = webhook.map(|(listen, sidecar_image)| webhook::Options {
            listen,
            sidecar_image,
            channel_url: self.channel_url,
            cert_dir: self.webhook_cert_dir,
        });
        Ok(Asked {
            source,
            options: Options {
                channel: self.channel,
                admin: self.admin,
                namespace: self.namespace,
                ca_copy: self.channel_ca_dir,
                names: self.channel_san,
                advertise: self.channel_advertise,
                host: host_name(),
                lease: crate::lease::Timings::default(),
                timings: Default::default(),
                clock: Default::default(),
                webhook,
            },
            log_level: self.log_level,
            log_format: self.log_format,
        })
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "write an IP address and a port, such as [::]:8443".to_owned())
}

fn https_url(text: &str) -> Result<String, String> {
    let text = without_idle_brackets(text);
    let url: http::Uri = text
        .parse()
        .map_err(|_| "write https://HOST:PORT".to_owned())?;
    let whole = url.scheme_str() == Some("https") && url.authority().is_some() && url.path() == "/";
    match whole {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("write https://HOST:PORT, without a path".to_owned()),
    }
}

/// A pod is told its address without brackets, so a manifest for both kinds of cluster writes
/// `[$(POD_IP)]`. Around IPv4 they are taken away.
fn without_idle_brackets(url: &str) -> String {
    let host = url
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    match host {
        Some((host, _)) if host.parse::<Ipv4Addr>().is_ok() => url.replace(['[', ']'], ""),
        _ => url.to_owned(),
    }
}

fn server_name(text: &str) -> Result<String, String> {
    let name = text.trim();
    match rustls_pki_types::ServerName::try_from(name) {
        Ok(_) => Ok(name.to_owned()),
        Err(_) => Err("write a DNS name or an IP address, without a port".to_owned()),
    }
}

/// In a pod, its name.
fn host_name() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "operator".to_owned())
}

/// The first paragraph of clap's message, on one line.
fn one_line(message: &str) -> String {
    let first = message.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: [&str; 5] = [
        "fairtide-operator",
        "--channel",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];

    fn read(more: &[&str]) -> Result<Asked, Exit> {
        Args::read(BASE.iter().chain(more))
    }

    fn usage(line: &[&str]) -> String {
        match Args::read(line) {
            Err(Exit::Usage(text)) => text,
            other => panic!("not a usage error: {other:?}"),
        }
    }

    #[test]
    fn a_bad_value_is_answered_with_one_line_that_says_what_to_write() {
        let text = usage(&["x", "--channel", "8443", "--admin", "127.0.0.1:0"]);
        assert!(
            text.contains("--channel") && text.contains("[::]:8443"),
            "{text}"
        );
        assert!(!text.contains('\n'), "{text}");
        let text = usage(&["x", "--admin", "127.0.0.1:0"]);
        assert!(text.contains("--channel"), "{text}");
        for url in [
            "http://a:1",
            "a:1",
            "https://a/path",
            "https://",
            "https://fd00::5:1",
        ] {
            let mut line = BASE.to_vec();
            line.extend(["--channel-advertise", url]);
            let text = usage(&line);
            assert!(text.contains("https://HOST:PORT"), "{text}");
        }
    }

    #[test]
    fn a_pods_address_in_brackets_may_be_of_either_kind() {
        for (written, meant) in [
            ("https://[10.0.0.5]:8443", "https://10.0.0.5:8443"),
            ("https://[fd00::5]:8443", "https://[fd00::5]:8443"),
            (
                "https://operator-0.operator:8443/",
                "https://operator-0.operator:8443",
            ),
        ] {
            let asked = read(&["--channel-advertise", written]).unwrap();
            assert_eq!(asked.options.advertise.as_deref(), Some(meant));
        }
    }

    #[test]
    fn files_need_a_token_and_a_place_for_the_ca() {
        let without = |error| match error {
            Err(Exit::Usage(text)) => text,
            other => panic!("not a usage error: {other:?}"),
        };
        assert!(without(read(&["--manifests", "d"])).contains("--channel-token FILE"));
        let line = ["--manifests", "d", "--channel-token", "t"];
        assert!(without(read(&line)).contains("--channel-ca-dir DIR"));
        let line = [
            "--manifests",
            "d",
            "--channel-token",
            "t",
            "--channel-ca-dir",
            "c",
        ];
        assert!(read(&line).is_ok());
        assert!(without(read(&["--channel-token", "t"])).contains("--manifests"));
    }

    #[test]
    fn a_webhooks_certificate_needs_a_webhook() {
        let Err(Exit::Usage(text)) = read(&["--webhook-cert-dir", "d"]) else {
            panic!("not refused");
        };
        assert!(text.contains("--webhook"), "{text}");
        let line = [
            "--webhook",
            "127.0.0.1:0",
            "--sidecar-image",
            "i",
            "--webhook-cert-dir",
            "d",
        ];
        let webhook = read(&line).unwrap().options.webhook.unwrap();
        assert_eq!(webhook.cert_dir, Some(PathBuf::from("d")));
    }

    #[test]
    fn names_are_listed_or_repeated() {
        let asked = read(&["--channel-san", "a,b", "--channel-san", "10.0.0.1"]).unwrap();
        assert_eq!(asked.options.names, ["a", "b", "10.0.0.1"]);
        let refused = read(&["--channel-san", "a,https://b"]);
        let Err(Exit::Usage(text)) = &refused else {
            panic!("not a usage error: {refused:?}");
        };
        assert!(text.contains("without a port"), "{text}");
    }

    #[test]
    fn help_is_no_error() {
        assert!(matches!(read(&["--help"]), Err(Exit::Told(_))));
    }
}
