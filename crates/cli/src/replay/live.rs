//! `--live`: the trace goes to a real endpoint.

use anyhow::Context;
use clap::Args;
use fairtide_sim::{
    load::{Run, table, target},
    replay::{
        Setup, Source,
        live::{Header, Live, Prepared},
    },
};
use http::Uri;
use std::{str::FromStr, time::Duration};
use tokio::runtime::Runtime;

/// Where the key of the endpoint is. A flag would show it to everyone who lists processes.
const KEY: &str = "FAIRTIDE_API_KEY";

#[derive(Args, Debug)]
#[command(next_help_heading = "Against a real endpoint")]
pub struct LiveArgs {
    /// Sends the trace to an endpoint with the OpenAI API, in real time: http://host:port. A key is read from FAIRTIDE_API_KEY.
    #[arg(long, env = "FAIRTIDE_LIVE", value_name = "URL", value_parser = target, conflicts_with = "scenario")]
    live: Option<Uri>,
    /// No more requests than so many are under way at once; others wait, and are timed all the same.
    #[arg(long, env = "FAIRTIDE_MAX_IN_FLIGHT", value_name = "N", default_value = "256", value_parser = clap::value_parser!(u16).range(1..), requires = "live")]
    max_in_flight: u16,
    /// A trace of more requests is not sent at all.
    #[arg(long, env = "FAIRTIDE_MAX_REQUESTS", value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..), requires = "live")]
    max_requests: u32,
    /// How long answers are waited for after the last request.
    #[arg(long, env = "FAIRTIDE_WAIT", value_name = "TIME", default_value = "2m", value_parser = wait, requires = "live")]
    wait: Duration,
    /// The model that requests name, if not the first that the endpoint has.
    #[arg(long, env = "FAIRTIDE_MODEL", value_name = "NAME", requires = "live")]
    model: Option<String>,
    /// A header of all requests, or of those of a class: NAME:VALUE, chat=NAME:VALUE. May be given several times.
    #[arg(long, value_name = "[CLASS=]NAME:VALUE", value_parser = header, requires = "live")]
    header: Vec<Header>,
    /// The header in which the tenant goes.
    #[arg(
        long,
        env = "FAIRTIDE_TENANT_HEADER",
        value_name = "NAME",
        requires = "live"
    )]
    tenant_header: Option<String>,
}

/// A trace that is ready to be sent, and what sends it.
pub struct Ready {
    runtime: Runtime,
    url: Uri,
    most_in_flight: u16,
    prepared: Prepared,
}

/// What became of it.
pub struct Sent {
    pub run: Run,
    /// Rows that were no requests.
    pub skipped: u64,
    /// Why the run is worth nothing.
    pub fault: Option<String>,
}

// === impl LiveArgs ===

impl LiveArgs {
    pub fn url(&self) -> Option<&Uri> {
        self.live.as_ref()
    }

    /// For the page.
    pub fn describe(&self) -> Option<String> {
        let url = self.live.as_ref()?;
        let most = self.max_in_flight;
        Some(format!("{url}, at most {most} requests at once"))
    }

    /// Looks whether the endpoint is there, and reads the trace.
    pub fn prepare(&self, setup: &Setup, source: Source) -> anyhow::Result<Option<Ready>> {
        let Some(url) = self.live.clone() else {
            return Ok(None);
        };
        let live = Live {
            url: url.clone(),
            model: self.model.clone(),
            key: std::env::var(KEY).ok().filter(|key| !key.is_empty()),
            headers: self.header.clone(),
            tenant_header: self.tenant_header.clone(),
            most_in_flight: self.max_in_flight.into(),
            most_requests: self.max_requests as usize,
            wait: self.wait,
        };
        let runtime = Runtime::new().context("can't start threads")?;
        let prepared = runtime.block_on(live.prepare(setup, source))?;
        Ok(Some(Ready {
            runtime,
            url,
            most_in_flight: self.max_in_flight,
            prepared,
        }))
    }
}

// === impl Ready ===

impl Ready {
    /// Sends it all.
    pub fn send(self) -> Sent {
        let (requests, skipped) = (self.prepared.requests, self.prepared.skipped);
        let seconds = self.prepared.takes.as_secs_f64();
        eprintln!(
            "sending {requests} requests over {seconds:.1} s to {}, at most {} at once",
            self.url, self.most_in_flight
        );
        let offering = self.runtime.block_on(self.prepared.send());
        super::say(&format!("live: {}\n{}", self.url, table(&offering.run)));
        for (why, count) in &offering.failures {
            super::say(&format!("{count} failed: {why}\n"));
        }
        if offering.held_back > 0 {
            super::say(&format!(
                "{} were sent late, as {} were under way; see --max-in-flight\n",
                offering.held_back, self.most_in_flight
            ));
        }
        super::say("\n");
        let classes = offering.run.classes.values();
        let is_nothing = classes.map(|class| class.completed).sum::<u64>() == 0;
        let fault = is_nothing.then(|| {
            let why = offering.failures.iter().max_by_key(|(_, count)| **count);
            let why = why.map_or("see the table", |(why, _)| why.as_str());
            format!("{} answered no request in full: {why}", self.url)
        });
        Sent {
            run: offering.run,
            skipped,
            fault,
        }
    }
}

fn header(text: &str) -> Result<Header, String> {
    let wrong = || "write NAME:VALUE, or CLASS=NAME:VALUE for one class".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let (class, name) = match name.split_once('=') {
        Some((class, name)) => (Some(class.to_owned()), name),
        None => (None, name),
    };
    let (name, value) = (name.trim(), value.trim());
    let right =
        http::HeaderName::from_str(name).is_ok() && http::HeaderValue::from_str(value).is_ok();
    let header = Header {
        class,
        name: name.to_owned(),
        value: value.to_owned(),
    };
    right.then_some(header).ok_or_else(wrong)
}

fn wait(text: &str) -> Result<Duration, String> {
    fairtide_api::parse_duration(text).ok_or_else(|| "write a time, such as 30s or 5m".to_owned())
}
