//! Files that hold more than one idea most likely.

use anyhow::{Context, Result};
use std::{fs, path::Path};

/// Lines without tests from which on a file should be split.
const MOST_LINES: usize = 500;

/// The files under `folder` that are too long.
pub fn long_files(folder: &Path) -> Result<Vec<String>> {
    let mut long = Vec::new();
    visit(folder, &mut |path, text| {
        let lines = lines_without_tests(text);
        if lines > MOST_LINES {
            let path = path.strip_prefix(folder).unwrap_or(path);
            long.push(format!(
                "crates/{} has {lines} lines without tests: split it by idea, or say in the review why not",
                path.display()
            ));
        }
    })?;
    long.sort();
    Ok(long)
}

fn visit(folder: &Path, see: &mut impl FnMut(&Path, &str)) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let of_tests = matches!(&*name, "tests" | "tests.rs" | "benches" | "target");
        if path.is_dir() && !of_tests {
            visit(&path, see)?;
        } else if name.ends_with(".rs") && !of_tests {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            see(&path, &text);
        }
    }
    Ok(())
}

/// Tests within a file come last, and begin with this line.
fn lines_without_tests(text: &str) -> usize {
    text.lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count() {
        assert_eq!(
            lines_without_tests("a\nb\n#[cfg(test)]\nmod tests {\n}\n"),
            2
        );
    }
}
