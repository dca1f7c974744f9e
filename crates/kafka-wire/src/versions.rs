//! Which versions an API has, and how that decides the layout of the headers before its messages.

use crate::ApiKey;

/// The versions of one API, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest.
    pub first: i16,
    /// The highest.
    pub last: i16,
}

impl VersionRange {
    /// Says if `version` is one of them.
    #[must_use]
    pub const fn contains(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }

    /// The highest version that both sides have, if any.
    #[must_use]
    pub fn highest_common(self, other: VersionRange) -> Option<i16> {
        let last = self.last.min(other.last);
        (last >= self.first.max(other.first)).then_some(last)
    }
}

/// Which layout the header of a request has: 2 (with tagged fields) before flexible versions, else 1.
///
/// Also right for versions above the known ones, since an API never stops being flexible: a node must be able
/// to read the header of an ApiVersions request that is newer than itself.
#[must_use]
pub fn request_header_version(api: ApiKey, version: i16) -> i16 {
    if is_flexible(api, version) { 2 } else { 1 }
}

/// Which layout the header of a response has: 1 (with tagged fields) before flexible versions, else 0.
///
/// Always 0 for ApiVersions: its client does not know yet whether the node is old enough to answer in version
/// 0 (KIP-511).
#[must_use]
pub fn response_header_version(api: ApiKey, version: i16) -> i16 {
    if is_flexible(api, version) && api != ApiKey::ApiVersions {
        1
    } else {
        0
    }
}

fn is_flexible(api: ApiKey, version: i16) -> bool {
    api.first_flexible_version().is_some_and(|first| version >= first)
}
