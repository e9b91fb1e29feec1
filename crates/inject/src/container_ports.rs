//! The declared ports: their names and node ports go to the sidecar, so that everything that knows
//! the engine by them finds the sidecar.
//!
//! The engine's entry gets another name. It must: Kubernetes looks a name up in app containers
//! first, so an entry that kept its name would keep the traffic.

use crate::{
    edit::Edit,
    names,
    pod::{Container, DeclaredPort, Pod},
    status::Status,
    takeover::Takeover,
};
use serde_json::{Value, json};

/// Changes the entries of the container whose port was taken.
pub(crate) fn give_up(edit: &mut Edit, pod: Pod<'_>, target: Container<'_>, status: &Status) {
    let entries: Vec<DeclaredPort<'_>> = target.ports().collect();
    // From the back, since removing one moves those behind it.
    for entry in entries.iter().rev() {
        let at = format!("{}/ports/{}", target.path(), entry.index);
        match status.takeover {
            Takeover::PortSwap | Takeover::Manual => {
                let pair = status.by_listen(entry.number);
                if let Some(upstream) = pair.and_then(|pair| pair.upstream) {
                    edit.set(&format!("{at}/containerPort"), json!(upstream));
                    give_up_names(edit, pod, entry, &at, upstream);
                }
            }
            Takeover::Named => {
                let pair = status.by_upstream(entry.number);
                let moved = pair.and_then(|pair| pair.name.as_deref());
                if entry.name.is_some() && entry.name == moved {
                    give_up_names(edit, pod, entry, &at, entry.number);
                }
            }
            Takeover::Uds => {
                if status.by_listen(entry.number).is_some() {
                    edit.remove(&at);
                }
            }
        }
    }
}

fn give_up_names(edit: &mut Edit, pod: Pod<'_>, entry: &DeclaredPort<'_>, at: &str, number: u16) {
    if entry.name.is_some() {
        // At most 15 characters are allowed.
        let name = format!("engine-{number}");
        edit.set(&format!("{at}/name"), Value::String(name));
    }
    if entry.host_port.is_some() {
        let host_port = format!("{at}/hostPort");
        if pod.host_network() {
            // There both must be the same.
            edit.set(&host_port, json!(number));
        } else {
            edit.remove(&host_port);
        }
    }
}

/// The sidecar's entries.
pub(crate) fn of_sidecar(pod: Pod<'_>, status: &Status) -> Value {
    let admin = (status.admin_port, Some(names::ADMIN_PORT_NAME), None::<u16>);
    let pairs = status.ports.iter();
    let pairs = pairs.map(|pair| (pair.listen, pair.name.as_deref(), pair.host_port));
    let entries = pairs.chain([admin]).map(|(number, name, host_port)| {
        let mut entry = json!({ "containerPort": number, "protocol": "TCP" });
        if let Some(name) = name {
            entry["name"] = json!(name);
        }
        let host_port = if pod.host_network() {
            Some(number)
        } else {
            host_port
        };
        if let Some(port) = host_port {
            entry["hostPort"] = json!(port);
        }
        entry
    });
    Value::Array(entries.collect())
}
