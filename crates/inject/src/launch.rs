//! How a server was told its port and address, engine by engine, and how to tell it others.
//!
//! ```text
//!           port                     address                    default
//! vLLM      --port                   --host                     8000, all addresses
//! TGI       --port, -p, PORT         --hostname, HOSTNAME       80 in its own image, all addresses
//! SGLang    --port                   --host                     30000, loopback
//! llm-d     --port                   (all addresses)            8000
//! ```
//!
//! The command line beats a configuration file in all of them, so a flag that is added moves the
//! engine whatever the file says. What the file says can't be read here: then the old port must be
//! told in another way.

use crate::{
    edit::Edit,
    host::Host,
    pod::Container,
    refusal::Refusal,
    start::{Program, is_tgi_image},
    variables::Variables,
    words::{self, FlagPlace, Word, flag, switch},
};
use fairtide_policy::Engine;
use serde_json::{Value, json};

/// The most ports of one engine.
pub(crate) const MAX_PORTS: u16 = 64;

/// How a server was started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The first port; `None`: it isn't known from the pod.
    pub(crate) port: Option<u16>,
    port_place: Place,
    /// How many ports in a row it serves.
    pub(crate) ports: u16,
    /// The address that it binds.
    pub(crate) host: Host,
    host_place: Option<Place>,
    /// Where a setting may be that can't be read here.
    pub(crate) unread: Option<String>,
    /// Why it serves no HTTP at all.
    pub(crate) serves_nothing: Option<String>,
    /// What says that it serves TLS.
    pub(crate) tls: Option<String>,
    /// What says that it serves gRPC.
    pub(crate) grpc: Option<String>,
    /// The Unix socket that it serves, in the place of a port.
    pub(crate) socket: Option<String>,
}

