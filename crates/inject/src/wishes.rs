//! What is wished for a pod: by its annotations, else by its pool, else by its namespace's
//! annotations, else the defaults.
//!
//! An annotation that nobody reads is refused: a misspelt `takover: Manual` would otherwise swap
//! ports in silence.

use crate::{
    context::{Context, PoolSettings},
    names,
    pod::Pod,
    port_list, quantity,
    refusal::Refusal,
    resources::Resources,
    takeover::{Isolation, Takeover},
};
use fairtide_policy::Engine;
use std::collections::BTreeMap;

/// Running requests get five minutes by default.
const DRAIN_SECONDS: u32 = 300;
/// A day.
const MAX_DRAIN_SECONDS: u32 = 86_400;

/// The pods of a LeaderWorkerSet that serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LwsRoles {
    #[default]
    Leader,
    All,
}

/// What is wished.
#[derive(Clone, Debug)]
pub(crate) struct Wishes {
    pub(crate) takeover: Takeover,
    pub(crate) isolation: Isolation,
    /// What the image is said to be, and who says so.
    pub(crate) engine: Option<(Engine, String)>,
    pub(crate) engine_container: Option<String>,
    pub(crate) listen_ports: Option<Vec<u16>>,
    pub(crate) upstream_ports: Option<Vec<u16>>,
    pub(crate) admin_port: u16,
    pub(crate) drain_seconds: u32,
    pub(crate) host_network: bool,
    pub(crate) lws_roles: LwsRoles,
    pub(crate) resources: Resources,
    /// What the pod itself says, for comparison with what was done before.
    pub(crate) pod_takeover: Option<Takeover>,
    pub(crate) pod_isolation: Option<Isolation>,
}

/// Annotations of one object, read.
#[derive(Default)]
struct Written {
    takeover: Option<Takeover>,
    isolation: Option<Isolation>,
    engine: Option<Engine>,
    engine_container: Option<String>,
    listen_ports: Option<Vec<u16>>,
    upstream_ports: Option<Vec<u16>>,
    admin_port: Option<u16>,
    drain_seconds: Option<u32>,
    host_network: Option<bool>,
    lws_roles: Option<LwsRoles>,
    resources: Resources,
}

// === impl Wishes ===

impl Wishes {
    pub(crate) fn read(pod: Pod<'_>, context: &Context) -> Result<Self, Refusal> {
        for (key, _) in pod.annotations() {
            if key.starts_with(names::PREFIX) && !names::ANNOTATIONS.contains(&key) {
                let key = key.to_owned();
                return Err(Refusal::UnknownAnnotation { key });
            }
        }
        let by_pod = Written::read(|key| pod.annotation(key))?;
        let by_namespace = &context.namespace.annotations;
        let by_namespace = Written::read(|key| of_namespace(by_namespace, key))?;
        let defaults = PoolSettings::default();
        let pool = context.pool.as_ref();
        let by_pool = pool.map_or(&defaults, |pool| &pool.settings);
        let said = by_pod
            .engine
            .map(|engine| (engine, format!("annotation {}", names::ENGINE)));
        let said_by_pool = || {
            let pool = pool?;
            let name = format!("InferencePool {}/{}", pool.namespace, pool.name);
            Some((pool.engine?, name))
        };
        Ok(Self {
            takeover: by_pod
                .takeover
                .or(by_pool.takeover)
                .or(by_namespace.takeover)
                .unwrap_or_default(),
            isolation: by_pod
                .isolation
                .or(by_pool.isolation)
                .or(by_namespace.isolation)
                .unwrap_or_default(),
            engine: said.or_else(said_by_pool),
            engine_container: by_pod.engine_container,
            listen_ports: by_pod.listen_ports,
            upstream_ports: by_pod.upstream_ports,
            admin_port: by_pod
                .admin_port
                .or(by_namespace.admin_port)
                .unwrap_or(names::ADMIN_PORT),
            drain_seconds: by_pod
                .drain_seconds
                .or(by_pool.drain_seconds)
                .or(by_namespace.drain_seconds)
                .unwrap_or(DRAIN_SECONDS)
                .min(MAX_DRAIN_SECONDS),
            host_network: by_pod.host_network.unwrap_or_default(),
            lws_roles: by_pod
                .lws_roles
                .or(by_namespace.lws_roles)
                .unwrap_or_default(),
            resources: by_pod
                .resources
                .or(&by_pool.resources)
                .or(&by_namespace.resources),
            pod_takeover: by_pod.takeover,
            pod_isolation: by_pod.isolation,
        })
    }

