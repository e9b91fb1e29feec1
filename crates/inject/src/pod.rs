//! Reads a pod whose shape has been checked.

use crate::{names, refusal::Refusal, shape};
use serde_json::Value;

/// A pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pod<'a> {
    value: &'a Value,
}

/// The list that a container is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Init,
    App,
}

/// A container of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container<'a> {
    pub(crate) list: List,
    index: usize,
    value: &'a Value,
}

/// An entry of a container's ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeclaredPort<'a> {
    pub(crate) index: usize,
    pub(crate) name: Option<&'a str>,
    pub(crate) number: u16,
    pub(crate) host_port: Option<u16>,
}

/// The three probes of a container.
pub(crate) const PROBES: [&str; 3] = ["startupProbe", "livenessProbe", "readinessProbe"];
/// The two hooks of a container.
pub(crate) const HOOKS: [&str; 2] = ["postStart", "preStop"];

/// What a pod without it gets.
const DEFAULT_GRACE_SECONDS: i64 = 30;

// === impl Pod ===

impl<'a> Pod<'a> {
    pub(crate) fn read(value: &'a Value) -> Result<Self, Refusal> {
        shape::check(value)?;
        Ok(Self { value })
    }

    pub(crate) fn value(self) -> &'a Value {
        self.value
    }

    fn metadata(self, map: &str, key: &str) -> Option<&'a str> {
        self.value.get("metadata")?.get(map)?.get(key)?.as_str()
    }

    pub(crate) fn label(self, key: &str) -> Option<&'a str> {
        self.metadata("labels", key)
    }

    pub(crate) fn annotation(self, key: &str) -> Option<&'a str> {
        self.metadata("annotations", key)
    }

    pub(crate) fn annotations(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.value.pointer("/metadata/annotations");
        let annotations = annotations.and_then(Value::as_object);
        let annotations = annotations.into_iter().flatten();
        annotations.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    pub(crate) fn has_owner(self, kind: &str) -> bool {
        let owners = self.value.pointer("/metadata/ownerReferences");
        let owners = owners.and_then(Value::as_array).into_iter().flatten();
        let mut kinds = owners.filter_map(|owner| owner.get("kind")?.as_str());
        kinds.any(|owner| owner == kind)
    }

    /// A field of the spec; null counts as nothing.
    pub(crate) fn spec(self, field: &str) -> Option<&'a Value> {
        self.value
            .get("spec")?
            .get(field)
            .filter(|value| !value.is_null())
    }

    pub(crate) fn is_true(self, field: &str) -> bool {
        self.spec(field) == Some(&Value::Bool(true))
    }

    pub(crate) fn host_network(self) -> bool {
        self.is_true("hostNetwork")
    }

    pub(crate) fn is_windows(self) -> bool {
        let os = self.spec("os").and_then(|os| os.get("name"));
        os.and_then(Value::as_str) == Some("windows")
    }

    pub(crate) fn restart_policy(self) -> &'a str {
        let policy = self.spec("restartPolicy").and_then(Value::as_str);
        policy.unwrap_or("Always")
    }

    pub(crate) fn grace_seconds(self) -> i64 {
        let grace = self.spec("terminationGracePeriodSeconds");
        let grace = grace.and_then(Value::as_i64);
        grace.unwrap_or(DEFAULT_GRACE_SECONDS)
    }

    fn list(self, list: List) -> impl Iterator<Item = Container<'a>> {
        let containers = self.spec(list.field()).and_then(Value::as_array);
        let containers = containers.into_iter().flatten().enumerate();
        containers.map(move |(index, value)| Container { list, index, value })
    }

    /// All containers, init containers first. The sidecar itself is not among them.
    pub(crate) fn containers(self) -> impl Iterator<Item = Container<'a>> {
        let all = self.list(List::Init).chain(self.list(List::App));
        all.filter(|container| container.name() != names::SIDECAR)
    }

    pub(crate) fn container(self, name: &str) -> Option<Container<'a>> {
        self.containers().find(|container| container.name() == name)
    }

    /// The sidecar, wherever it is.
    pub(crate) fn sidecar(self) -> Option<Container<'a>> {
        let mut all = self.list(List::Init).chain(self.list(List::App));
        all.find(|container| container.name() == names::SIDECAR)
    }

    pub(crate) fn has_volume(self, name: &str) -> bool {
        let volumes = self.spec("volumes").and_then(Value::as_array);
        let mut volumes = volumes.into_iter().flatten();
        volumes.any(|volume| volume.get("name").and_then(Value::as_str) == Some(name))
    }
}

