//! `CLASS=ttft:1s,tpot:60ms`.

use fairtide_sim::load::Slo;
use std::str::FromStr;

/// What makes an answer of a class a good one.
#[derive(Clone, Debug)]
pub struct Objective {
    pub class: String,
    pub slo: Slo,
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "write a class and its objectives, such as chat=ttft:1s,tpot:60ms".to_owned();
        let (class, objectives) = text.split_once('=').ok_or_else(wrong)?;
        let mut slo = Slo::default();
        for objective in objectives.split(',') {
            let (name, time) = objective.split_once(':').ok_or_else(wrong)?;
            let time = fairtide_api::parse_duration(time);
            let time = Some(time.ok_or_else(wrong)?);
            match name {
                "ttft" => slo.ttft = time,
                "tpot" => slo.tpot = time,
                _ => return Err(wrong()),
            }
        }
        let class = class.to_owned();
        Ok(Self { class, slo })
    }
}