/// Where a setting stands.
#[derive(Clone, Debug)]
enum Place {
    Flag(FlagPlace),
    /// At this index of the variables.
    Variable(&'static str, usize),
    /// Nowhere yet: this flag is added.
    NewFlag(&'static str),
    /// Nowhere yet: this variable is added.
    NewVariable(&'static str),
}

// === impl Launch ===

impl Launch {
    /// Reads the settings of a server.
    pub(crate) fn read(
        program: Program,
        container: Container<'_>,
        words: &[Word<'_>],
        variables: &Variables<'_>,
    ) -> Result<Self, Refusal> {
        match program {
            Program::Engine(Engine::Vllm) => vllm(container, words),
            Program::Engine(Engine::Sglang) => sglang(container, words),
            Program::Engine(Engine::Tgi) => tgi(container, words, variables),
            Program::RoutingProxy => routing_proxy(container, words),
        }
    }

    /// Moves the server to another port.
    pub(crate) fn set_port(&self, edit: &mut Edit, container: Container<'_>, port: u16) {
        self.port_place.write(edit, container, &port.to_string());
    }

    /// The variable that its port is set by.
    pub(crate) fn port_variable(&self) -> Option<&'static str> {
        match self.port_place {
            Place::Variable(name, _) => Some(name),
            _ => None,
        }
    }

    /// Whether its address can be set.
    pub(crate) fn has_host(&self) -> bool {
        self.host_place.is_some()
    }

    /// Lets the server bind loopback only.
    pub(crate) fn set_loopback(&self, edit: &mut Edit, container: Container<'_>) {
        if let Some(place) = &self.host_place
            && !self.host.is_loopback()
        {
            place.write(edit, container, "127.0.0.1");
        }
    }
}

/// Lets vLLM serve a Unix socket.
pub(crate) fn set_socket(
    edit: &mut Edit,
    container: Container<'_>,
    words: &[Word<'_>],
    path: &str,
) {
    match flag(words, &["--uds"]) {
        Some(found) => words::write(edit, container, &found.place, path),
        None => words::append(edit, container, &["--uds", path]),
    }
}

fn vllm(container: Container<'_>, words: &[Word<'_>]) -> Result<Launch, Refusal> {
    let config = flag(words, &["--config"]).is_some();
    let ranks = if switch(words, &["--data-parallel-multi-port-external-lb"]) == Some(true) {
        let local = flag(words, &["--data-parallel-size-local", "-dpl"]);
        let local = local.and_then(|local| local.value);
        local_ranks(container, "--data-parallel-size-local", local)?
    } else {
        1
    };
    let (host, host_place) = host(words, "--host", Host::Any);
    let (port, port_place) = port(container, words, &["--port"], (!config).then_some(8000))?;
    Ok(Launch {
        port,
        port_place,
        ports: ranks,
        host,
        host_place: Some(host_place),
        unread: config.then(|| "--config".to_owned()),
        serves_nothing: switch(words, &["--headless"])
            .filter(|&on| on)
            .map(|_| "vLLM --headless".to_owned()),
        tls: given(words, &["--ssl-certfile", "--ssl-keyfile"]),
        grpc: switch(words, &["--grpc"])
            .filter(|&on| on)
            .map(|_| "--grpc".to_owned()),
        socket: flag(words, &["--uds"]).map(|uds| uds.value.unwrap_or_default()),
    })
}

fn sglang(container: Container<'_>, words: &[Word<'_>]) -> Result<Launch, Refusal> {
    let config = flag(words, &["--config"]).is_some();
    let rank = flag(words, &["--node-rank"]).and_then(|rank| rank.value);
    let default = if config { Host::Any } else { Host::Loopback };
    let (host, host_place) = host(words, "--host", default);
    let (port, port_place) = port(container, words, &["--port"], (!config).then_some(30_000))?;
    let grpc = ["--grpc-mode", "--smg-grpc-mode"];
    Ok(Launch {
        port,
        port_place,
        ports: 1,
        host,
        host_place: Some(host_place),
        unread: config.then(|| "--config".to_owned()),
        serves_nothing: rank
            .filter(|rank| rank != "0")
            .map(|rank| format!("SGLang --node-rank {rank}")),
        tls: given(words, &["--ssl-certfile", "--ssl-keyfile"]),
        grpc: grpc
            .iter()
            .find(|name| switch(words, &[name]) == Some(true))
            .map(|name| (*name).to_owned()),
        socket: None,
    })
}

fn tgi(
    container: Container<'_>,
    words: &[Word<'_>],
    variables: &Variables<'_>,
) -> Result<Launch, Refusal> {
    let own_image = is_tgi_image(container.image());
    let default = (own_image && !container.has_env_from()).then_some(80);
    let (port, port_place) = match (flag(words, &["--port", "-p"]), variables.get("PORT")) {
        (Some(_), _) => self::port(container, words, &["--port", "-p"], default)?,
        (None, Some(variable)) => {
            let value = variable.value.as_deref();
            let port = value
                .map(|value| number(container, "PORT", value))
                .transpose()?;
            (port, Place::Variable("PORT", variable.index))
        }
        (None, None) => (default, Place::NewVariable("PORT")),
    };
    // The kubelet sets HOSTNAME to the pod's name, which TGI takes for all addresses; so does it
    // with every name.
    let parse = |text: &str| match Host::parse(text) {
        Host::Loopback if text == "localhost" => Host::Any,
        Host::One(name) if name.parse::<std::net::IpAddr>().is_err() => Host::Any,
        host => host,
    };
    let (host, host_place) = match (flag(words, &["--hostname"]), variables.get("HOSTNAME")) {
        (Some(found), _) => {
            let host = match &found.value {
                Some(text) => parse(text),
                None => Host::One(found.text),
            };
            (host, Place::Flag(found.place))
        }
        (None, Some(variable)) => {
            let host = match &variable.value {
                Some(text) => parse(text),
                None => Host::One("HOSTNAME".to_owned()),
            };
            (host, Place::Variable("HOSTNAME", variable.index))
        }
        (None, None) => (Host::Any, Place::NewVariable("HOSTNAME")),
    };
    Ok(Launch {
        port,
        port_place,
        ports: 1,
        host,
        host_place: Some(host_place),
        unread: port
            .is_none()
            .then(|| "the image or the variable PORT".to_owned()),
        serves_nothing: None,
        tls: None,
        grpc: None,
        socket: None,
    })
}

fn routing_proxy(container: Container<'_>, words: &[Word<'_>]) -> Result<Launch, Refusal> {
    let config = ["--configuration", "--configuration-file"];
    let config = config.iter().find(|name| flag(words, &[name]).is_some());
    let size = flag(words, &["--data-parallel-size"]);
    let ranks = match size {
        Some(size) => local_ranks(container, "--data-parallel-size", size.value)?,
        None => 1,
    };
    let default = config.is_none().then_some(8000);
    let (port, port_place) = port(container, words, &["--port"], default)?;
    // It serves TLS unless it is told not to.
    let secure = switch(words, &["--secure-serving", "--secure-proxy"]);
    Ok(Launch {
        port,
        port_place,
        ports: ranks,
        host: Host::Any,
        host_place: None,
        unread: config.map(|name| (*name).to_owned()),
        serves_nothing: None,
        tls: (secure != Some(false))
            .then(|| "unless --secure-proxy=false or --secure-serving=false".to_owned()),
        grpc: None,
        socket: None,
    })
}

fn port(
    container: Container<'_>,
    words: &[Word<'_>],
    names: &[&'static str],
    default: Option<u16>,
) -> Result<(Option<u16>, Place), Refusal> {
    let name = names.first().copied().unwrap_or("--port");
    match flag(words, names) {
        Some(found) => {
            let port = found.value.as_deref();
            let port = port.map(|text| number(container, name, text)).transpose()?;
            Ok((port, Place::Flag(found.place)))
        }
        None => Ok((default, Place::NewFlag(name))),
    }
}

fn host(words: &[Word<'_>], name: &'static str, default: Host) -> (Host, Place) {
    match flag(words, &[name]) {
        Some(found) => {
            let host = match &found.value {
                Some(text) => Host::parse(text),
                None => Host::One(found.text),
            };
            (host, Place::Flag(found.place))
        }
        None => (default, Place::NewFlag(name)),
    }
}

fn number(container: Container<'_>, name: &str, text: &str) -> Result<u16, Refusal> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(Refusal::BadPort {
            container: container.name().to_owned(),
            name: name.to_owned(),
            value: text.to_owned(),
        }),
    }
}

fn local_ranks(
    container: Container<'_>,
    flag: &'static str,
    size: Option<String>,
) -> Result<u16, Refusal> {
    let ranks = size.and_then(|size| size.parse().ok());
    ranks
        .filter(|ranks| (1..=MAX_PORTS).contains(ranks))
        .ok_or_else(|| Refusal::BadRanks {
            container: container.name().to_owned(),
            flag,
        })
}

fn given(words: &[Word<'_>], names: &[&str]) -> Option<String> {
    let mut names = names.iter();
    names
        .find(|name| flag(words, &[name]).is_some())
        .map(|name| (*name).to_owned())
}

// === impl Place ===

impl Place {
    fn write(&self, edit: &mut Edit, container: Container<'_>, value: &str) {
        match self {
            Self::Flag(place) => words::write(edit, container, place, value),
            Self::NewFlag(name) => words::append(edit, container, &[name, value]),
            Self::NewVariable(name) => {
                let variable = json!({ "name": name, "value": value });
                edit.push(&format!("{}/env", container.path()), variable);
            }
            Self::Variable(_, index) => {
                let path = format!("{}/env/{index}", container.path());
                edit.remove(&format!("{path}/valueFrom"));
                edit.set(&format!("{path}/value"), Value::String(value.to_owned()));
            }
        }
    }
}
