//! The requests of a replay, sent to a real endpoint that speaks the OpenAI API, in real time.
//!
//! It is the open-loop load of [`crate::load`], with what keeps an endpoint safe from a trace:
//! bounds on how many requests there are, and on how many are under way at once. One that waits for
//! its turn is timed from when it should have been sent, so that the bound doesn't flatter.

mod probe;

pub use probe::ProbeError;

use super::{Setup, Source, SourceError, arrivals::NOBODY};
use crate::load::{Load, Offered, Offering, Scenario, ScenarioError};
use fairtide_api::names::CLASS_HEADER;
use http::{Uri, header};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// What the policy of a live run is called.
pub const POLICY: &str = "live";

/// Where requests go, how they look, and what bounds them.
#[derive(Clone, Debug)]
pub struct Live {
    /// `http://host:port/`.
    pub url: Uri,
    /// The model that requests name; `None`: the first that the endpoint has.
    pub model: Option<String>,
    /// Sent as bearer token.
    pub key: Option<String>,
    /// Headers of the requests of a class, or of all.
    pub headers: Vec<Header>,
    /// The header that carries the name of a request's tenant; `None`: none does.
    pub tenant_header: Option<String>,
    /// No more requests than so many are under way at once.
    pub most_in_flight: usize,
    /// No more than so many are sent at all.
    pub most_requests: usize,
    /// How long answers are waited for after the last arrival.
    pub wait: Duration,
}

/// A header, and whose requests have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Of a class; `None`: of all.
    pub class: Option<String>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A replay that is ready to be sent.
#[derive(Clone, Debug)]
pub struct Prepared {
    load: Load,
    /// How many requests there are.
    pub requests: usize,
    /// Rows without prompt or answer, which are not sent.
    pub skipped: u64,
    /// When the last request is sent.
    pub takes: Duration,
}

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The requests can't be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The endpoint is not there, or doesn't let us in.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A header is none.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A trace without requests.
    #[error("there is no request to send")]
    Nothing,
    /// More than somebody may have wanted.
    #[error(
        "the trace has more than {0} requests; nothing is sent. Write --max-requests with as many as it may be, or a shorter trace"
    )]
    TooMany(usize),
    /// A header is for a class that isn't there.
    #[error("--header names the class {0:?}, which the pool doesn't have; write one of {1}")]
    UnknownClass(String, String),
}

// === impl Live ===

impl Live {
    /// Asks the endpoint whether it is there, and gets the requests ready.
    ///
    /// # Errors
    /// They can't be sent.
    pub async fn prepare(&self, setup: &Setup, source: Source) -> Result<Prepared, LiveError> {
        let key = self.key.as_deref();
        let offers = probe::first_model(&self.url, key).await?;
        let model = self.model.clone().or(offers);
        let (scenario, requests, skipped) = self.requests(setup, source, model)?;
        let mut load = Load::new(
            Arc::new(scenario),
            setup.seed,
            vec![self.url.clone()],
            POLICY,
        );
        load.most_in_flight = self.most_in_flight;
        let takes = requests.last().map_or(Duration::ZERO, |last| last.at);
        let prepared = Prepared {
            requests: requests.len(),
            skipped,
            takes,
            load: Load { requests, ..load },
        };
        Ok(prepared)
    }

