//! What the sidecar is told in its environment when it was injected into a pod.

use crate::{
    DrainPlan,
    dial::EngineAddress,
    flags::UsageError,
    run::{Config, Port},
    source::{
        PolicySource,
        channel::{Authorities, ChannelConfig},
    },
};
use fairtide_policy::{Policy, bootstrap::Bootstrap};
use fairtide_resolve::ObjectKey;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// The variable that holds the document.
pub(crate) const BOOTSTRAP: &str = "FAIRTIDE_BOOTSTRAP";
/// Set by the supervisor for its worker: how many there were before.
pub(crate) const WORKER: &str = "FAIRTIDE_WORKER";
const POD: &str = "FAIRTIDE_POD";
const POD_IPS: &str = "FAIRTIDE_POD_IPS";

/// The version of the document that is understood.
const VERSION: u32 = 1;

/// What is kept back beside the engine's own time to stop, for answers on their way.
const AIR: Duration = Duration::from_secs(2);

/// Reads the variables that the kubelet filled in. `None`: there is no document, so the sidecar
/// wasn't injected.
pub(crate) fn bootstrap(
    variable: impl Fn(&str) -> Option<String>,
) -> Option<Result<Bootstrap, UsageError>> {
    let text = variable(BOOTSTRAP).filter(|text| !text.trim().is_empty())?;
    Some(parse(&text))
}

fn parse(text: &str) -> Result<Bootstrap, UsageError> {
    let wrong = |why: String| UsageError(format!("{BOOTSTRAP} {why}"));
    let version = serde_json::from_str::<serde_json::Value>(text);
    let version = version.map_err(|error| wrong(format!("is no JSON: {error}")))?;
    if let Some(v) = version.get("v").and_then(serde_json::Value::as_u64)
        && v > u64::from(VERSION)
    {
        return Err(wrong(format!(
            "has version {v}, and this sidecar understands {VERSION}: use the sidecar's image of \
             the operator that injected it"
        )));
    }
    let read = serde_json::from_value::<Bootstrap>(version);
    read.map_err(|error| wrong(format!("can't be read: {error}")))
}

/// What to run.
pub(crate) fn config(
    bootstrap: Bootstrap,
    variable: impl Fn(&str) -> Option<String>,
    max_body_bytes: u64,
) -> Result<Config, UsageError> {
    let wrong = |why: String| UsageError(format!("{BOOTSTRAP}: {why}"));
    let address = |field: &str, text: &str| {
        let parsed = text.parse::<SocketAddr>();
        parsed.map_err(|_| {
            wrong(format!(
                "{field} is {text:?}: write ADDRESS:PORT, as [::]:8000"
            ))
        })
    };
    let pod = variable(POD).unwrap_or_default();
    let pod = match pod.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            ObjectKey::new(namespace, name)
        }
        _ => {
            let text = format!("{POD} is {pod:?}: write NAMESPACE/NAME of the pod");
            return Err(UsageError(text));
        }
    };
    if bootstrap.listeners.is_empty() {
        return Err(wrong("listeners is empty: name a port to serve".to_owned()));
    }
    let mut ports = Vec::new();
    for listener in &bootstrap.listeners {
        let upstream = listener.upstream.parse::<EngineAddress>();
        let upstream = upstream
            .map_err(|error| wrong(format!("upstream is {:?}: {error}", listener.upstream)))?;
        ports.push(Port {
            listen: address("listen", &listener.listen)?,
            upstream,
        });
    }
    let policy = bootstrap.policy.map(serde_json::from_value::<Policy>);
    let policy = policy.transpose();
    let policy = policy.map_err(|error| wrong(format!("policy can't be read: {error}")))?;
    let url = bootstrap.channel.url;
    let url = crate::flags::url(&url).map_err(|why| wrong(format!("channel.url: {why}")))?;
    let ips = variable(POD_IPS).unwrap_or_default();
    let ips = ips.split(',').filter_map(|ip| ip.trim().parse().ok());
    let seconds = |n: u32| Duration::from_secs(u64::from(n));
    let state = PathBuf::from(bootstrap.state_folder);
    Ok(Config {
        ports,
        admin: address("admin", &bootstrap.admin)?,
        source: PolicySource::Channel(ChannelConfig {
            url,
            ca: Authorities::Pem(bootstrap.channel.ca_pem),
            token: bootstrap.channel.token_file.into(),
            pod,
            state: Some(state.clone()),
            first: policy.map(Box::new),
        }),
        max_body_bytes,
        drain: DrainPlan {
            grace: seconds(bootstrap.drain.grace_seconds),
            lame_duck: seconds(bootstrap.drain.lame_duck_seconds),
            kept_back: seconds(bootstrap.drain.engine_stop_seconds) + AIR,
        },
        engine: bootstrap.engine,
        checks: bootstrap.checks,
        host_network: bootstrap.host_network,
        state_folder: Some(state),
        mode_file: Some(bootstrap.mode_file.into()),
        pod_ips: ips.collect(),
        restarts: variable(WORKER).and_then(|n| n.parse().ok()).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"v":1,"listeners":[{"listen":"[::]:8000","upstream":"127.0.0.1:28000"},
        {"listen":"[::]:8001","upstream":"unix:/run/e/s"}],"admin":"[::]:29990","checks":{},
        "drain":{"graceSeconds":330,"lameDuckSeconds":15,"engineStopSeconds":10},
        "stateFolder":"/run/fairtide","modeFile":"/m","fromTheFuture":{},
        "channel":{"url":"https://op:9443","caPem":"x","tokenFile":"/t"}}"#;

    fn read(text: &str, pod: &str) -> Result<Config, UsageError> {
        let variable = |name: &str| match name {
            BOOTSTRAP => Some(text.to_owned()),
            POD => Some(pod.to_owned()),
            POD_IPS => Some("10.0.0.1,fd00::1".to_owned()),
            _ => None,
        };
        let bootstrap = bootstrap(variable).expect("there is one")?;
        config(bootstrap, variable, 1)
    }

    #[test]
    fn a_document_says_all_that_is_needed() {
        let config = read(GOOD, "chat/llama-0").expect("a configuration");
        assert_eq!(config.ports.len(), 2);
        assert_eq!(config.drain.time(), Duration::from_secs(318));
        assert_eq!(config.pod_ips.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let swap = |from: &str, to: &str| GOOD.replace(from, to);
        for (text, pod, says) in [
            ("{".to_owned(), "a/b", "no JSON"),
            (swap("\"v\":1", "\"v\":2"), "a/b", "version 2"),
            (swap("[::]:8000", "8000"), "a/b", "listen is \"8000\""),
            (swap("127.0.0.1:28000", "28000"), "a/b", "HOST:PORT"),
            (swap("https://op:9443", "op"), "a/b", "channel.url"),
            (swap("\"admin\"", "\"adm\""), "a/b", "admin"),
            (GOOD.to_owned(), "b", "NAMESPACE/NAME"),
            (
                swap("\"checks\":{}", "\"checks\":{},\"policy\":{}"),
                "a/b",
                "policy",
            ),
        ] {
            let error = read(&text, pod).map(|_| ()).expect_err(says).to_string();
            assert!(error.contains(says), "{says}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
