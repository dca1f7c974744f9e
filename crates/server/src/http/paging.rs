//! Lists by name, some at a time: at most `limit`, those behind `after`; and `next`, with which to go on.

use super::problem::Problem;
use super::uri::Query;

/// The number of entries in one answer, unless asked otherwise, and the most.
const LIMIT: usize = 1_000;
const LIMIT_MAX: usize = 10_000;

/// Which part of a list is wanted.
#[derive(Debug, Clone)]
pub(super) struct Paging {
    pub(super) limit: usize,
    /// Told already, and all before it.
    pub(super) after: Option<String>,
}

impl Paging {
    /// The parameters that `read` reads.
    pub(super) const PARAMETERS: &[&str] = &["limit", "after"];

    /// Reads `limit` and `after`.
    pub(super) fn read(query: &Query) -> Result<Paging, Problem> {
        Ok(Paging {
            limit: query.number("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT),
            after: query.get("after").map(str::to_owned),
        })
    }

    /// Says if a name lies behind those that were told before.
    pub(super) fn is_ahead(&self, name: &str) -> bool {
        self.after.as_deref().is_none_or(|after| name > after)
    }

    /// The number of entries to look for: one more than is told, to see if there are more.
    pub(super) fn wanted(&self) -> usize {
        self.limit + 1
    }

    /// Those of a list in any order that are to be looked at, by name. Of a long list only these are sorted.
    pub(super) fn first_by_name<T>(&self, mut list: Vec<T>, name: impl Fn(&T) -> &str) -> Vec<T> {
        list.retain(|item| self.is_ahead(name(item)));
        let wanted = self.wanted();
        if list.len() > wanted {
            list.select_nth_unstable_by(wanted, |one, other| name(one).cmp(name(other)));
            list.truncate(wanted);
        }
        list.sort_unstable_by(|one, other| name(one).cmp(name(other)));
        list
    }

    /// The found entries that are told, and the name with which to go on if there are more.
    pub(super) fn cut<T>(&self, mut found: Vec<T>, name: impl Fn(&T) -> &str) -> (Vec<T>, Option<String>) {
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = found.last().filter(|_| more).map(|last| name(last).to_owned());
        (found, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(list: &str, limit: usize, after: Option<&str>) -> (String, Option<String>) {
        let paging = Paging {
            limit,
            after: after.map(str::to_owned),
        };
        let names = list.chars().map(String::from).collect();
        let found = paging.first_by_name(names, |name| name.as_str());
        let (told, next) = paging.cut(found, |name| name.as_str());
        (told.concat(), next)
    }

    #[test]
    fn pages_go_by_name_and_miss_nothing() {
        let next = |name: &str| Some(name.to_owned());
        assert_eq!(page("dbcae", 2, None), ("ab".into(), next("b")));
        assert_eq!(page("dbcae", 2, Some("b")), ("cd".into(), next("d")));
        assert_eq!(page("dbcae", 2, Some("d")), ("e".into(), None));
        assert_eq!(page("dbcae", 5, None), ("abcde".into(), None));
        assert_eq!(page("dbcae", 2, Some("e")), (String::new(), None));
        // The named entry need not be there.
        assert_eq!(page("ac", 9, Some("b")), ("c".into(), None));
    }
}
