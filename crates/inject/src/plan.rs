//! Decides how a pod is injected that never was before.

use crate::{
    asked::{Asked, Skip},
    by_hand,
    choose::{Candidate, Chosen, NoEngine, choose},
    context::{Context, ServerVersion},
    launch::Launch,
    listen, names,
    pod::Pod,
    port_list,
    refusal::Refusal,
    start::{Program, Start},
    status::{self, PortPair, Status},
    takeover::{Isolation, Takeover},
    warning::Warning,
    wishes::Wishes,
};
use fairtide_policy::Engine;

/// Decides, or says why the pod is left alone.
pub(crate) fn plan(
    pod: Pod<'_>,
    context: &Context,
    wishes: &Wishes,
    asked: Asked,
    warnings: &mut Vec<Warning>,
) -> Result<Result<Status, Skip>, Refusal> {
    let chosen = match choose(pod, wishes)? {
        Ok(chosen) => chosen,
        Err(none) => return not_an_engine(none, context, asked).map(Err),
    };
    let name = chosen.target.container.name().to_owned();
    if let Start::NoServer(what) = &chosen.target.start {
        return match asked {
            Asked::ByNamespace => Ok(Err(Skip::Headless { what: what.clone() })),
            Asked::ByPod => Err(Refusal::NoServer {
                container: name,
                what: what.clone(),
            }),
        };
    }
    let launch = match chosen.target.start {
        Start::Server(program) => {
            let target = &chosen.target;
            let words = &target.words;
            Some(Launch::read(
                program,
                target.container,
                words,
                &target.variables,
            )?)
        }
        _ => None,
    };
    let idle = launch
        .as_ref()
        .and_then(|launch| launch.serves_nothing.clone());
    if let Some(what) = idle {
        return Ok(Err(Skip::Headless { what }));
    }
    check_node(pod, context, wishes)?;
    check_protocol(&name, &chosen, launch.as_ref())?;
    let (takeover, engine) = (wishes.takeover, chosen.engine);
    let pairs = match (takeover, &launch) {
        (Takeover::Manual, launch) => manual(&name, launch.as_ref(), wishes, context)?,
        (_, None) => {
            let wanted = listen::wanted(wishes, context);
            let wanted = wanted.and_then(|(ports, _)| ports.first().copied());
            return Err(by_hand::refusal(&chosen.target, wanted));
        }
        (Takeover::Uds, Some(launch)) => socket(pod, &chosen, launch, wishes, context)?,
        (_, Some(launch)) => swap(pod, &chosen, launch, wishes, context)?,
    };
    let (isolation, ipv6) = isolation(&name, launch.as_ref(), wishes)?;
    let mut status = Status {
        v: status::VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        takeover,
        isolation,
        engine,
        container: name,
        engine_containers: chosen.held_back,
        ports: pairs,
        admin_port: wishes.admin_port,
        ipv6,
    };
    name_ports(pod, &chosen.target, &mut status)?;
    check_ports(pod, &status)?;
    warn(pod, &chosen.target, launch.as_ref(), &status, warnings);
    Ok(Ok(status))
}

fn not_an_engine(none: NoEngine, context: &Context, asked: Asked) -> Result<Skip, Refusal> {
    if asked == Asked::ByNamespace && context.pool.is_none() && !none.accelerated {
        return Ok(Skip::NoEngine);
    }
    Err(Refusal::NotAnEngine {
        container: none.container,
        what: none.what,
        help: none.help,
    })
}

fn check_node(pod: Pod<'_>, context: &Context, wishes: &Wishes) -> Result<(), Refusal> {
    if pod.is_windows() {
        return Err(Refusal::Windows);
    }
    if let Some(version) = context.operator.kubernetes {
        if version < ServerVersion::SIDECARS {
            return Err(Refusal::OldKubernetes { version });
        }
        if wishes.takeover == Takeover::Named && version < ServerVersion::NAMED_PORTS {
            return Err(Refusal::OldKubernetesForNames { version });
        }
    }
    if pod.host_network() {
        if !wishes.host_network {
            return Err(Refusal::HostNetwork);
        }
        if wishes.isolation == Isolation::NetworkPolicy {
            return Err(Refusal::HostNetworkPolicy);
        }
    }
    Ok(())
}

