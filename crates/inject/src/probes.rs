//! Probes and hooks of the container whose port was taken.
//!
//! The kubelet goes on asking the engine itself, on its new port: a probe of the old port would
//! pass whenever the sidecar accepts, and a sidecar in trouble would get the engine restarted.
//! Where the kubelet can't reach the engine any more (loopback, Unix socket) it asks the sidecar's
//! admin port, which asks the engine in the same way; then an outage of the sidecar must last long
//! before it may restart the engine.

use crate::{
    edit::Edit,
    exec_text::{Rewritten, reads_variable, rewrite},
    pod::{Container, HOOKS},
    refusal::Refusal,
    status::{PortPair, Status},
    takeover::Takeover,
    variables::Variables,
    warning::Warning,
};
use fairtide_policy::bootstrap::{Check, CheckAction, Checks, Header};
use serde_json::{Map, Value, json};

/// How long the sidecar may be away before the kubelet restarts the engine that it asks through
/// the sidecar.
const LIVENESS_SECONDS: i64 = 300;

/// Points probes and hooks at the engine's new place, and gives what the sidecar is to check.
/// `moved_variable` is the variable that the port was moved by, if it was one.
pub(crate) fn follow(
    edit: &mut Edit,
    target: Container<'_>,
    status: &Status,
    moved_variable: Option<&str>,
    warnings: &mut Vec<Warning>,
) -> Result<Checks, Refusal> {
    let mut checks = Checks::default();
    for (path, field, handler) in target.handlers() {
        let followed = Followed {
            target,
            status,
            moved_variable,
            path: &path,
            field,
            handler,
        };
        followed.refuse_tls()?;
        followed.warn(warnings);
        if handler.get("exec").is_some_and(|exec| !exec.is_null()) {
            followed.exec(edit)?;
            continue;
        }
        let Some((action, port)) = followed.port() else {
            continue;
        };
        let check = followed.check();
        if status.kubelet_reaches_engine() {
            followed.move_port(edit, action, port);
            // Elsewhere the kubelet asks; of readiness the sidecar has its own view as well.
            if field == "readinessProbe" {
                checks.readiness = check;
            }
            continue;
        }
        if HOOKS.contains(&field) {
            followed.refuse_hook(port)?;
            continue;
        }
        // The rest of the container is where it was; only its port became a socket.
        let elsewhere = status.takeover == Takeover::Uds && followed.pair(port).is_none();
        if elsewhere || followed.resolve(port) == Some(status.admin_port) {
            continue;
        }
        match field {
            "startupProbe" => checks.startup = check,
            "livenessProbe" => checks.liveness = check,
            _ => checks.readiness = check,
        }
        followed.ask_sidecar(edit);
    }
    Ok(checks)
}

/// A probe or hook.
struct Followed<'a> {
    target: Container<'a>,
    status: &'a Status,
    moved_variable: Option<&'a str>,
    path: &'a str,
    field: &'static str,
    handler: &'a Value,
}

// === impl Followed ===

impl<'a> Followed<'a> {
    fn container(&self) -> String {
        self.target.name().to_owned()
    }

