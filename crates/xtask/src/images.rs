//! `xtask images`: container images from static programs, without a container engine.
//!
//! Each holds its program and nothing else: no shell, no libraries. Time zones are compiled into
//! the programs, and the authorities that they trust are told to them in the pod.

mod archive;

use anyhow::{Context, Result, ensure};
use archive::Image;
use std::{fs, path::Path};

/// The tag. The manifests name it.
const TAG: &str = "dev";

/// What an image may weigh.
const MOST_BYTES: usize = 30_000_000;

struct Wanted {
    program: &'static str,
    /// Further names of the program.
    links: &'static [&'static str],
}

const WANTED: [Wanted; 3] = [
    Wanted {
        program: "fairtide-operator",
        links: &[],
    },
    Wanted {
        program: "fairtide-sidecar",
        links: &[],
    },
    Wanted {
        program: "fairtide-sim",
        // By this name it takes vLLM's command line.
        links: &["usr/local/bin/vllm"],
    },
];

/// Writes the archives into `out`, of the programs in `programs`.
pub fn build(programs: &Path, out: &Path) -> Result<()> {
    fs::create_dir_all(out)?;
    for Wanted { program, links } in WANTED {
        let path = programs.join(program);
        let bytes = fs::read(&path)
            .with_context(|| format!("{}: run `make images`, which builds it", path.display()))?;
        ensure!(
            is_static(&bytes),
            "{} wants shared libraries, and the image has none: run `make images`, which builds it \
             without",
            path.display()
        );
        let image = Image {
            name: &format!("docker.io/library/{program}:{TAG}"),
            program,
            bytes: &bytes,
            links,
        };
        let archive = image.archive()?;
        ensure!(
            archive.bytes.len() <= MOST_BYTES,
            "the image of {program} has {} bytes; {MOST_BYTES} are the most",
            archive.bytes.len()
        );
        let file = out.join(format!("{program}.tar"));
        fs::write(&file, &archive.bytes).with_context(|| file.display().to_string())?;
        println!(
            "{}: {program}:{TAG}, {:.1} MB, {}",
            file.display(),
            archive.bytes.len() as f64 / 1e6,
            archive.digest
        );
    }
    Ok(())
}

/// Whether an ELF program names no loader. That of a program with shared libraries is in its head.
fn is_static(program: &[u8]) -> bool {
    let head = &program[..program.len().min(4096)];
    head.starts_with(b"\x7fELF") && !head.windows(9).any(|window| window == b"ld-linux-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_shared_libraries_is_no_static_one() {
        assert!(!is_static(b"\x7fELF......../lib64/ld-linux-x86-64.so.2"));
        assert!(is_static(b"\x7fELF........"));
        assert!(!is_static(b"#!/bin/sh"));
    }
}
