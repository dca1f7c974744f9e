//! The regular expressions that members of consumer groups subscribe with, of all groups of a coordinator: each is
//! compiled once, and matched once when topics have changed, however many groups have it.
//!
//! Whatever an expression and the names of topics are, matching all of them costs a bounded number of steps, and is refused
//! beyond that: a client must not be able to stop a core.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use super::contract::{GroupError, Name};
use super::records::GROUPS_TOPIC;
use super::rounds::WORK_AT_ONCE;
use super::settings::Settings;
use super::topics::Topics;
use crate::order::TWIN_SUFFIX;

/// Bytes that an expression takes beside its automaton and the names that it matches.
const EXPRESSION_BYTES: usize = 1024;
/// Bytes that a name takes that is matched: the text itself is the topic's.
const MATCH_BYTES: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    known: BTreeMap<Name, Expression>,
    /// The bytes that they take, roughly.
    held_bytes: usize,
    /// Those whose last hold is gone.
    let_go: Rc<RefCell<Vec<Name>>>,
}

/// Keeps an expression known as long as it lives.
#[derive(Debug)]
pub(crate) struct Hold {
    regex: Name,
    let_go: Rc<RefCell<Vec<Name>>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.let_go.borrow_mut().push(Name::clone(&self.regex));
    }
}

/// The topics that an expression matches.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    /// Sorted.
    pub(crate) names: Vec<Name>,
    /// The partitions that they had together when they were matched.
    pub(crate) partitions: usize,
}

#[derive(Debug)]
struct Expression {
    /// None if it cannot be compiled, which may be so of one that is stored: it matches nothing.
    compiled: Option<DFA>,
    matching: Arc<Matching>,
    /// The version of the topics that it was last matched with.
    version: u64,
    /// Nobody new may have it: it cost too much then, and what it matches is from before.
    is_refused: bool,
    hold: Weak<Hold>,
}

impl Expression {
    fn of(compiled: Option<DFA>, topics: &Topics) -> Expression {
        let mut new = Expression {
            compiled,
            matching: Arc::default(),
            version: 0,
            is_refused: false,
            hold: Weak::new(),
        };
        new.match_with(topics);
        new
    }

    /// One that new topics made too costly matches what it matched before; their names are not its members' fault.
    fn match_with(&mut self, topics: &Topics) {
        self.version = topics.version();
        let found = self
            .compiled
            .as_ref()
            .and_then(|compiled| matching(compiled, topics));
        self.is_refused = found.is_none();
        if let Some(found) = found {
            self.matching = Arc::new(found);
        }
    }

    fn held_bytes(&self) -> usize {
        let compiled = self.compiled.as_ref();
        let compiled_bytes = compiled.map_or(0, |compiled| compiled.get_nfa().memory_usage());
        EXPRESSION_BYTES + compiled_bytes + self.matching.names.len() * MATCH_BYTES
    }
}

impl Expressions {
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(crate) fn is_known(&self, regex: &Name) -> bool {
        self.known.contains_key(regex)
    }

    /// Takes an expression that a member wants to have.
    ///
    /// # Errors
    /// Not an expression, one too large once it is compiled, or one that the names of the topics cost too much with.
    pub(crate) fn learn(
        &mut self,
        settings: &Settings,
        topics: &Topics,
        regex: &Name,
    ) -> Result<Rc<Hold>, GroupError> {
        let too_costly = || invalid("it costs too much to match".to_owned());
        if self.known.get(regex).is_some_and(|known| known.is_refused) {
            return Err(too_costly());
        }
        if let Some(hold) = self.hold_known(regex) {
            return Ok(hold);
        }
        let new = Expression::of(Some(compile(settings, regex)?), topics);
        if new.is_refused {
            return Err(too_costly());
        }
        self.forget_unused();
        Ok(self.insert(regex, new))
    }

    /// The same for an expression that a member has already: it is never refused.
    pub(crate) fn hold(&mut self, settings: &Settings, topics: &Topics, regex: &Name) -> Rc<Hold> {
        match self.hold_known(regex) {
            Some(hold) => hold,
            None => self.insert(regex, Expression::of(compile(settings, regex).ok(), topics)),
        }
    }

