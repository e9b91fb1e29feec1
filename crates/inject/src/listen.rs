//! The numbers of ports: which ones the sidecar takes, where the engine goes, and who has them
//! already.

use crate::{
    context::Context,
    launch::Launch,
    names,
    pod::{Container, Pod},
    port_list,
    refusal::Refusal,
    variables::Variables,
    wishes::Wishes,
    words::{port_flags, words},
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Engines move to 20000–29999: below the NodePorts (30000) and the ephemeral ports (32768), above
/// what Ray's workers use (10002–19999).
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// The rendezvous of torch's processes, which nothing on a command line tells.
const TORCH: u16 = 29_500;

/// The ports that the target serves for its clients.
pub(crate) fn served(
    target: Container<'_>,
    launch: &Launch,
    wishes: &Wishes,
    context: &Context,
) -> Result<Vec<u16>, Refusal> {
    let wanted = wanted(wishes, context);
    let Some(first) = launch.port else {
        return match wanted {
            Some((ports, _)) => Ok(ports),
            None => declared(target, launch.ports).ok_or_else(|| Refusal::PortUnknown {
                container: target.name().to_owned(),
                unread: match &launch.unread {
                    Some(place) => place.clone(),
                    None => "a variable whose value isn't in the pod".to_owned(),
                },
            }),
        };
    };
    let Some(last) = first.checked_add(launch.ports - 1) else {
        return Err(Refusal::BadPort {
            container: target.name().to_owned(),
            name: "--port, with its ranks,".to_owned(),
            value: first.to_string(),
        });
    };
    let served: Vec<u16> = (first..=last).collect();
    match wanted {
        Some((ports, source_of)) if !ports.iter().all(|port| served.contains(port)) => {
            Err(Refusal::OtherPort {
                source_of,
                wanted: port_list::show(&ports),
                container: target.name().to_owned(),
                served: port_list::show(&served),
            })
        }
        _ => Ok(served),
    }
}

/// The ports that clients use, by what is said outside the command line, and who says so.
pub(crate) fn wanted(wishes: &Wishes, context: &Context) -> Option<(Vec<u16>, String)> {
    if let Some(ports) = &wishes.listen_ports {
        return Some((ports.clone(), format!("annotation {}", names::LISTEN_PORTS)));
    }
    let pool = context.pool.as_ref()?;
    let name = format!("InferencePool {}/{}", pool.namespace, pool.name);
    (!pool.target_ports.is_empty()).then(|| (pool.target_ports.clone(), name))
}

/// The ports that a container declares, when they can be nothing else.
fn declared(target: Container<'_>, count: u16) -> Option<Vec<u16>> {
    let ports: Vec<u16> = target.ports().map(|port| port.number).collect();
    (ports.len() == usize::from(count)).then_some(ports)
}

/// Numbers that something in the pod has, or may have.
pub(crate) fn in_use(pod: Pod<'_>) -> BTreeSet<u16> {
    let mut used = BTreeSet::from([TORCH]);
    for container in pod.containers() {
        for port in container.ports() {
            used.insert(port.number);
            used.extend(port.host_port);
        }
        for (_, _, handler) in container.handlers() {
            used.extend(handler_port(handler).and_then(|port| container.resolve_port(port)));
        }
        used.extend(port_flags(&words(container, &Variables::of(container))));
    }
    used
}

/// The port that a probe or hook names.
pub(crate) fn handler_port(handler: &Value) -> Option<&Value> {
    let actions = ["httpGet", "tcpSocket", "grpc"];
    let mut actions = actions.iter().filter_map(|action| handler.get(*action));
    actions.find_map(|action| action.get("port"))
}

/// Other ports for these, in the same order and with the same distances: the ranks of an engine
/// must stay neighbours.
pub(crate) fn shifted(ports: &[u16], taken: &BTreeSet<u16>) -> Result<Vec<u16>, Refusal> {
    let first = ports.iter().min().copied().unwrap_or_default();
    let last = ports.iter().max().copied().unwrap_or_default();
    let free = |base: u16| {
        let moved = ports.iter().map(|port| base + (port - first));
        let moved: Vec<u16> = moved.collect();
        let free = moved.iter().all(|port| !taken.contains(port));
        free.then_some(moved)
    };
    let width = last - first;
    if width >= COUNT {
        return Err(Refusal::NoFreePort);
    }
    let bases = COUNT - width;
    let start = (first % COUNT).min(bases - 1);
    let order = (start..bases).chain(0..start);
    order
        .filter_map(|offset| free(FIRST + offset))
        .next()
        .ok_or(Refusal::NoFreePort)
}

/// Refuses a port of the sidecar that another container has. `own` is the container whose ports
/// are moved out of the way, with all that it says about them.
pub(crate) fn check_free(
    pod: Pod<'_>,
    port: u16,
    own: Option<&str>,
    write: &str,
) -> Result<(), Refusal> {
    let mut holders = Vec::new();
    for container in pod.containers() {
        if own == Some(container.name()) {
            continue;
        }
        for declared in container.ports() {
            if declared.number == port {
                holders.push(format!("container {} (containerPort)", container.name()));
            } else if declared.host_port == Some(port) && pod.host_network() {
                holders.push(format!("container {} (hostPort)", container.name()));
            }
        }
        if own.is_none() {
            let handlers = container.handlers();
            let probes = handlers.filter(|(_, _, handler)| {
                let probed = handler_port(handler);
                probed.and_then(|probed| container.resolve_port(probed)) == Some(port)
            });
            holders.extend(
                probes.map(|(_, field, _)| format!("container {} ({field})", container.name())),
            );
        }
    }
    if holders.is_empty() {
        return Ok(());
    }
    holders.dedup();
    Err(Refusal::PortTaken {
        port,
        holders: holders.join(", "),
        write: write.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_move_to_a_number_that_tells_the_old_one() {
        let none = BTreeSet::new();
        for (ports, moved) in [
            (vec![8000], vec![28_000]),
            (vec![80], vec![20_080]),
            (vec![30_000], vec![20_000]),
            (vec![8000, 8001], vec![28_000, 28_001]),
            (vec![9999], vec![29_999]),
            (vec![9998, 9999, 10_000], vec![29_997, 29_998, 29_999]),
            (vec![65_535], vec![25_535]),
        ] {
            assert_eq!(shifted(&ports, &none), Ok(moved));
        }
    }

    #[test]
    fn neighbours_stay_neighbours_around_a_taken_port() {
        let taken = BTreeSet::from([28_001, 29_999]);
        assert_eq!(shifted(&[8000, 8001], &taken), Ok(vec![28_002, 28_003]));
        assert_eq!(shifted(&[9999], &taken), Ok(vec![20_000]));
        let all = (FIRST..FIRST + COUNT).collect();
        assert_eq!(shifted(&[8000], &all), Err(Refusal::NoFreePort));
        assert_eq!(shifted(&[1, 60_000], &taken), Err(Refusal::NoFreePort));
    }
}