    fn action(&self, name: &str) -> Option<&'a Value> {
        self.handler.get(name).filter(|value| !value.is_null())
    }

    /// The action that names a port, and the port as it is written.
    fn port(&self) -> Option<(&'static str, &'a Value)> {
        let actions = ["httpGet", "tcpSocket", "grpc"];
        let mut actions = actions.into_iter();
        actions.find_map(|action| Some((action, self.action(action)?.get("port")?)))
    }

    fn resolve(&self, port: &Value) -> Option<u16> {
        self.target.resolve_port(port)
    }

    fn pair(&self, port: &Value) -> Option<&'a PortPair> {
        let number = self.resolve(port)?;
        let listening = self.status.by_listen(number);
        listening.or_else(|| self.status.by_upstream(number))
    }

    fn refuse_tls(&self) -> Result<(), Refusal> {
        let Some(http) = self.action("httpGet") else {
            return Ok(());
        };
        let https = http.get("scheme").and_then(Value::as_str) == Some("HTTPS");
        let engines = http.get("port").and_then(|port| self.pair(port));
        if https && engines.is_some() {
            return Err(Refusal::Tls {
                container: self.container(),
                sign: format!("{} has scheme HTTPS", self.field),
            });
        }
        Ok(())
    }

    fn refuse_hook(&self, port: &Value) -> Result<(), Refusal> {
        if self.pair(port).is_none() {
            return Ok(());
        }
        Err(Refusal::HookUnreachable {
            field: self.field,
            container: self.container(),
        })
    }

    fn warn(&self, warnings: &mut Vec<Warning>) {
        let Some((action, _)) = self.port() else {
            return;
        };
        let host = self.action(action).and_then(|action| action.get("host"));
        let host = host.and_then(Value::as_str).filter(|host| !host.is_empty());
        if let Some(host) = host {
            warnings.push(Warning::ProbeHost {
                field: self.field,
                container: self.container(),
                host: host.to_owned(),
            });
        }
        if self.field == "livenessProbe" && self.seconds("timeoutSeconds", 1) == 1 {
            warnings.push(Warning::ShortLiveness {
                container: self.container(),
            });
        }
    }

    fn seconds(&self, field: &str, default: i64) -> i64 {
        let seconds = self.handler.get(field).and_then(Value::as_i64);
        seconds.filter(|&seconds| seconds > 0).unwrap_or(default)
    }

    fn move_port(&self, edit: &mut Edit, action: &str, port: &Value) {
        let Some(pair) = self.pair(port) else {
            return;
        };
        let Some(upstream) = pair.upstream else {
            return;
        };
        // A name that went to the sidecar means nothing in this container any more.
        let names_it = port.as_str().is_some() && port.as_str() == pair.name.as_deref();
        if self.resolve(port) != Some(upstream) || names_it {
            let path = format!("{}/{action}/port", self.path);
            edit.set(&path, json!(upstream));
        }
    }

    /// Lets the kubelet ask the sidecar.
    fn ask_sidecar(&self, edit: &mut Edit) {
        let path = match self.field {
            "startupProbe" => "/engine/startup",
            "livenessProbe" => "/engine/live",
            _ => "/engine/ready",
        };
        let mut probe: Map<String, Value> = match self.handler {
            Value::Object(probe) => probe.clone(),
            _ => Map::new(),
        };
        for action in ["tcpSocket", "grpc"] {
            probe.remove(action);
        }
        let get = json!({ "path": path, "port": self.status.admin_port, "scheme": "HTTP" });
        probe.insert("httpGet".to_owned(), get);
        if self.field == "livenessProbe" {
            let period = self.seconds("periodSeconds", 10);
            let enough = (LIVENESS_SECONDS + period - 1) / period;
            if self.seconds("failureThreshold", 3) < enough {
                probe.insert("failureThreshold".to_owned(), json!(enough));
            }
        }
        edit.set(self.path, Value::Object(probe));
    }

    /// What the probe asks, for the sidecar to ask.
    fn check(&self) -> Option<Check> {
        let (action, port) = self.port()?;
        let text = |field: &str| {
            let text = self.action(action)?.get(field)?;
            text.as_str().map(str::to_owned)
        };
        let upstream = match self.pair(port) {
            Some(pair) => self.status.dial(pair.upstream),
            None => self.status.dial(Some(self.resolve(port)?)),
        };
        let action = match action {
            "httpGet" => CheckAction::Http {
                path: text("path").unwrap_or_else(|| "/".to_owned()),
                headers: self.headers(),
            },
            "grpc" => CheckAction::Grpc {
                service: text("service").unwrap_or_default(),
            },
            _ => CheckAction::Tcp,
        };
        let timeout = self.seconds("timeoutSeconds", 1);
        Some(Check {
            upstream,
            action,
            timeout_seconds: u32::try_from(timeout).unwrap_or(u32::MAX),
        })
    }

    fn headers(&self) -> Vec<Header> {
        let headers = self
            .action("httpGet")
            .and_then(|get| get.get("httpHeaders"));
        let headers = headers.and_then(Value::as_array).into_iter().flatten();
        let text = |header: &Value, field: &str| {
            let text = header.get(field)?.as_str()?;
            Some(text.to_owned())
        };
        headers
            .filter_map(|header| {
                Some(Header {
                    name: text(header, "name")?,
                    value: text(header, "value").unwrap_or_default(),
                })
            })
            .collect()
    }

    /// Follows a port inside a command.
    fn exec(&self, edit: &mut Edit) -> Result<(), Refusal> {
        let status = self.status;
        if status.takeover == Takeover::Named {
            return Ok(());
        }
        let command = self.action("exec").and_then(|exec| exec.get("command"));
        let Some(command) = command.and_then(Value::as_array) else {
            return Ok(());
        };
        let variables = Variables::of(self.target);
        for (index, word) in command.iter().enumerate() {
            let word = word.as_str().unwrap_or_default();
            if status.takeover == Takeover::Uds {
                self.refuse_mention(word, &variables)?;
                continue;
            }
            for pair in &status.ports {
                if let Some(name) = self.variable_read(word, &variables, pair.listen) {
                    return Err(self.unclear(format!("${name}, which is {}", pair.listen), pair));
                }
            }
            let moved = |port: u16| status.by_listen(port)?.upstream;
            match rewrite(word, moved) {
                Rewritten::Same => {}
                Rewritten::Changed(word) => {
                    let path = format!("{}/exec/command/{index}", self.path);
                    edit.set(&path, Value::String(word));
                }
                Rewritten::Unclear => {
                    let mut pairs = status.ports.iter();
                    let mentioned = pairs.find(|pair| word.contains(&pair.listen.to_string()));
                    if let Some(pair) = mentioned {
                        return Err(self.unclear(format!("port {}", pair.listen), pair));
                    }
                }
            }
        }
        Ok(())
    }

    fn unclear(&self, what: String, pair: &PortPair) -> Refusal {
        Refusal::ExecPort {
            field: self.field,
            container: self.container(),
            what,
            port: pair.listen,
        }
    }

    fn variable_read(&self, word: &str, variables: &Variables<'_>, port: u16) -> Option<String> {
        let port = port.to_string();
        let names = variables.with_value(&port);
        names
            .filter(|name| Some(*name) != self.moved_variable && reads_variable(word, name))
            .min()
            .map(str::to_owned)
    }

    fn refuse_mention(&self, word: &str, variables: &Variables<'_>) -> Result<(), Refusal> {
        for pair in &self.status.ports {
            let by_variable = self.variable_read(word, variables, pair.listen);
            let by_number = rewrite(word, |port| (port == pair.listen).then_some(0));
            if by_variable.is_some() || by_number != Rewritten::Same {
                return Err(Refusal::ExecSocket {
                    field: self.field,
                    container: self.container(),
                    port: pair.listen,
                });
            }
        }
        Ok(())
    }
}