    fn requests(
        &self,
        setup: &Setup,
        mut source: Source,
        model: Option<String>,
    ) -> Result<(Scenario, Vec<Offered>, u64), LiveError> {
        let classes = &setup.settings.classes;
        let mut tenants: Vec<Tenants> = vec![Tenants::default(); classes.len()];
        let mut numbers = vec![0; classes.len()];
        let mut requests = Vec::new();
        while let Some(arrival) = source.next().transpose()? {
            if requests.len() == self.most_requests {
                return Err(LiveError::TooMany(self.most_requests));
            }
            let class = arrival.class;
            requests.push(Offered {
                at: arrival.at,
                class,
                tenant: Some(tenants[class].place(&arrival.tenant)),
                number: numbers[class],
                prompt_tokens: arrival.prompt_tokens,
                output_tokens: arrival.output_tokens,
            });
            numbers[class] += 1;
        }
        let last = requests.last().ok_or(LiveError::Nothing)?.at;
        let mut loads = Vec::new();
        for (class, tenants) in classes.iter().zip(tenants) {
            let mut headers = BTreeMap::from([(CLASS_HEADER.to_owned(), class.name.to_string())]);
            if let Some(key) = &self.key {
                headers.insert(header::AUTHORIZATION.to_string(), format!("Bearer {key}"));
            }
            for header in self.of(&class.name) {
                headers.insert(header.name.to_lowercase(), header.value.clone());
            }
            loads.push(json!({
                "name": class.name,
                "headers": headers,
                "tenants": tenants.loads(self.tenant_header.as_deref()),
                // Each request has its own.
                "promptTokens": 1,
                "outputTokens": 1,
                "arrivals": [{"atOnce": {"count": 1}}],
            }));
        }
        for class in self
            .headers
            .iter()
            .filter_map(|header| header.class.as_ref())
        {
            if !classes.iter().any(|known| *known.name == **class) {
                let known: Vec<&str> = classes.iter().map(|class| &*class.name).collect();
                return Err(LiveError::UnknownClass(class.clone(), known.join(", ")));
            }
        }
        let scenario = json!({
            "name": setup.name,
            "about": "",
            "duration": "1s",
            "drain": "1s",
            "model": model,
            "classes": loads,
        });
        let mut scenario = Scenario::parse("--live", &scenario.to_string())?;
        scenario.duration = last.max(Duration::from_millis(1));
        scenario.drain = self.wait;
        for (class, slo) in scenario.classes.iter_mut().zip(&setup.slos) {
            class.slo = *slo;
        }
        Ok((scenario, requests, source.skipped))
    }

    fn of(&self, class: &str) -> impl Iterator<Item = &Header> {
        let mut headers: Vec<&Header> = self.headers.iter().collect();
        // The class's own word is the last.
        headers.sort_by_key(|header| header.class.is_some());
        headers
            .into_iter()
            .filter(move |header| header.class.as_deref().is_none_or(|own| own == class))
    }
}

/// The tenants of a class, in the order in which they came.
#[derive(Clone, Default)]
struct Tenants {
    places: HashMap<Arc<str>, usize>,
    names: Vec<Arc<str>>,
}

// === impl Tenants ===

impl Tenants {
    fn place(&mut self, name: &Arc<str>) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.names.len();
        self.places.insert(name.clone(), place);
        self.names.push(name.clone());
        place
    }

    fn loads(&self, header: Option<&str>) -> Vec<serde_json::Value> {
        let tenants = self.names.iter().map(|name| {
            let header = header.filter(|_| **name != *NOBODY);
            let headers = header.map(|header| (header.to_owned(), name.to_string()));
            let headers: BTreeMap<String, String> = headers.into_iter().collect();
            json!({"name": name, "headers": headers})
        });
        tenants.collect()
    }
}

// === impl Prepared ===

impl Prepared {
    /// Sends the requests, from now on, and waits for the answers.
    pub async fn send(self) -> Offering {
        let timeline = self.load.timeline.clone();
        let scenario = self.load.scenario.clone();
        let mut offering = self.load.offer().await;
        if self.takes.is_zero() {
            // All came in one moment: the whole run is the window.
            let ends = offering.seen.iter().map(|seen| seen.ended);
            let end = ends.max().unwrap_or_default();
            offering.run.duration_s = end.as_secs_f64();
            for (at, class) in scenario.classes.iter().enumerate() {
                if let Some(run) = offering.run.classes.get_mut(&class.name) {
                    run.output_tokens_per_s = timeline.per_second(at, Duration::ZERO, end);
                }
            }
        }
        offering
    }
}
