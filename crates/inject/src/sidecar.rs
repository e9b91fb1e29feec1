//! The sidecar's container.
//!
//! It is the last of the init containers, with `restartPolicy: Always`: downloads of models run
//! before it as if it weren't there, it listens before the engine starts, and it is told to stop
//! after the engine has stopped.

use crate::{
    asked::in_lws,
    container_ports,
    context::Context,
    edit::Edit,
    mesh, names,
    pod::{Container, List, Pod},
    refusal::Refusal,
    resources, security,
    status::Status,
    variables::{protect, unprotect},
    volumes,
    warning::Warning,
    wishes::Wishes,
};
use fairtide_policy::bootstrap::{Bootstrap, Channel, Checks, Drain, Listener, PoolName};
use serde_json::{Value, json};

/// All that the container depends on.
pub(crate) struct Parts<'a> {
    pub(crate) pod: Pod<'a>,
    pub(crate) context: &'a Context,
    pub(crate) wishes: &'a Wishes,
    pub(crate) status: &'a Status,
    pub(crate) target: Container<'a>,
    pub(crate) checks: Checks,
    pub(crate) drain: Drain,
}

// === impl Parts ===

impl Parts<'_> {
    /// Adds the container, or repairs the one that is there.
    ///
    /// Of one that is there, only what it can't work without is repaired: other webhooks have a
    /// right to their changes (a registry mirror in its image, a mesh's variables).
    pub(crate) fn put(&self, edit: &mut Edit, warnings: &mut Vec<Warning>) -> Result<(), Refusal> {
        let Some(sidecar) = self.pod.sidecar() else {
            let container = self.container(warnings)?;
            edit.push("/spec/initContainers", container);
            return Ok(());
        };
        if sidecar.list != List::Init {
            return Err(Refusal::StaleStatus {
                why: "the sidecar is no init container".to_owned(),
            });
        }
        if !sidecar.restarts_always() {
            // Stripped by a webhook that is older than sidecars.
            edit.set(
                &format!("{}/restartPolicy", sidecar.path()),
                json!("Always"),
            );
        }
        self.renew_bootstrap(edit, sidecar);
        Ok(())
    }

    fn renew_bootstrap(&self, edit: &mut Edit, sidecar: Container<'_>) {
        let mut variables = sidecar.array("env").enumerate();
        let ours = variables.find(|(_, variable)| {
            variable.get("name").and_then(Value::as_str) == Some(names::BOOTSTRAP)
        });
        let Some((index, variable)) = ours else {
            let variable = variable(names::BOOTSTRAP, &self.bootstrap(self.checks.clone()));
            edit.push(&format!("{}/env", sidecar.path()), variable);
            return;
        };
        // The probes were changed since, so what the sidecar is to check can't be read there.
        let old = variable.get("value").and_then(Value::as_str);
        let old = old.map(unprotect);
        let old: Option<Bootstrap> = old.and_then(|old| serde_json::from_str(&old).ok());
        let checks = old.map_or_else(|| self.checks.clone(), |old| old.checks);
        let path = format!("{}/env/{index}/value", sidecar.path());
        edit.set(&path, Value::String(self.bootstrap(checks)));
    }

    fn container(&self, warnings: &mut Vec<Warning>) -> Result<Value, Refusal> {
        let pool = self.context.pool.as_ref();
        let image = pool.and_then(|pool| pool.settings.image.as_ref());
        let image = image.unwrap_or(&self.context.operator.sidecar_image);
        let mut container = json!({
            "name": names::SIDECAR,
            "image": image,
            "restartPolicy": "Always",
            "env": [
                from_field("FAIRTIDE_POD_NAME", "metadata.name"),
                from_field("FAIRTIDE_POD_NAMESPACE", "metadata.namespace"),
                from_field("FAIRTIDE_POD_UID", "metadata.uid"),
                from_field("FAIRTIDE_POD_IPS", "status.podIPs"),
                variable("FAIRTIDE_POD", "$(FAIRTIDE_POD_NAMESPACE)/$(FAIRTIDE_POD_NAME)"),
                variable(names::BOOTSTRAP, &self.bootstrap(self.checks.clone())),
            ],
            "ports": container_ports::of_sidecar(self.pod, self.status),
            "readinessProbe": self.probe("/readyz", &[
                ("periodSeconds", 2),
                ("timeoutSeconds", 2),
                ("failureThreshold", 2),
            ]),
            "lifecycle": { "preStop": { "exec": {
                "command": [names::PROGRAM, "mark-terminating"],
            }}},
            "resources": resources::of_sidecar(self.pod, &self.wishes.resources, warnings)?,
            "securityContext": security::of_sidecar(self.pod, self.target, self.status),
            "volumeMounts": volumes::of_sidecar(self.status),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        });
        if !in_lws(self.pod) {
            container["livenessProbe"] = self.probe(
                "/livez",
                &[
                    ("periodSeconds", 10),
                    ("timeoutSeconds", 5),
                    ("failureThreshold", 6),
                ],
            );
        }
        // A pod that never restarts would hang for ever on a sidecar that failed to start.
        let never = self.pod.restart_policy() == "Never";
        if !never && !mesh::expected(self.pod, self.context) {
            container["startupProbe"] = self.probe(
                "/startupz",
                &[
                    ("periodSeconds", 1),
                    ("timeoutSeconds", 1),
                    ("failureThreshold", 60),
                ],
            );
        }
        Ok(container)
    }

    fn probe(&self, path: &str, timing: &[(&str, u32)]) -> Value {
        let mut probe = json!({ "httpGet": {
            "path": path,
            "port": self.status.admin_port,
            "scheme": "HTTP",
        }});
        for (field, value) in timing {
            probe[*field] = json!(value);
        }
        probe
    }

    /// The bootstrap as a variable's value.
    fn bootstrap(&self, checks: Checks) -> String {
        let Context { pool, operator, .. } = self.context;
        let listeners = self.status.ports.iter().map(|pair| Listener {
            listen: format!("[::]:{}", pair.listen),
            upstream: self.status.dial(pair.upstream),
        });
        let bootstrap = Bootstrap {
            v: 1,
            listeners: listeners.collect(),
            admin: format!("[::]:{}", self.status.admin_port),
            engine: self.status.engine,
            checks,
            drain: self.drain,
            host_network: self.pod.host_network(),
            state_folder: names::RUN_FOLDER.to_owned(),
            mode_file: format!("{}/{}", names::TOKEN_FOLDER, names::MODE_FILE),
            pool: pool.as_ref().map(|pool| PoolName {
                namespace: pool.namespace.clone(),
                name: pool.name.clone(),
            }),
            channel: Channel {
                url: operator.channel_url.clone(),
                ca_pem: operator.channel_ca_pem.clone(),
                token_file: format!("{}/{}", names::TOKEN_FOLDER, names::TOKEN_FILE),
            },
            policy: pool.as_ref().and_then(|pool| pool.policy.clone()),
        };
        let json = serde_json::to_string(&bootstrap).expect("a bootstrap has only string keys");
        // Else the kubelet would take what looks like a reference for one.
        protect(&json)
    }
}

fn variable(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}

fn from_field(name: &str, path: &str) -> Value {
    json!({ "name": name, "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": path } } })
}