    /// Forgets what nobody has any more. What is kept counts, and must not keep others from growing.
    pub(crate) fn forget_unused(&mut self) {
        for regex in self.let_go.take() {
            // Somebody may have it again.
            let is_used = |known: &Expression| known.hold.strong_count() > 0;
            if self.known.get(&regex).is_none_or(is_used) {
                continue;
            }
            if let Some(unused) = self.known.remove(&regex) {
                self.held_bytes -= unused.held_bytes();
            }
        }
    }

    /// Matches anew what was last matched before this version of the topics, but not all at once: says whether that is
    /// done.
    pub(crate) fn match_some(&mut self, topics: &Topics, version: u64) -> bool {
        self.forget_unused();
        let mut work = 0;
        for known in self.known.values_mut() {
            if known.version >= version {
                continue;
            }
            if work >= WORK_AT_ONCE {
                return false;
            }
            work += 1 + topics.count();
            self.held_bytes -= known.held_bytes();
            known.match_with(topics);
            self.held_bytes += known.held_bytes();
        }
        true
    }

    /// The topics that an expression matched last; none if nobody has it.
    pub(crate) fn matching(&self, regex: &Name) -> Arc<Matching> {
        let known = self.known.get(regex);
        known.map(|known| Arc::clone(&known.matching)).unwrap_or_default()
    }

    fn insert(&mut self, regex: &Name, new: Expression) -> Rc<Hold> {
        self.held_bytes += new.held_bytes();
        self.known.insert(Name::clone(regex), new);
        self.hold_known(regex).expect("just inserted")
    }

    fn hold_known(&mut self, regex: &Name) -> Option<Rc<Hold>> {
        let known = self.known.get_mut(regex)?;
        if let Some(hold) = known.hold.upgrade() {
            return Some(hold);
        }
        let hold = Rc::new(Hold {
            regex: Name::clone(regex),
            let_go: Rc::clone(&self.let_go),
        });
        known.hold = Rc::downgrade(&hold);
        Some(hold)
    }
}

/// The topics whose whole names match, sorted; `None` if that costs too much.
fn matching(compiled: &DFA, topics: &Topics) -> Option<Matching> {
    let mut states = compiled.create_cache();
    let mut matching = Matching::default();
    // Who reads all topics does not read the twins, too.
    let is_meant = |name: &Name| &**name != GROUPS_TOPIC && !name.ends_with(TWIN_SUFFIX);
    for (name, topic) in topics.iter().filter(|(name, _)| is_meant(name)) {
        let whole = Input::new(&**name).anchored(Anchored::Yes);
        if compiled.try_search_fwd(&mut states, &whole).ok()?.is_some() {
            matching.names.push(Name::clone(name));
            matching.partitions += topic.partitions();
        }
    }
    Some(matching)
}

/// An automaton whose states are made as they are met, each once: a byte of a name costs one step, or one new state. The
/// memory for states bounds what all names together cost, as it is never cleared to make room for more.
fn compile(settings: &Settings, regex: &str) -> Result<DFA, GroupError> {
    // Names of topics are ASCII, and so are `\w` and `\d` in the expressions that Kafka takes (RE2).
    let syntax = syntax::Config::new().unicode(false).utf8(false);
    let regex = without_quotes(regex);
    // By itself first: a text like `a)|(b` becomes an expression only between the parentheses below.
    syntax::parse_with(&regex, &syntax).map_err(|error| invalid(error.to_string()))?;
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
        .map_err(|error| invalid(root_cause(&error)))
}

/// The same expression with each character between `\Q` and `\E` escaped by itself, as the parser knows no quotes. Java makes
/// them (`Pattern.quote`). One that is not closed goes on to the end.
fn without_quotes(regex: &str) -> Cow<'_, str> {
    const META: &str = r"\.+*?()|[]{}^$#&-~";
    if !regex.contains(r"\Q") {
        return Cow::Borrowed(regex);
    }
    let mut plain = String::with_capacity(2 * regex.len());
    let mut rest = regex;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        plain.push_str(before);
        let Some(quoted) = escape.strip_prefix(r"\Q") else {
            // With what it escapes, which may be a backslash.
            let end = escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end);
            plain.push_str(&escape[..end]);
            rest = &escape[end..];
            continue;
        };
        let (quoted, behind) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
        for character in quoted.chars() {
            if META.contains(character) {
                plain.push('\\');
            }
            plain.push(character);
        }
        rest = behind;
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