// === impl List ===

impl List {
    fn field(self) -> &'static str {
        match self {
            Self::Init => "initContainers",
            Self::App => "containers",
        }
    }
}

// === impl Container ===

impl<'a> Container<'a> {
    /// Where it is in the pod, as a JSON pointer.
    pub(crate) fn path(self) -> String {
        format!("/spec/{}/{}", self.list.field(), self.index)
    }

    /// A field; null counts as nothing.
    pub(crate) fn get(self, field: &str) -> Option<&'a Value> {
        self.value.get(field).filter(|value| !value.is_null())
    }

    fn text(self, field: &str) -> Option<&'a str> {
        self.get(field)?.as_str()
    }

    pub(crate) fn name(self) -> &'a str {
        self.text("name").unwrap_or_default()
    }

    pub(crate) fn image(self) -> &'a str {
        self.text("image").unwrap_or_default()
    }

    /// Whether it runs for as long as the pod does.
    pub(crate) fn stays(self) -> bool {
        self.list == List::App || self.restarts_always()
    }

    pub(crate) fn restarts_always(self) -> bool {
        self.text("restartPolicy") == Some("Always")
    }

    pub(crate) fn array(self, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let list = self.get(field).and_then(Value::as_array);
        list.into_iter().flatten()
    }

    pub(crate) fn has_env_from(self) -> bool {
        self.array("envFrom").next().is_some()
    }

    /// Its TCP ports.
    pub(crate) fn ports(self) -> impl Iterator<Item = DeclaredPort<'a>> + use<'a> {
        let ports = self.array("ports").enumerate();
        ports.filter_map(|(index, port)| {
            let text = |field: &str| port.get(field).and_then(Value::as_str);
            let number = |field: &str| {
                let number = port.get(field)?.as_u64()?;
                u16::try_from(number).ok().filter(|&number| number > 0)
            };
            if !matches!(text("protocol"), None | Some("TCP")) {
                return None;
            }
            Some(DeclaredPort {
                index,
                name: text("name").filter(|name| !name.is_empty()),
                number: number("containerPort")?,
                host_port: number("hostPort"),
            })
        })
    }

    /// The number that a probe or a hook of this container means: a number, a number in a string,
    /// or the name of one of its own ports.
    pub(crate) fn resolve_port(self, port: &Value) -> Option<u16> {
        match port {
            Value::Number(number) => u16::try_from(number.as_u64()?).ok(),
            Value::String(name) => {
                let mut ports = self.ports();
                let named = ports.find(|port| port.name == Some(name));
                named.map(|port| port.number).or_else(|| name.parse().ok())
            }
            _ => None,
        }
    }

    /// Its probes and hooks that are there: path in the pod, field, value.
    pub(crate) fn handlers(self) -> impl Iterator<Item = (String, &'static str, &'a Value)> {
        let probes = PROBES.into_iter().filter_map(move |probe| {
            let path = format!("{}/{probe}", self.path());
            Some((path, probe, self.get(probe)?))
        });
        probes.chain(self.hooks())
    }

    pub(crate) fn hooks(self) -> impl Iterator<Item = (String, &'static str, &'a Value)> {
        HOOKS.into_iter().filter_map(move |hook| {
            let path = format!("{}/lifecycle/{hook}", self.path());
            let value = self.get("lifecycle")?.get(hook)?;
            (!value.is_null()).then_some((path, hook, value))
        })
    }

    /// Whether it asks for a GPU or another accelerator.
    pub(crate) fn has_accelerator(self) -> bool {
        let resources = self.get("resources");
        let asks = |kind: &str| {
            let asked = resources.and_then(|resources| resources.get(kind)?.as_object());
            let mut asked = asked.into_iter().flatten();
            // Extended resources have a domain of their own; the built-in ones have none.
            asked.any(|(resource, _)| {
                let domain = resource.split_once('/').map(|(domain, _)| domain);
                domain.is_some_and(|domain| domain != "kubernetes.io" && !domain.is_empty())
            })
        };
        let claims = resources.and_then(|resources| resources.get("claims")?.as_array());
        asks("limits") || asks("requests") || claims.is_some_and(|claims| !claims.is_empty())
    }

    /// The user that it runs as, where the pod says so.
    pub(crate) fn user(self, pod: Pod<'_>) -> Option<i64> {
        let user = |context: Option<&Value>| context?.get("runAsUser")?.as_i64();
        user(self.get("securityContext")).or_else(|| user(pod.spec("securityContext")))
    }
}
