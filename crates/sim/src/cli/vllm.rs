//! The command line of vLLM, for manifests that are meant for it: under the name `vllm` the
//! program takes `vllm serve MODEL` and the flags that mean something to a simulated engine.
//! What else is there to say (`FAIRTIDE_PROFILE`, `FAIRTIDE_SPEED`) has variables.

use clap::{Parser, Subcommand};
use std::{
    ffi::{OsStr, OsString},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
};

#[derive(Parser, Debug)]
#[command(name = "vllm", about = "A simulated vLLM")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve a model.
    Serve(Serve),
}

#[derive(Parser, Debug)]
struct Serve {
    /// The model's name. None is loaded.
    model: String,
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    host: IpAddr,
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    port: u16,
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
    #[arg(long, value_name = "N")]
    max_num_seqs: Option<u32>,
    #[arg(long, value_name = "fcfs|priority")]
    scheduling_policy: Option<String>,
}

/// Whether the program was started as vLLM.
pub(super) fn is_meant(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new("vllm"))
}

/// The same in our own words.
///
/// # Errors
/// A command line that vLLM may understand, but not we.
pub(super) fn translate(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Vec<OsString>, clap::Error> {
    let Command::Serve(serve) = Arguments::try_parse_from(arguments)?.command;
    let listen = SocketAddr::new(serve.host, serve.port).to_string();
    let name = serve.served_model_name.unwrap_or(serve.model);
    let mut ours: Vec<OsString> = ["fairtide-sim", "engine", "--listen"]
        .map(Into::into)
        .into();
    ours.extend([listen.into(), "--served-model-name".into(), name.into()]);
    if let Some(seqs) = serve.max_num_seqs {
        ours.extend(["--max-num-seqs".into(), seqs.to_string().into()]);
    }
    if let Some(policy) = serve.scheduling_policy {
        ours.extend(["--scheduling-policy".into(), policy.into()]);
    }
    Ok(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from);
        let ours = translate(words).map_err(|error| error.to_string())?;
        let ours: Vec<_> = ours.iter().map(|word| word.to_string_lossy()).collect();
        Ok(ours.join(" "))
    }

    #[test]
    fn vllm_is_known_by_its_name() {
        assert!(is_meant("/usr/local/bin/vllm".as_ref()));
        assert!(!is_meant("/fairtide-sim".as_ref()));
    }

    #[test]
    fn its_defaults_hold() {
        assert_eq!(
            translated("vllm serve org/model").as_deref(),
            Ok("fairtide-sim engine --listen 0.0.0.0:8000 --served-model-name org/model")
        );
    }

    #[test]
    fn its_flags_are_ours() {
        assert_eq!(
            translated(
                "vllm serve m --port=28000 --host ::1 --served-model-name n --max-num-seqs 4"
            )
            .as_deref(),
            Ok("fairtide-sim engine --listen [::1]:28000 --served-model-name n --max-num-seqs 4")
        );
    }

    #[test]
    fn a_flag_that_would_do_nothing_is_refused() {
        let error = translated("vllm serve m --enable-prefix-caching").expect_err("refused");
        assert!(error.contains("--enable-prefix-caching"), "{error}");
    }
}
