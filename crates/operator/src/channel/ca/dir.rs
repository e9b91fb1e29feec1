//! An authority in a directory, for an operator without a cluster: `ca.crt`, and `ca.key` for the
//! owner alone. It is made once and never changed. Only sidecars trust it, and they look at the end
//! of the server's certificate and not at that of the authority.

use super::{Authorities, Authority, CaError};
use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

const CERT_FILE: &str = "ca.crt";
const KEY_FILE: &str = "ca.key";

const LIFE: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// Reads the authority from `dir`, or makes it there at `now`.
///
/// # Errors
/// The directory can't be written, or holds something else.
pub fn open(dir: &Path, now: SystemTime) -> Result<Authorities, CaError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| CaError::File { path, source }
    };
    std::fs::create_dir_all(dir).map_err(at(dir))?;
    let (cert_path, key_path) = (dir.join(CERT_FILE), dir.join(KEY_FILE));
    let stored = [&cert_path, &key_path].map(|path| match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    });
    let [cert, key] = stored;
    let unusable = |place: &Path, reason: String| CaError::Unusable {
        place: place.display().to_string(),
        reason,
    };
    let authority = match (cert?, key?) {
        (Some(cert), Some(key)) => {
            Authority::from_pem(&cert, &key).map_err(|reason| unusable(dir, reason))?
        }
        // A certificate alone is a copy that was handed out, perhaps of one in a Secret.
        (_, None) => {
            let new = Authority::make(now, LIFE)?;
            write_file(&key_path, new.key_pem(), 0o600).map_err(at(&key_path))?;
            write_file(&cert_path, &new.cert().pem, 0o644).map_err(at(&cert_path))?;
            new
        }
        (None, Some(_)) => return Err(unusable(&key_path, "its ca.crt is missing".to_owned())),
    };
    Ok(Authorities::new(Arc::new(authority), None, None))
}

/// Writes `ca.crt` into `dir`, for a launcher that hands it out.
///
/// # Errors
/// The directory can't be written.
pub fn write_copy(dir: &Path, pem: &str) -> Result<(), CaError> {
    let path = dir.join(CERT_FILE);
    std::fs::create_dir_all(dir)
        .and_then(|()| write_file(&path, pem, 0o644))
        .map_err(|source| CaError::File { path, source })
}

/// Replaces a file whole, so that no reader sees half of it.
fn write_file(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}