    /// What the image is said to be.
    pub(crate) fn known_engine(&self) -> Option<Engine> {
        self.engine.as_ref().map(|(engine, _)| *engine)
    }
}

/// Keys that make sense for all pods of a namespace.
fn of_namespace<'a>(annotations: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    let for_one_pod = [
        names::ENGINE,
        names::ENGINE_CONTAINER,
        names::LISTEN_PORTS,
        names::UPSTREAM_PORTS,
        names::HOST_NETWORK,
    ];
    if for_one_pod.contains(&key) {
        return None;
    }
    annotations.get(key).map(String::as_str)
}

// === impl Written ===

impl Written {
    fn read<'a>(get: impl Fn(&'static str) -> Option<&'a str>) -> Result<Self, Refusal> {
        let mut resources = Resources::default();
        let Resources { requests, limits } = &mut resources;
        for (key, kind, resource) in [
            (names::CPU_REQUEST, &mut *requests, "cpu"),
            (names::CPU_LIMIT, &mut *limits, "cpu"),
        ] {
            add_quantity(key, get(key), kind, resource)?;
        }
        for (key, kind, resource) in [
            (names::MEMORY_REQUEST, requests, "memory"),
            (names::MEMORY_LIMIT, limits, "memory"),
        ] {
            add_quantity(key, get(key), kind, resource)?;
        }
        let read_port = |text: &str| text.parse().ok().filter(|&port: &u16| port > 0);
        let read_drain = |text: &str| {
            let seconds = text.parse().ok();
            seconds.filter(|seconds| (1..=MAX_DRAIN_SECONDS).contains(seconds))
        };
        let ports = "ports, such as \"8000\", \"8000,8001\" or \"8000-8007\"";
        Ok(Self {
            takeover: read(&get, names::TAKEOVER, Takeover::WORDS, Takeover::from_word)?,
            isolation: read(
                &get,
                names::ISOLATION,
                Isolation::WORDS,
                Isolation::from_word,
            )?,
            engine: read(&get, names::ENGINE, Engine::WORDS, Engine::from_word)?,
            engine_container: read(&get, names::ENGINE_CONTAINER, "a name", |name| {
                (!name.is_empty()).then(|| name.to_owned())
            })?,
            listen_ports: read(&get, names::LISTEN_PORTS, ports, port_list::parse)?,
            upstream_ports: read(&get, names::UPSTREAM_PORTS, ports, port_list::parse)?,
            admin_port: read(&get, names::ADMIN_PORT_KEY, "a port, 1 to 65535", read_port)?,
            drain_seconds: read(
                &get,
                names::DRAIN_SECONDS,
                "whole seconds, 1 to 86400",
                read_drain,
            )?,
            host_network: read(
                &get,
                names::HOST_NETWORK,
                "enabled or disabled",
                |word| match word {
                    names::ENABLED => Some(true),
                    names::DISABLED => Some(false),
                    _ => None,
                },
            )?,
            lws_roles: read(&get, names::LWS_ROLES, "Leader or All", |word| match word {
                "Leader" => Some(LwsRoles::Leader),
                "All" => Some(LwsRoles::All),
                _ => None,
            })?,
            resources,
        })
    }
}

fn read<'a, T>(
    get: impl Fn(&'static str) -> Option<&'a str>,
    key: &'static str,
    write: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Refusal> {
    let Some(value) = get(key) else {
        return Ok(None);
    };
    match parse(value) {
        Some(read) => Ok(Some(read)),
        None => Err(Refusal::BadAnnotation {
            key,
            value: value.to_owned(),
            write: write.to_owned(),
        }),
    }
}

fn add_quantity(
    key: &'static str,
    value: Option<&str>,
    kind: &mut BTreeMap<String, String>,
    resource: &str,
) -> Result<(), Refusal> {
    let wanted = "a quantity, such as 500m or 1Gi";
    let amount = read(
        |_| value,
        key,
        wanted,
        |value| quantity::parse(value).map(|_| value.to_owned()),
    )?;
    if let Some(amount) = amount {
        kind.insert(resource.to_owned(), amount);
    }
    Ok(())
}
