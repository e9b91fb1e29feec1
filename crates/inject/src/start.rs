//! What a container starts, by its command line, or by its image where no command is written.
//!
//! Only what is surely understood counts. A program in front that hands its arguments on (an init
//! process, `numactl`) is looked through; a shell isn't, since what it does with its arguments is
//! in the script.

use crate::{pod::Container, words::Word};
use fairtide_policy::Engine;

/// A server whose command line is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// An engine.
    Engine(Engine),
    /// llm-d's sidecar between a pod's port and its engine, for prefill and decode apart.
    RoutingProxy,
}

/// What a container starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// A server.
    Server(Program),
    /// A program of an engine that serves nothing, such as `vllm bench`.
    NoServer(String),
    /// A shell with a script.
    Shell {
        /// `bash -c`, say.
        shell: String,
        /// The script's text, as far as it is in the pod.
        script: String,
    },
    /// Another program.
    Unknown(String),
    /// Whatever its image starts.
    Image,
}

const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"];

/// Programs that start the rest of their line.
const LOOKED_THROUGH: &[&str] = &[
    "tini",
    "dumb-init",
    "catatonit",
    "env",
    "nice",
    "numactl",
    "taskset",
    "stdbuf",
    "nsys",
    "nvidia_entrypoint.sh",
    "opentelemetry-instrument",
    "ddtrace-run",
];

/// Modules and scripts that serve.
const MODULES: &[(&str, Engine)] = &[
    ("vllm.entrypoints.openai.api_server", Engine::Vllm),
    ("vllm.entrypoints.api_server", Engine::Vllm),
    ("sglang.launch_server", Engine::Sglang),
];
/// Modules that take a subcommand as the program does.
const COMMAND_MODULES: &[(&str, Engine)] = &[
    ("vllm", Engine::Vllm),
    ("vllm.entrypoints.cli.main", Engine::Vllm),
    ("sglang", Engine::Sglang),
    ("sglang.cli.main", Engine::Sglang),
];

/// Words in a script that give an engine away.
const TRACES: &[(&str, Engine)] = &[
    ("vllm serve", Engine::Vllm),
    ("vllm.entrypoints", Engine::Vllm),
    ("sglang.launch_server", Engine::Sglang),
    ("sglang serve", Engine::Sglang),
    ("text-generation-launcher", Engine::Tgi),
];

/// What a container starts. `known` is what somebody said its image is.
pub(crate) fn start(container: Container<'_>, words: &[Word<'_>], known: Option<Engine>) -> Start {
    if container.get("command").is_none_or(is_empty) {
        return match by_image(container.image()).or(known.map(Program::Engine)) {
            Some(program) => Start::Server(program),
            None => Start::Image,
        };
    }
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    by_words(&words)
}

/// The engine that a script seems to start.
pub(crate) fn engine_in(script: &str) -> Option<Engine> {
    let mut traces = TRACES.iter();
    traces
        .find(|(trace, _)| script.contains(trace))
        .map(|&(_, engine)| engine)
}

fn is_empty(command: &serde_json::Value) -> bool {
    command.as_array().is_some_and(Vec::is_empty)
}

fn by_image(image: &str) -> Option<Program> {
    let last = image.rsplit('/').next()?;
    let name = last.split([':', '@']).next()?;
    match name {
        "vllm-openai" => Some(Program::Engine(Engine::Vllm)),
        "text-generation-inference" => Some(Program::Engine(Engine::Tgi)),
        "llm-d-routing-sidecar" => Some(Program::RoutingProxy),
        _ => None,
    }
}

/// Whether this is TGI's own image, which sets `PORT` to 80.
pub(crate) fn is_tgi_image(image: &str) -> bool {
    by_image(image) == Some(Program::Engine(Engine::Tgi))
}

fn by_words(words: &[&str]) -> Start {
    let Some(&first) = words.first() else {
        return Start::Image;
    };
    if let Some(start) = at(words) {
        return start;
    }
    if LOOKED_THROUGH.contains(&base(first)) {
        // The variables that `env` sets come after the pod's; a port among them is out of reach.
        let sets_a_port = |word: &&str| word.starts_with("PORT=") || word.starts_with("HOSTNAME=");
        let starts = (1..words.len()).find_map(|from| Some((from, at(&words[from..])?)));
        if let Some((from, start)) = starts
            && !words[..from].iter().any(sets_a_port)
        {
            return start;
        }
    }
    Start::Unknown(first.to_owned())
}

/// What starts at the first of these words, if it is known.
fn at(words: &[&str]) -> Option<Start> {
    let (&first, rest) = words.split_first()?;
    let program = base(first);
    if SHELLS.contains(&program) {
        let inline = rest.iter().find(|word| is_command_option(word));
        return Some(Start::Shell {
            shell: match inline {
                Some(option) => format!("{program} {option}"),
                None => program.to_owned(),
            },
            script: rest.join(" "),
        });
    }
    if is_python(program) {
        return python(rest);
    }
    match program {
        "vllm" => command(Engine::Vllm, program, rest),
        "sglang" => command(Engine::Sglang, program, rest),
        "text-generation-launcher" | "tgi-entrypoint.sh" => Some(engine(Engine::Tgi)),
        "pd-sidecar" | "llm-d-routing-sidecar" => Some(Start::Server(Program::RoutingProxy)),
        _ => None,
    }
}

