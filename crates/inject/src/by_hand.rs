//! Containers whose command line can't be changed from outside: what their owner can write.

use crate::{choose::Candidate, listen, names, refusal::Refusal, start::Start};
use fairtide_policy::Engine;

/// What a container starts, for a message.
pub(crate) fn what(candidate: &Candidate<'_>) -> String {
    match &candidate.start {
        Start::Image => format!("whatever image {} starts", candidate.container.image()),
        Start::Unknown(program) => program.clone(),
        Start::Shell { shell, .. } => format!("a shell ({shell})"),
        Start::NoServer(program) => program.clone(),
        Start::Server(_) => "a server".to_owned(),
    }
}

/// How to make an engine of an unknown container known.
pub(crate) fn help(candidate: &Candidate<'_>, wanted: Option<u16>) -> String {
    let declared = candidate.container.ports().next().map(|port| port.number);
    let manual = manual(wanted.or(declared), None);
    match candidate.start {
        Start::Image => format!("write {}: {}, or {manual}", names::ENGINE, Engine::WORDS),
        _ => manual,
    }
}

/// Refuses a container whose command line can't be changed.
pub(crate) fn refusal(target: &Candidate<'_>, wanted: Option<u16>) -> Refusal {
    let container = target.container.name().to_owned();
    match &target.start {
        Start::Shell { shell, script } => {
            let declared = target.container.ports().next().map(|port| port.number);
            let port = wanted.or_else(|| port_in(script)).or(declared);
            Refusal::Shell {
                container,
                shell: shell.clone(),
                manual: manual(port, Some(script)),
            }
        }
        _ => Refusal::NotAnEngine {
            container,
            what: what(target),
            help: help(target, wanted),
        },
    }
}

/// How to do by hand what can't be done from outside.
fn manual(port: Option<u16>, script: Option<&str>) -> String {
    let listen = port.unwrap_or(8000);
    let moved = listen::shifted(&[listen], &Default::default());
    let moved = moved.ok().and_then(|ports| ports.first().copied());
    let moved = moved.unwrap_or(listen);
    let how = match script {
        Some(script) if script.contains("$@") => {
            format!("by args: [\"--port\", \"{moved}\"], which the script hands on")
        }
        Some(script) if script.contains("VLLM_ADDITIONAL_ARGS") => {
            format!("by variable VLLM_ADDITIONAL_ARGS: --port {moved}, which the script reads")
        }
        Some(_) => format!("by --port {moved} in the script"),
        None => format!("to {moved}, say"),
    };
    format!(
        "move the engine yourself ({how}) and write {}: Manual, {}: \"{listen}\", {}: \"{moved}\"",
        names::TAKEOVER,
        names::LISTEN_PORTS,
        names::UPSTREAM_PORTS,
    )
}

/// The port that a script gives its engine, for the message's sake only.
fn port_in(script: &str) -> Option<u16> {
    let (_, after) = script.rsplit_once("--port")?;
    let digits = after.trim_start_matches([' ', '=', '"', '\'']);
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().ok()
}
