//! Lists that came whole: a list that was cut off is shorter, and looks like any other to the SDK.

use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::AfterDeserializationInterceptorContextRef;

use super::call::Call;
use super::error::{Error, Kind};

/// A list whose last words are missing.
#[derive(Debug, thiserror::Error)]
#[error("the body of the list is cut off")]
struct Cut;

/// Lets only those lists through whose outermost element is closed.
#[derive(Debug)]
pub struct Whole;

#[aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint]
impl Intercept for Whole {
    fn name(&self) -> &'static str {
        "Whole"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let reply = context.response();
        let cut =
            reply.status().is_success() && reply.body().bytes().is_some_and(|body| !is_whole(body));
        if cut { Err(Cut.into()) } else { Ok(()) }
    }
}

/// Whether a document ends with the end of its outermost element.
fn is_whole(body: &[u8]) -> bool {
    let mut starts = body.windows(2).enumerate().filter(|(_, two)| two[0] == b'<');
    let Some((at, _)) = starts.find(|(_, two)| two[1].is_ascii_alphabetic()) else { return false };
    let rest = &body[at + 1..];
    let end = rest.iter().position(|b| b.is_ascii_whitespace() || matches!(b, b'>' | b'/'));
    let Some(end) = end else { return false };
    let closing = [b"</", &rest[..end], b">"].concat();
    body.trim_ascii_end().ends_with(&closing)
}

/// Whether there is another page. A list that does not say so is none.
pub fn goes_on(said: Option<bool>, call: &Call) -> Result<bool, Error> {
    let silent = || call.error(Kind::Incomplete).with_message("it does not say whether it goes on");
    said.ok_or_else(silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_whole_if_its_outermost_element_is_closed() {
        let whole = "<?xml version=\"1.0\"?>\n<ListVersionsResult xmlns=\"x\"><Version><Key>a</Key>\
                     </Version></ListVersionsResult>";
        for end in 0..whole.len() {
            assert!(!is_whole(&whole.as_bytes()[..end]), "{}", &whole[..end]);
        }
        for whole in [whole, "<a></a>", "<n:a x='1'>\n</n:a>\n", "\u{feff}<a>b</a>"] {
            assert!(is_whole(whole.as_bytes()), "{whole}");
        }
        assert!(!is_whole(b"") && !is_whole(b"{}"));
    }
}
