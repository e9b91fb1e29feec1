//! The function that everything else is for.

use crate::{
    asked::{Skip, asked, is_lws_worker},
    choose::Candidate,
    container_ports,
    context::Context,
    drain,
    edit::Edit,
    launch::{Launch, set_socket},
    mesh, names,
    patch::Patch,
    plan::plan,
    pod::{Container, Pod},
    probes,
    refusal::Refusal,
    security,
    sidecar::Parts,
    start::Start,
    status::Status,
    takeover::{Isolation, Takeover},
    volumes,
    warning::Warning,
    wishes::Wishes,
};
use serde_json::{Value, json};

/// What is to be done with a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Injection {
    /// Whether it gets the sidecar.
    pub outcome: Outcome,
    /// The changes; empty where there is nothing to change.
    pub patch: Patch,
    /// What its owner should know.
    pub warnings: Vec<Warning>,
}

/// Whether a pod gets the sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It gets it now.
    Injected(Status),
    /// It has it already. The patch repairs what others took away.
    Kept(Status),
    /// It isn't to have it.
    Skipped(Skip),
}

/// Injects a pod. Pure: the same pod and context give the same answer.
///
/// Applying the patch and injecting again gives [`Outcome::Kept`] with an empty patch.
///
/// # Errors
/// The pod is to be injected and can't be. The message says what to write; the pod should not be
/// created as it is, since its traffic would go around every rule.
pub fn inject(pod: &Value, context: &Context) -> Result<Injection, Refusal> {
    let pod = Pod::read(pod)?;
    let asked = match asked(pod, context)? {
        Ok(asked) => asked,
        Err(skip) => return Ok(Injection::skipped(skip)),
    };
    let wishes = Wishes::read(pod, context)?;
    if is_lws_worker(pod, wishes.lws_roles) {
        return Ok(Injection::skipped(Skip::LwsWorker));
    }
    let mut warnings = Vec::new();
    if let Some(status) = Status::read(pod)? {
        check_same_wishes(&status, &wishes)?;
        // Whoever created the pod was warned then.
        let patch = apply(pod, context, &wishes, &status, false, &mut Vec::new())?;
        return Ok(Injection {
            outcome: Outcome::Kept(status),
            patch,
            warnings,
        });
    }
    volumes::check_free(pod)?;
    let status = match plan(pod, context, &wishes, asked, &mut warnings)? {
        Ok(status) => status,
        Err(skip) => return Ok(Injection::skipped(skip)),
    };
    let patch = apply(pod, context, &wishes, &status, true, &mut warnings)?;
    Ok(Injection {
        outcome: Outcome::Injected(status),
        patch,
        warnings,
    })
}

// === impl Injection ===

impl Injection {
    fn skipped(skip: Skip) -> Self {
        Self {
            outcome: Outcome::Skipped(skip),
            patch: Patch::default(),
            warnings: Vec::new(),
        }
    }
}

/// A pod that was copied from an injected one, with other wishes.
fn check_same_wishes(status: &Status, wishes: &Wishes) -> Result<(), Refusal> {
    let takeover = wishes.pod_takeover.unwrap_or(status.takeover);
    if takeover != status.takeover {
        return Err(Refusal::StaleStatus {
            why: format!("it has takeover {}, not {takeover}", status.takeover),
        });
    }
    let isolation = wishes.pod_isolation.unwrap_or(status.isolation);
    if isolation != status.isolation && status.isolation != Isolation::Loopback {
        return Err(Refusal::StaleStatus {
            why: format!("it has isolation {}, not {isolation}", status.isolation),
        });
    }
    Ok(())
}

/// Brings every part of the pod to what the status says.
fn apply(
    pod: Pod<'_>,
    context: &Context,
    wishes: &Wishes,
    status: &Status,
    first: bool,
    warnings: &mut Vec<Warning>,
) -> Result<Patch, Refusal> {
    let target = pod.container(&status.container);
    let target = target.ok_or_else(|| Refusal::StaleStatus {
        why: format!("there is no container {}", status.container),
    })?;
    let mut edit = Edit::of(pod.value());
    label(&mut edit, status, first);
    if first {
        mesh::exclude(&mut edit, pod, context, status.admin_port, warnings);
    }
    let drain = drain::grace(&mut edit, pod, wishes.drain_seconds);
    let moved_variable = move_engine(&mut edit, target, wishes, status)?;
    container_ports::give_up(&mut edit, pod, target, status);
    let checks = probes::follow(&mut edit, target, status, moved_variable, warnings)?;
    mesh::follow_probers(&mut edit, pod, target, status)?;
    drain::hold_back(&mut edit, pod, status, warnings);
    security::allow_low_ports(&mut edit, pod, status)?;
    volumes::add(&mut edit, pod, context, status);
    let parts = Parts {
        pod,
        context,
        wishes,
        status,
        target,
        checks,
        drain,
    };
    parts.put(&mut edit, warnings)?;
    Ok(edit.into_patch())
}

fn label(edit: &mut Edit, status: &Status, first: bool) {
    let labels = "/metadata/labels";
    edit.set_key(labels, names::INJECTED_LABEL, json!("true"));
    if status.isolation == Isolation::NetworkPolicy {
        let isolation = json!(status.isolation.to_string());
        edit.set_key(labels, names::ISOLATION_LABEL, isolation);
    }
    if first {
        let text = Value::String(status.to_json());
        edit.set_key("/metadata/annotations", names::STATUS, text);
    }
}

/// Moves the engine by its command line; gives the variable that did it, if one did.
fn move_engine(
    edit: &mut Edit,
    target: Container<'_>,
    wishes: &Wishes,
    status: &Status,
) -> Result<Option<&'static str>, Refusal> {
    if status.takeover == Takeover::Manual {
        return Ok(None);
    }
    let known = status.engine.or(wishes.known_engine());
    let candidate = Candidate::of(target, known);
    let Start::Server(program) = candidate.start else {
        return Err(Refusal::StaleStatus {
            why: format!("container {} starts something else", status.container),
        });
    };
    let launch = Launch::read(program, target, &candidate.words, &candidate.variables)?;
    if status.takeover == Takeover::Uds {
        set_socket(edit, target, &candidate.words, names::ENGINE_SOCKET);
        volumes::mount_socket(edit, target);
        return Ok(None);
    }
    if status.isolation == Isolation::Loopback {
        launch.set_loopback(edit, target);
    }
    let first = status.ports.first();
    let Some(pair) = first.filter(|_| status.takeover == Takeover::PortSwap) else {
        return Ok(None);
    };
    let Some(upstream) = pair.upstream else {
        return Ok(None);
    };
    let known_ports = [Some(pair.listen), pair.upstream, None];
    if !known_ports.contains(&launch.port) {
        return Err(Refusal::StaleStatus {
            why: format!("container {} serves another port", status.container),
        });
    }
    if launch.port != Some(upstream) {
        launch.set_port(edit, target, upstream);
    }
    Ok(launch.port_variable())
}
