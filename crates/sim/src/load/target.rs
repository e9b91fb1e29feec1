//! Where a load goes.

use http::Uri;

/// Reads `http://host:port`.
///
/// # Errors
/// It is none; what to write instead.
pub fn target(text: &str) -> Result<Uri, String> {
    let uri = text.parse::<Uri>().ok();
    if uri.as_ref().and_then(Uri::scheme_str) == Some("https") {
        let instead = "requests are sent without TLS: write the http:// URL of the engine itself, or of a port-forward to it";
        return Err(instead.to_owned());
    }
    let right = uri.filter(|uri| {
        let plain = uri.scheme_str() == Some("http") && uri.host().is_some();
        plain && matches!(uri.path(), "" | "/") && uri.query().is_none()
    });
    right.ok_or_else(|| "write a URL without a path, such as http://127.0.0.1:8000".to_owned())
}
