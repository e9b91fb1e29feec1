//! `fairtide-sim engine`.

use crate::{
    engine::{self, Imitated, Kind, Version},
    model::{Profile, SchedulingPolicy},
};
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use tokio::net::TcpListener;

#[derive(Args, Debug)]
pub(super) struct Engine {
    /// Where to serve. Port 0 takes a free one, which is printed.
    #[arg(long, env = "FAIRTIDE_LISTEN", value_name = "ADDR", value_parser = address)]
    listen: SocketAddr,
    /// The engine to imitate: llama-8b-h100, llama-70b-8xh100, llama-8b-l40s, mock-16, small, or a YAML file.
    #[arg(long, env = "FAIRTIDE_PROFILE", value_name = "NAME|FILE", default_value = "llama-8b-l40s", value_parser = profile)]
    profile: Profile,
    /// The most sequences in one step, in the place of the profile's.
    #[arg(long, env = "FAIRTIDE_MAX_NUM_SEQS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_num_seqs: Option<u32>,
    /// How many times as fast as the profile says.
    #[arg(long, env = "FAIRTIDE_SPEED", value_name = "X", default_value = "1", value_parser = speed)]
    speed: f64,
    /// The order of the waiting queue; under fcfs the priority of a request is ignored.
    #[arg(
        long,
        env = "FAIRTIDE_SCHEDULING_POLICY",
        value_name = "fcfs|priority",
        default_value = "fcfs"
    )]
    scheduling_policy: Order,
    /// The name under which the model is served.
    #[arg(
        long,
        env = "FAIRTIDE_SERVED_MODEL_NAME",
        value_name = "NAME",
        default_value = "sim"
    )]
    served_model_name: String,
    /// Whose HTTP face it has: paths, shapes, errors and metrics.
    #[arg(
        long,
        env = "FAIRTIDE_ENGINE",
        value_name = "vllm|tgi|sglang",
        default_value = "vllm"
    )]
    engine: Face,
    /// Whose version's names and shapes; default 0.32.0 of vLLM, 3.3.6 of TGI, 0.5.23 of SGLang.
    #[arg(long, env = "FAIRTIDE_ENGINE_VERSION", value_name = "V")]
    engine_version: Option<Version>,
    /// Overloaded with more requests: waiting and running ones of vLLM (--max-num-queued-reqs) and TGI (--max-concurrent-requests, 128 by default), waiting ones of SGLang (--max-queued-requests).
    #[arg(long, env = "FAIRTIDE_MAX_REQUESTS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_requests: Option<u32>,
}

/// As many requests as a TGI takes where nobody says a number.
const TGI_MOST_REQUESTS: usize = 128;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Face {
    Vllm,
    Tgi,
    Sglang,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Fcfs,
    Priority,
}

// === impl Engine ===

impl Engine {
    /// What is imitated. A combination that no engine has is refused, as clap would.
    pub fn imitated(&self) -> Result<Imitated, String> {
        let kind = match self.engine {
            Face::Vllm => Kind::Vllm,
            Face::Tgi => Kind::Tgi,
            Face::Sglang => Kind::Sglang,
        };
        if kind == Kind::Tgi && matches!(self.scheduling_policy, Order::Priority) {
            return Err(
                "TGI knows no priorities; leave --scheduling-policy out, or write --engine vllm"
                    .to_owned(),
            );
        }
        Imitated::new(kind, self.engine_version).map_err(|error| error.to_string())
    }

    pub async fn run(self, imitated: Imitated) -> anyhow::Result<()> {
        let mut profile = self.profile.faster(self.speed);
        if let Some(seqs) = self.max_num_seqs {
            profile.max_num_seqs = seqs as usize;
            // A step has room for a token of each sequence.
            profile.max_num_batched_tokens = profile.max_num_batched_tokens.max(seqs.into());
        }
        let listener = TcpListener::bind(self.listen)
            .await
            .with_context(|| format!("can't listen on {}", self.listen))?;
        println!("listening on {}", listener.local_addr()?);
        let options = engine::Options {
            profile,
            policy: match self.scheduling_policy {
                Order::Fcfs => SchedulingPolicy::Fcfs,
                Order::Priority => SchedulingPolicy::Priority,
            },
            model: self.served_model_name,
            imitated,
            most_requests: match (self.max_requests, imitated.kind()) {
                (Some(most), _) => Some(most as usize),
                (None, Kind::Tgi) => Some(TGI_MOST_REQUESTS),
                (None, Kind::Vllm | Kind::Sglang) => None,
            },
        };
        engine::serve(listener, options, fairtide_telemetry::termination()?).await?;
        Ok(())
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let write = "write an IP address with a port, such as 127.0.0.1:8000";
    text.parse().map_err(|_| write.to_owned())
}

fn profile(text: &str) -> Result<Profile, String> {
    Profile::load(text).map_err(|error| error.to_string())
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if speed > 0.0 && f64::is_finite(speed) => Ok(speed),
        _ => Err("write a number above 0, such as 2.5".to_owned()),
    }
}
