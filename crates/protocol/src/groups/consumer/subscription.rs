//! Which topics a member wants: those that it names and those that match its regular expression.
//!
//! Whatever an expression and the names of topics are, matching all of them costs a bounded number of steps, and is refused
//! beyond that: a client must not be able to stop a core. Expressions are matched when topics change, not for each member.

use std::collections::{BTreeMap, BTreeSet};

use record::TopicId;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use super::super::contract::{GroupError, Name};
use super::super::records::{GROUPS_TOPIC, MemberValue};
use super::super::settings::Settings;
use super::super::topics::{Topic, Topics};
use super::Consumer;

/// The expressions of a group's members with what they match.
#[derive(Debug, Default)]
pub(super) struct Regexes {
    resolved: BTreeMap<Name, BTreeSet<Name>>,
}

impl Regexes {
    fn topics(&self, regex: &Name) -> impl Iterator<Item = &Name> {
        self.resolved.get(regex).into_iter().flatten()
    }
}

/// The topics whose whole names match.
///
/// # Errors
/// Not an expression, one too large once it is compiled, or one that these names cost too much with.
pub(super) fn resolve_regex(
    settings: &Settings,
    topics: &Topics,
    regex: &str,
) -> Result<BTreeSet<Name>, GroupError> {
    let invalid = |why: String| GroupError::InvalidRegex { why: Name::from(why) };
    // Names of topics are ASCII, and so are `\w` and `\d` in the expressions that Kafka takes (RE2).
    let syntax = syntax::Config::new().unicode(false).utf8(false);
    // By itself first: a text like `a)|(b` becomes an expression only between the parentheses below.
    syntax::parse_with(regex, &syntax).map_err(|error| invalid(error.to_string()))?;
    let whole = compile(settings, syntax, regex).map_err(invalid)?;
    let mut states = whole.create_cache();
    let mut matching = BTreeSet::new();
    for (name, _) in topics.iter().filter(|(name, _)| &***name != GROUPS_TOPIC) {
        let found = whole.try_search_fwd(&mut states, &Input::new(&**name).anchored(Anchored::Yes));
        let found = found.map_err(|_| invalid("it costs too much to match".to_owned()))?;
        if found.is_some() {
            matching.insert(Name::clone(name));
        }
    }
    Ok(matching)
}

/// An automaton whose states are made as they are met, each once: a byte of a name costs one step, or one new state. The
/// memory for states bounds what all names together cost, as it is never cleared to make room for more.
fn compile(settings: &Settings, syntax: syntax::Config, regex: &str) -> Result<DFA, String> {
    let limits = DFA::config()
        .cache_capacity(settings.regex_states_bytes_max)
        .minimum_cache_clear_count(Some(0));
    let size = thompson::Config::new()
        .utf8(false)
        .nfa_size_limit(Some(settings.regex_compiled_bytes_max));
    DFA::builder()
        .configure(limits)
        .syntax(syntax)
        .thompson(size)
        .build(&format!(r"\A(?:{regex})\z"))
        .map_err(|error| root_cause(&error))
}

/// The one that says what is wrong.
fn root_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

impl Consumer {
    /// Makes sure that an expression is known before anything is planned with it.
    pub(super) fn learn_regex(
        &mut self,
        settings: &Settings,
        topics: &Topics,
        regex: &Name,
    ) -> Result<(), GroupError> {
        if self.regexes.resolved.contains_key(regex) {
            return Ok(());
        }
        let in_use: BTreeSet<&Name> = self
            .members
            .values()
            .filter_map(|member| member.said.regex.as_ref())
            .collect();
        // Each is compiled and matched anew whenever topics change.
        let max = settings.regexes_max;
        if in_use.len() >= max {
            let what = "regular expressions in a group";
            return Err(GroupError::LimitReached { what, max });
        }
        let matching = resolve_regex(settings, topics, regex)?;
        self.regexes.resolved.retain(|known, _| in_use.contains(known));
        self.regexes.resolved.insert(Name::clone(regex), matching);
        Ok(())
    }

    /// Topics have changed: matches all expressions anew. One that new topics made too costly matches what it matched before;
    /// their names are not its members' fault.
    pub(super) fn resolve_again(&mut self, settings: &Settings, topics: &Topics) {
        let in_use: BTreeSet<Name> = self
            .members
            .values()
            .filter_map(|member| member.said.regex.clone())
            .collect();
        let mut before = std::mem::take(&mut self.regexes.resolved);
        self.regexes.resolved = in_use
            .into_iter()
            .map(|regex| {
                let matching = resolve_regex(settings, topics, &regex)
                    .unwrap_or_else(|_| before.remove(&regex).unwrap_or_default());
                (regex, matching)
            })
            .collect();
    }

    /// The topics that a member wants and that are there.
    pub(super) fn wanted<'a>(
        &'a self,
        topics: &'a Topics,
        said: &'a MemberValue,
    ) -> impl Iterator<Item = (&'a Name, Topic)> + 'a {
        let by_regex = said.regex.iter().flat_map(|regex| self.regexes.topics(regex));
        said.topics
            .iter()
            .chain(by_regex)
            .filter_map(|name| topics.named(name).map(|topic| (name, topic)))
    }

    /// The topics that members want.
    pub(crate) fn subscribed(&self) -> BTreeSet<Name> {
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.extend(member.said.topics.iter().cloned());
            if let Some(regex) = &member.said.regex {
                topics.extend(self.regexes.topics(regex).cloned());
            }
        }
        topics
    }
}

/// Stands for the partitions of these topics: another number when they change. FNV-1a; it is stored, and must stay as
/// it is.
pub(super) fn hash_topics(topics: &BTreeMap<TopicId, i32>) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (id, partition_count) in topics {
        for byte in id.0.iter().chain(&partition_count.to_be_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    i64::from_ne_bytes(hash.to_ne_bytes())
}