fn check_protocol(name: &str, chosen: &Chosen<'_>, launch: Option<&Launch>) -> Result<(), Refusal> {
    let container = || name.to_owned();
    let in_script = match &chosen.target.start {
        Start::Shell { script, .. } => {
            let flags = ["--ssl-certfile", "--ssl-keyfile"];
            let found = flags.iter().find(|flag| script.contains(**flag));
            found.map(|flag| (*flag).to_owned())
        }
        _ => None,
    };
    if let Some(sign) = launch.and_then(|launch| launch.tls.clone()).or(in_script) {
        let container = container();
        return Err(Refusal::Tls { container, sign });
    }
    if let Some(sign) = launch.and_then(|launch| launch.grpc.clone()) {
        let container = container();
        return Err(Refusal::Grpc { container, sign });
    }
    if let Some(path) = launch.and_then(|launch| launch.socket.clone()) {
        let container = container();
        return Err(Refusal::OwnSocket { container, path });
    }
    Ok(())
}

/// The ports of takeover Manual, checked against the command line where that can be read.
fn manual(
    name: &str,
    launch: Option<&Launch>,
    wishes: &Wishes,
    context: &Context,
) -> Result<Vec<PortPair>, Refusal> {
    let listen = listen::wanted(wishes, context).map(|(ports, _)| ports);
    let (Some(listen), Some(upstream)) = (listen, wishes.upstream_ports.clone()) else {
        return Err(Refusal::ManualPorts);
    };
    let both = listen.iter().any(|port| upstream.contains(port));
    if both || listen.len() != upstream.len() {
        return Err(Refusal::PortsDontMatch {
            listen: port_list::show(&listen),
            upstream: port_list::show(&upstream),
        });
    }
    if let Some(port) = launch.and_then(|launch| launch.port)
        && !upstream.contains(&port)
    {
        return Err(Refusal::NotMoved {
            wanted: port_list::show(&upstream),
            container: name.to_owned(),
            served: port,
        });
    }
    Ok(pairs(&listen, &upstream))
}

fn swap(
    pod: Pod<'_>,
    chosen: &Chosen<'_>,
    launch: &Launch,
    wishes: &Wishes,
    context: &Context,
) -> Result<Vec<PortPair>, Refusal> {
    let served = served(chosen, launch, wishes, context)?;
    let mut taken = listen::in_use(pod);
    taken.extend(&served);
    taken.insert(wishes.admin_port);
    let others = listen::shifted(&served, &taken)?;
    Ok(match wishes.takeover {
        // Here the sidecar goes to the new number.
        Takeover::Named => pairs(&others, &served),
        _ => pairs(&served, &others),
    })
}

fn socket(
    pod: Pod<'_>,
    chosen: &Chosen<'_>,
    launch: &Launch,
    wishes: &Wishes,
    context: &Context,
) -> Result<Vec<PortPair>, Refusal> {
    let target = &chosen.target;
    let container = || target.container.name().to_owned();
    let vllm = Start::Server(Program::Engine(Engine::Vllm));
    if target.start != vllm || launch.ports != 1 {
        let container = container();
        return Err(Refusal::NoSocket { container });
    }
    // vLLM binds with the usual umask, so only its own user may connect.
    if target.container.user(pod).unwrap_or(0) == 0 {
        let container = container();
        return Err(Refusal::SocketUser { container });
    }
    let served = served(chosen, launch, wishes, context)?;
    let pairs = served.into_iter().map(|listen| PortPair {
        listen,
        upstream: None,
        name: None,
        host_port: None,
    });
    Ok(pairs.collect())
}

fn served(
    chosen: &Chosen<'_>,
    launch: &Launch,
    wishes: &Wishes,
    context: &Context,
) -> Result<Vec<u16>, Refusal> {
    if wishes.upstream_ports.is_some() {
        let takeover = wishes.takeover;
        return Err(Refusal::UpstreamPorts { takeover });
    }
    listen::served(chosen.target.container, launch, wishes, context)
}

fn pairs(listen: &[u16], upstream: &[u16]) -> Vec<PortPair> {
    let pairs = listen.iter().zip(upstream);
    pairs
        .map(|(&listen, &upstream)| PortPair {
            listen,
            upstream: Some(upstream),
            name: None,
            host_port: None,
        })
        .collect()
}