fn command(of: Engine, program: &str, rest: &[&str]) -> Option<Start> {
    match *rest.first()? {
        "serve" => Some(engine(of)),
        other if other.starts_with('-') => None,
        other => Some(Start::NoServer(format!("{program} {other}"))),
    }
}

fn python(words: &[&str]) -> Option<Start> {
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "-m" => {
                let module = words.next()?;
                if let Some(of) = find(MODULES, module) {
                    return Some(engine(of));
                }
                let of = find(COMMAND_MODULES, module)?;
                let rest: Vec<&str> = words.collect();
                return command(of, module, &rest);
            }
            "-X" | "-W" => {
                words.next();
            }
            _ if word.starts_with('-') => {}
            // A console script, or a module's file.
            _ if base(word) == "vllm" => {
                let rest: Vec<&str> = words.collect();
                return command(Engine::Vllm, "vllm", &rest);
            }
            _ => {
                let module = word.trim_end_matches(".py").replace('/', ".");
                let mut modules = MODULES.iter();
                let found = modules.find(|(name, _)| {
                    let before = module.strip_suffix(name);
                    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
                });
                return found.map(|&(_, of)| engine(of));
            }
        }
    }
    None
}

fn find(modules: &[(&str, Engine)], module: &str) -> Option<Engine> {
    let mut modules = modules.iter();
    modules
        .find(|(name, _)| *name == module)
        .map(|&(_, engine)| engine)
}

fn engine(engine: Engine) -> Start {
    Start::Server(Program::Engine(engine))
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_python(program: &str) -> bool {
    program.strip_prefix("python").is_some_and(|version| {
        version
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}

/// `-c`, also among other short options (`-lc`).
fn is_command_option(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|options| !options.starts_with('-') && options.contains('c'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VLLM: Start = Start::Server(Program::Engine(Engine::Vllm));
    const SGLANG: Start = Start::Server(Program::Engine(Engine::Sglang));
    const TGI: Start = Start::Server(Program::Engine(Engine::Tgi));
    const PROXY: Start = Start::Server(Program::RoutingProxy);

    #[test]
    fn engines_are_recognised_by_how_they_are_started() {
        for (line, start) in [
            ("vllm serve meta/llama --port 8000", VLLM),
            ("/opt/venv/bin/vllm serve x", VLLM),
            (
                "python3 -m vllm.entrypoints.openai.api_server --model x",
                VLLM,
            ),
            (
                "python -u -X dev -m vllm.entrypoints.openai.api_server",
                VLLM,
            ),
            ("python3.12 -m vllm serve x", VLLM),
            ("python3 /opt/venv/bin/vllm serve x", VLLM),
            ("python3 /src/vllm/entrypoints/openai/api_server.py", VLLM),
            ("tini -s -g -- vllm serve x", VLLM),
            (
                "numactl --cpunodebind 0 python -m sglang.launch_server",
                SGLANG,
            ),
            ("/usr/bin/env HF_HOME=/x vllm serve x", VLLM),
            ("sglang serve --model-path x", SGLANG),
            ("text-generation-launcher --port 80", TGI),
            ("/tgi-entrypoint.sh --json-output", TGI),
            ("env A=b text-generation-launcher", TGI),
            ("/app/pd-sidecar --port=8000", PROXY),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(by_words(&words), start, "{line}");
        }
    }

    #[test]
    fn what_is_not_surely_an_engine_is_none() {
        for (line, program) in [
            ("/start.sh --port 8000", "/start.sh"),
            ("ray start --head", "ray"),
            ("python3 app.py", "python3"),
            ("python3 -m sglang_router.launch_router", "python3"),
            ("python3 -m myvllm.entrypoints.openai.api_server", "python3"),
            ("python3 x_vllm/entrypoints/openai/api_server.py", "python3"),
            ("env PORT=90 text-generation-launcher", "env"),
            ("torchrun vllm serve x", "torchrun"),
            ("vllm --version", "vllm"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(
                by_words(&words),
                Start::Unknown(program.to_owned()),
                "{line}"
            );
        }
        assert_eq!(
            by_words(&["vllm", "bench", "serve"]),
            Start::NoServer("vllm bench".to_owned())
        );
    }

    #[test]
    fn shells_are_seen_through_an_init_process_too() {
        for (line, shell) in [
            (vec!["bash", "-c", "vllm serve x"], "bash -c"),
            (vec!["/bin/sh", "-lc", "vllm serve x"], "sh -lc"),
            (vec!["tini", "--", "sh", "-ec", "vllm serve x"], "sh -ec"),
            (vec!["bash", "/scripts/run.sh", "--port", "8000"], "bash"),
        ] {
            match by_words(&line) {
                Start::Shell { shell: found, .. } => assert_eq!(found, shell),
                other => panic!("{line:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn images_that_are_the_server_are_known_by_name() {
        let engine = Program::Engine;
        for (image, program) in [
            ("vllm/vllm-openai:v0.11.0", Some(engine(Engine::Vllm))),
            (
                "reg.corp:5000/mirror/vllm-openai@sha256:1",
                Some(engine(Engine::Vllm)),
            ),
            (
                "ghcr.io/huggingface/text-generation-inference:3.3.4",
                Some(engine(Engine::Tgi)),
            ),
            (
                "ghcr.io/llm-d/llm-d-routing-sidecar:v0.4.0",
                Some(Program::RoutingProxy),
            ),
            ("lmsysorg/sglang:latest", None),
            ("rocm/vllm:latest", None),
            ("", None),
        ] {
            assert_eq!(by_image(image), program, "{image}");
        }
    }
}
