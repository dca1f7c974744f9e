//! The group APIs: Kafka's requests as the coordinators' words, and their answers as Kafka's.
//!
//! Nothing is decided here but what the wire's versions differ in. Errors become codes in `error_codes`.

mod answer_room;
mod consumer;
mod describe;
mod find_coordinator;
mod membership;
mod offsets;

use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kafka_wire::{ErrorCode, Text};
use platform::slices::Slices;
use protocol::groups::{Ask, GroupError, Name};

use crate::budget::SharedRoom;
use crate::core::Core;
use crate::error_codes::group_code;
use crate::long::beside;

pub(super) use consumer::{consumer_group_heartbeat, heard_bytes};
pub(super) use describe::{
    consumer_group_describe, delete_groups, describe_groups, described_bytes, described_consumer_bytes,
    list_bytes, list_groups,
};
pub(super) use find_coordinator::find_coordinator;
pub(super) use membership::{heartbeat, join_group, leave_group, sync_group};
pub(super) use offsets::{fetched_bytes, offset_commit, offset_delete, offset_fetch};

/// Groups that one request has coordinators look at side by side.
const AT_ONCE: usize = 64;
/// Answers that are taken before others have their turn: of a group that is not there it comes at once.
const ANSWERS_IN_ONE_TURN: usize = 1_000;

/// Why a group request was not done: the code, and a sentence where an answer has room for one.
struct Refusal {
    code: ErrorCode,
    message: Option<String>,
}

impl Refusal {
    fn text(&self) -> Option<Text> {
        self.message.as_deref().map(Text::from)
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        Refusal { code, message: None }
    }
}

impl From<GroupError> for Refusal {
    fn from(error: GroupError) -> Refusal {
        Refusal {
            code: group_code(&error),
            message: Some(error.to_string()),
        }
    }
}

/// Asks the coordinator of one group.
async fn ask<Q: Ask>(core: &Rc<Core>, request: Q) -> Result<Q::Answer, Refusal> {
    Ok(ask_and_wait(core, request, None).await??)
}

/// The same for what may wait for long: `room`, which a large request has taken while it came, is free again as soon as the
/// coordinator has it. Why the coordinator refused stands inside; outside, why there is none.
async fn ask_and_wait<Q: Ask>(
    core: &Rc<Core>,
    request: Q,
    room: SharedRoom,
) -> Result<Result<Q::Answer, GroupError>, ErrorCode> {
    let answer = core.hand_to_coordinator(request.into(), room).await?;
    Ok(Q::take(answer).expect("an answer is of its request's kind"))
}

/// Marks what a request names first. An answer says everything about a group, whatever the request's length: asked for often
/// enough, the same group would fill the memory.
async fn once<I: Send + 'static>(
    core: &Core,
    items: Vec<I>,
    key: impl Fn(&I) -> &Text + Send + 'static,
) -> Vec<(I, bool)> {
    let count = items.len();
    let mark = move || {
        let is_first: Vec<bool> = {
            let mut seen = BTreeSet::new();
            items.iter().map(|item| seen.insert(key(item))).collect()
        };
        items.into_iter().zip(is_first).collect()
    };
    beside(core, count, mark).await
}

/// The refusal of a group that a request names again.
fn named_twice() -> Refusal {
    Refusal {
        code: ErrorCode::InvalidRequest,
        message: Some("the request names this group twice".to_owned()),
    }
}

/// Asks about many groups, a bounded number at a time; answers in order.
async fn for_each<I, T, F>(items: Vec<I>, ask: impl FnMut(I) -> F) -> Vec<T>
where
    F: Future<Output = T>,
{
    let mut slices = Slices::of(ANSWERS_IN_ONE_TURN);
    let mut answers = Vec::with_capacity(items.len());
    let mut asked = pin!(stream::iter(items).map(ask).buffered(AT_ONCE));
    while let Some(answer) = asked.next().await {
        answers.push(answer);
        slices.did(1).await;
    }
    answers
}

fn name(text: &Text) -> Name {
    Name::from(text.as_str())
}

fn names(texts: &[Text]) -> Vec<Name> {
    texts.iter().map(name).collect()
}

fn optional_name(text: Option<&Text>) -> Option<Name> {
    text.map(name)
}

fn text(name: &Name) -> Text {
    Text::from(&**name)
}

fn optional_text(name: Option<&Name>) -> Option<Text> {
    name.map(text)
}

/// A time of the wire; below zero is none.
fn time(milliseconds: i32) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}