/// What isolates in the end, and whether the engine is dialled as ::1.
fn isolation(
    name: &str,
    launch: Option<&Launch>,
    wishes: &Wishes,
) -> Result<(Isolation, bool), Refusal> {
    let wanted = wishes.isolation;
    let Some(launch) = launch else {
        return Ok((wanted, false));
    };
    if wishes.takeover == Takeover::Uds {
        return Ok((wanted, false));
    }
    if launch.host.is_loopback() {
        return Ok((Isolation::Loopback, launch.host.is_v6()));
    }
    let container = || name.to_owned();
    match (wanted, &launch.host) {
        (Isolation::Loopback, _) if wishes.takeover == Takeover::Manual => {
            Ok((wanted, launch.host.is_v6()))
        }
        (Isolation::Loopback, _) if !launch.has_host() => {
            let container = container();
            Err(Refusal::NoHostSetting { container })
        }
        (Isolation::Loopback, _) => Ok((wanted, false)),
        (_, crate::host::Host::One(host)) => Err(Refusal::HostUnreachable {
            container: container(),
            host: host.clone(),
        }),
        (_, host) => Ok((wanted, host.is_v6())),
    }
}

/// Takes the names and node ports that the engine's container declares for its ports.
fn name_ports(pod: Pod<'_>, target: &Candidate<'_>, status: &mut Status) -> Result<(), Refusal> {
    let named = status.takeover == Takeover::Named;
    for pair in &mut status.ports {
        let public = if named {
            pair.upstream.unwrap_or(pair.listen)
        } else {
            pair.listen
        };
        let declared = || {
            let ports = target.container.ports();
            ports.filter(move |port| port.number == public)
        };
        pair.name = declared().find_map(|port| port.name).map(str::to_owned);
        if !pod.host_network() {
            pair.host_port = declared().find_map(|port| port.host_port);
        }
        if named && pair.name.is_none() {
            return Err(Refusal::NoPortName {
                container: target.container.name().to_owned(),
                port: public,
            });
        }
    }
    Ok(())
}

fn check_ports(pod: Pod<'_>, status: &Status) -> Result<(), Refusal> {
    let write = format!("write {}: \"PORT\", another one", names::ADMIN_PORT_KEY);
    listen::check_free(pod, status.admin_port, None, &write)?;
    let both = |port: Option<u16>| port == Some(status.admin_port);
    let mut pairs = status.ports.iter();
    if pairs.any(|pair| both(Some(pair.listen)) || both(pair.upstream)) {
        return Err(Refusal::PortTaken {
            port: status.admin_port,
            holders: "the engine".to_owned(),
            write,
        });
    }
    let write = format!(
        "name the container that clients reach by {}: NAME, or declare the port only there",
        names::ENGINE_CONTAINER
    );
    for pair in &status.ports {
        listen::check_free(pod, pair.listen, Some(&status.container), &write)?;
    }
    Ok(())
}

fn warn(
    pod: Pod<'_>,
    target: &Candidate<'_>,
    launch: Option<&Launch>,
    status: &Status,
    warnings: &mut Vec<Warning>,
) {
    let container = target.container.name();
    let declared: Vec<u16> = target.container.ports().map(|port| port.number).collect();
    let first = status.ports.first();
    if let Some(first) = first {
        let served = match status.takeover {
            Takeover::Named => first.upstream.unwrap_or(first.listen),
            _ => first.listen,
        };
        let manual = status.takeover == Takeover::Manual;
        if !declared.is_empty() && !declared.contains(&served) && !manual {
            warnings.push(Warning::UndeclaredPort {
                container: container.to_owned(),
                port: served,
            });
        }
        if status.takeover == Takeover::Named {
            warnings.push(Warning::NamedOnly { port: served });
            let scraped = pod.annotation("prometheus.io/port");
            if scraped.and_then(|port| port.parse().ok()) == Some(served) {
                warnings.push(Warning::ScrapesEngine { port: served });
            }
        }
    }
    if let Some(place) = launch.and_then(|launch| launch.unread.clone())
        && place.starts_with('-')
    {
        warnings.push(Warning::Unread {
            container: container.to_owned(),
            place,
        });
    }
    if status.engine_containers.is_empty() {
        warnings.push(Warning::NoEngineContainer);
    }
}