fn invalid(why: String) -> GroupError {
    GroupError::InvalidRegex { why: Name::from(why) }
}

/// The one that says what is wrong.
fn root_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

#[cfg(test)]
mod tests {
    use record::TopicId;

    use super::super::topics::TopicChange;
    use super::*;

    fn learn(expressions: &mut Expressions, topics: &Topics, regex: &str) -> Rc<Hold> {
        expressions
            .learn(&Settings::default(), topics, &Name::from(regex))
            .expect("an expression")
    }

    #[test]
    fn an_expression_is_known_as_long_as_somebody_has_it() {
        let (mut expressions, topics) = (Expressions::default(), Topics::default());
        let first = learn(&mut expressions, &topics, "a.*");
        let one_bytes = expressions.held_bytes();
        let second = learn(&mut expressions, &topics, "a.*");
        assert_eq!(expressions.held_bytes(), one_bytes, "it is there once");
        drop(first);
        let other = learn(&mut expressions, &topics, "b.*");
        assert!(expressions.is_known(&Name::from("a.*")));
        drop((second, other));
        let last = learn(&mut expressions, &topics, "c.*");
        assert_eq!(expressions.known.len(), 1);
        assert_eq!(expressions.held_bytes(), one_bytes, "as long as the first one");
        // One that is taken up again before it is forgotten stays.
        drop(last);
        let again = learn(&mut expressions, &topics, "c.*");
        expressions.forget_unused();
        assert_eq!(expressions.held_bytes(), one_bytes);
        drop(again);
        expressions.forget_unused();
        assert_eq!((expressions.known.len(), expressions.held_bytes()), (0, 0));
    }

    #[test]
    fn what_is_quoted_stands_for_itself() {
        for (regex, plain) in [
            (r"orders\..*", r"orders\..*"),
            (r"\Qorders.eu\E", r"orders\.eu"),
            (r"a+\Q(b\E|\Q*\E?", r"a+\(b|\*?"),
            (r"\Qnot closed[", r"not closed\["),
            (r"\Q\a\E", r"\\a"),
            (r"\\Q.", r"\\Q."),
            (r"\\\Q.\E", r"\\\."),
            (r"\Q\E", ""),
            (r"\", r"\"),
            (r"\Qa\E\", r"a\"),
            (r"\é\Qé.\E", r"\éé\."),
        ] {
            assert_eq!(without_quotes(regex), plain, "{regex}");
        }
        let (mut expressions, mut topics) = (Expressions::default(), Topics::default());
        for (number, name) in (1..).zip(["orders.eu", "ordersXeu"]) {
            topics.apply(TopicChange::There {
                topic: Name::from(name),
                id: TopicId([number; 16]),
                partition_count: 1,
            });
        }
        let quoted = r"\Qorders.eu\E";
        let hold = learn(&mut expressions, &topics, quoted);
        assert_eq!(
            expressions.matching(&Name::from(quoted)).names,
            [Name::from("orders.eu")]
        );
        drop(hold);
    }

    #[test]
    fn what_topics_change_is_matched_once_for_all() {
        let (mut expressions, mut topics) = (Expressions::default(), Topics::default());
        let holds = [
            learn(&mut expressions, &topics, "a.*"),
            learn(&mut expressions, &topics, ".*b"),
            learn(&mut expressions, &topics, "a.*"),
        ];
        let empty_bytes = expressions.held_bytes();
        for (number, name) in ["a", "ab", GROUPS_TOPIC, "b"].into_iter().enumerate() {
            let id = TopicId([u8::try_from(number + 1).expect("few"); 16]);
            let gone = topics.apply(TopicChange::There {
                topic: Name::from(name),
                id,
                partition_count: 1,
            });
            assert_eq!(gone, None);
        }
        assert!(expressions.match_some(&topics, topics.version()));
        let matched = |regex: &str| -> Vec<Name> { expressions.matching(&Name::from(regex)).names.clone() };
        assert_eq!(matched("a.*"), ["a", "ab"].map(Name::from));
        assert_eq!(matched(".*b"), ["ab", "b"].map(Name::from));
        assert_eq!(expressions.held_bytes(), empty_bytes + 4 * MATCH_BYTES);
        drop(holds);
    }
}
