//! The first process of the sidecar's container: opens the listeners, starts the process that
//! serves (the worker), and starts it again if it dies.
//!
//! A container that the kubelet has to restart costs more than a process. A LeaderWorkerSet takes
//! it as a failure of the whole group, and a model over many nodes is loaded anew. Clients that
//! connect meanwhile would be turned away: here their connections wait in the listeners' backlog for
//! the next worker. What the dead one held is lost, as with any crash.

use crate::{Listeners, pod::WORKER};
use command_fds::{CommandFdExt, FdMapping};
use nix::{
    sys::{prctl, signal},
    unistd::Pid,
};
use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};
use tokio::{process::Child, time::Instant};
use tokio_util::sync::CancellationToken;

/// The number of the first listener in the worker, by the protocol of systemd.
const FIRST: i32 = 3;

/// A worker that lived so long had started well.
const STEADY: Duration = Duration::from_secs(10);

/// So many in a row that didn't are a matter for the kubelet, which shows it.
const PATIENCE: u32 = 8;

/// Doubled with each death in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// Wrong flags: the next worker would fail likewise.
const USAGE: i32 = 64;

/// Why nobody serves.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// No process can be started.
    #[error("can't start the process that serves: {0}")]
    Start(io::Error),
    /// It was tried often enough.
    #[error("the process that serves died {PATIENCE} times within seconds of its start: {0}")]
    KeepsDying(ExitStatus),
}

/// Keeps a worker alive until told to go; answers with the exit code of the last one.
///
/// # Errors
/// There is no worker, and there won't be one.
pub async fn supervise(
    listeners: Listeners,
    told_to_go: CancellationToken,
) -> Result<u8, SuperviseError> {
    let mut in_a_row = 0;
    for restarts in 0_u64.. {
        let begun = Instant::now();
        let mut worker = start(&listeners, restarts).map_err(SuperviseError::Start)?;
        let ended = outlive(&mut worker, &told_to_go).await;
        let status = ended.map_err(SuperviseError::Start)?;
        if let Some(code) = last_word(status, told_to_go.is_cancelled()) {
            return Ok(code);
        }
        in_a_row = if begun.elapsed() < STEADY {
            in_a_row + 1
        } else {
            1
        };
        if in_a_row == PATIENCE {
            return Err(SuperviseError::KeepsDying(status));
        }
        tracing::error!(%status, restarts = restarts + 1, "the process that serves died; starting it again");
        let pause = FIRST_PAUSE * 2_u32.pow(in_a_row - 1);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = told_to_go.cancelled() => return Ok(0),
        }
    }
    unreachable!("more restarts than numbers")
}

/// Ends this process when its supervisor ends.
///
/// # Errors
/// The kernel doesn't.
pub fn die_with_supervisor() -> io::Result<()> {
    Ok(prctl::set_pdeathsig(signal::Signal::SIGKILL)?)
}

fn start(listeners: &Listeners, restarts: u64) -> io::Result<Child> {
    let mut mappings = Vec::new();
    for (child_fd, listener) in (FIRST..).zip(listeners.all()) {
        let parent_fd = listener.try_clone_to_owned()?;
        mappings.push(FdMapping {
            parent_fd,
            child_fd,
        });
    }
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .args(std::env::args_os().skip(1))
        .env("LISTEN_FDS", mappings.len().to_string())
        .env(WORKER, restarts.to_string())
        .fd_mappings(mappings)
        .map_err(io::Error::other)?;
    tokio::process::Command::from(command).spawn()
}

/// Waits for the worker's end, and passes on that it is to go.
async fn outlive(worker: &mut Child, told_to_go: &CancellationToken) -> io::Result<ExitStatus> {
    tokio::select! {
        status = worker.wait() => return status,
        () = told_to_go.cancelled() => {}
    }
    if let Some(pid) = worker.id() {
        // It may have ended just now.
        let _ = signal::kill(Pid::from_raw(pid as i32), signal::Signal::SIGTERM);
    }
    worker.wait().await
}

/// The exit code, if this was the last worker.
fn last_word(status: ExitStatus, told_to_go: bool) -> Option<u8> {
    match (status.code(), status.signal()) {
        (Some(code @ (0 | USAGE)), _) => Some(code as u8),
        (Some(code), _) if told_to_go => Some(code as u8),
        // Told before it could hear.
        (None, Some(signal)) if told_to_go && signal == signal::Signal::SIGTERM as i32 => Some(0),
        (None, Some(signal)) if told_to_go => Some(128 + signal as u8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wish_or_a_wrong_flag_ends_the_container() {
        let exited = |code: i32| ExitStatus::from_raw(code << 8);
        let killed = ExitStatus::from_raw;
        for (status, told, code) in [
            (exited(0), false, Some(0)),
            (exited(64), false, Some(64)),
            (exited(1), false, None),
            (exited(1), true, Some(1)),
            (killed(9), false, None),
            (killed(9), true, Some(137)),
            (killed(15), false, None),
            (killed(15), true, Some(0)),
        ] {
            assert_eq!(last_word(status, told), code, "{status} {told}");
        }
    }
}
