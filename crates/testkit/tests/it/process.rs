//! Processes end when they are told to, and never outlive who started them.

use fairtide_testkit::{Process, Spawn, TempDir, eventually};
use std::{path::Path, time::Duration};

const DEADLINE: Duration = Duration::from_secs(60);

/// Set in the process that is to be killed.
const PARENT: &str = "FAIRTIDE_TEST_PARENT";

fn shell(folder: &Path, script: &str) -> Process {
    Spawn::new("/bin/sh", folder.join("log"))
        .args(["-c", script])
        .start()
        .unwrap()
}

/// Its process id, which the script prints.
async fn pid(process: &mut Process) -> String {
    let line = process.line("pid ", DEADLINE).await.unwrap();
    line.trim_start_matches("pid ").to_owned()
}

async fn gone(pid: &str) {
    eventually("it is gone", DEADLINE, async || {
        anyhow::ensure!(!Path::new("/proc").join(pid).exists(), "{pid} is there");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn exit_status_is_the_programs_own() {
    let folder = TempDir::new("test").unwrap();
    let mut process = shell(folder.path(), "echo hello; exit 64");
    assert_eq!(process.wait(DEADLINE).await.unwrap(), 64);
    assert_eq!(process.log(), "hello\n");
}

#[tokio::test]
async fn signal_reaches_the_program() {
    let folder = TempDir::new("test").unwrap();
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let mut process = shell(folder.path(), script);
    process.line("ready", DEADLINE).await.unwrap();
    process.signal("TERM").unwrap();
    assert_eq!(process.wait(DEADLINE).await.unwrap(), 7);
}

#[tokio::test]
async fn waiting_for_a_line_ends_with_the_program() {
    let folder = TempDir::new("test").unwrap();
    let mut process = shell(folder.path(), "echo bad flag >&2; exit 64");
    let error = process.line("never", DEADLINE).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("status 64"), "{error}");
    assert!(error.contains("bad flag"), "{error}");
}

#[tokio::test]
async fn dropped_process_is_killed() {
    let folder = TempDir::new("test").unwrap();
    let mut process = shell(folder.path(), "echo pid $$; exec sleep 1000");
    let pid = pid(&mut process).await;
    drop(process);
    assert!(!Path::new("/proc").join(pid).exists());
}

#[tokio::test]
async fn killed_parent_takes_its_children_and_files_along() {
    if std::env::var_os(PARENT).is_some() {
        let folder = TempDir::new("test").unwrap();
        let mut child = shell(folder.path(), "echo pid $$; exec sleep 1000");
        println!("pid {}", pid(&mut child).await);
        println!("folder {}", folder.path().display());
        std::future::pending::<()>().await;
    }
    let folder = TempDir::new("test").unwrap();
    let me = "process::killed_parent_takes_its_children_and_files_along";
    let mut parent = Spawn::new(
        std::env::current_exe().unwrap(),
        folder.path().join("parent"),
    )
    .args(["--exact", me, "--nocapture"])
    .env(PARENT, "1")
    .start()
    .unwrap();
    let pid = pid(&mut parent).await;
    let line = parent.line("folder ", DEADLINE).await.unwrap();
    let childs = Path::new(line.trim_start_matches("folder "));
    assert!(Path::new("/proc").join(&pid).exists());
    assert!(childs.exists());
    parent.signal("KILL").unwrap();
    gone(&pid).await;
    eventually("its folder is gone", DEADLINE, async || {
        anyhow::ensure!(!childs.exists(), "{} is there", childs.display());
        Ok(())
    })
    .await
    .unwrap();
}
