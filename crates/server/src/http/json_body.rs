//! Bodies that are JSON: read whole within a limit of bytes, and with a limit on the entries of their lists, so that what is
//! beyond it is neither kept nor done.

use std::fmt;
use std::marker::PhantomData;

use axum::extract::Request;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::budget::Room;
use crate::caller::Caller;

use super::App;
use super::body;
use super::json_words::in_words;
use super::media_type::{MediaType, of_body};
use super::problem::{Kind, Problem};

/// Reads a request's body, and keeps the room that the body takes.
///
/// # Errors
/// The body is no JSON or not the JSON it should be, has more than `bytes_max` bytes, or cannot be read (`body::read`).
pub(super) async fn take_json<T: DeserializeOwned>(
    app: &App,
    caller: &Caller,
    request: Request,
    bytes_max: usize,
) -> Result<(T, Room), Problem> {
    of_body(request.headers(), &[MediaType::Json])?;
    let bytes_max = bytes_max.min(app.body_bytes_max());
    let (body, room) = body::read(app, caller, request, bytes_max).await?;
    let value = serde_json::from_slice(&body).map_err(|error| malformed_json(&error))?;
    Ok((value, room))
}

/// The problem of a body that is not the JSON it should be, with the place.
pub(super) fn malformed_json(error: &serde_json::Error) -> Problem {
    Problem::new(Kind::MalformedBody, in_words(error))
        .with("line", error.line())
        .with("column", error.column())
}

/// A value written as an object, and not as an array of its members in their order: serde takes that for the same.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

/// The items of an array: `MAX` at most, and at least `MIN`.
#[derive(Debug)]
pub(crate) struct Items<T, const MAX: usize, const MIN: usize = 1>(pub(crate) Vec<T>);

/// The members of an object in their order, a name as often as it stands there: `MAX` at most, and at least `MIN`.
#[derive(Debug)]
pub(super) struct Members<T, const MAX: usize, const MIN: usize = 1>(pub(super) Vec<(String, T)>);

impl<T, const MAX: usize> Default for Items<T, MAX, 0> {
    fn default() -> Self {
        Items(Vec::new())
    }
}

impl<T, const MAX: usize> Default for Members<T, MAX, 0> {
    fn default() -> Self {
        Members(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_map(ObjectVisitor(PhantomData))
            .map(Object)
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize, const MIN: usize> Deserialize<'de> for Items<T, MAX, MIN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize, const MIN: usize> Deserialize<'de> for Members<T, MAX, MIN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }
}

struct ItemsVisitor<T, const MAX: usize, const MIN: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize, const MIN: usize> Visitor<'de>
    for ItemsVisitor<T, MAX, MIN>
{
    type Value = Items<T, MAX, MIN>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an array of {MIN} to {MAX} items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut taken = Vec::new();
        while let Some(item) = items.next_element()? {
            check_room(taken.len(), MAX)?;
            taken.push(item);
        }
        check_some(taken.len(), MIN)?;
        Ok(Items(taken))
    }
}

struct MembersVisitor<T, const MAX: usize, const MIN: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize, const MIN: usize> Visitor<'de>
    for MembersVisitor<T, MAX, MIN>
{
    type Value = Members<T, MAX, MIN>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an object with {MIN} to {MAX} members")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut taken = Vec::new();
        while let Some(member) = members.next_entry()? {
            check_room(taken.len(), MAX)?;
            taken.push(member);
        }
        check_some(taken.len(), MIN)?;
        Ok(Members(taken))
    }
}

fn check_room<E: Error>(taken: usize, max: usize) -> Result<(), E> {
    match taken < max {
        true => Ok(()),
        false => Err(E::custom(format!("there may be {max} entries here, no more"))),
    }
}

fn check_some<E: Error>(taken: usize, min: usize) -> Result<(), E> {
    match taken < min {
        true => Err(E::custom("there is no entry in the body")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_while_they_are_read() {
        let read = |text: &str| serde_json::from_str::<Items<i32, 2>>(text).map(|Items(items)| items);
        assert_eq!(read("[1,2]").expect("two are taken"), [1, 2]);
        for (text, word) in [
            ("[]", "no entry"),
            ("[1,2,3]", "2 entries"),
            // Bytes behind the limit are not looked at.
            ("[1,2,3,", "2 entries"),
            ("{}", "an array of 1 to 2 items"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        let Items(none) = serde_json::from_str::<Items<i32, 2, 0>>("[]").expect("none is enough");
        assert!(none.is_empty());
    }

    #[test]
    fn an_array_is_no_object() {
        #[derive(serde::Deserialize)]
        struct One {
            one: i32,
        }
        let Object(One { one }) = serde_json::from_str(r#"{"one":1}"#).expect("an object");
        assert_eq!(one, 1);
        let refused = serde_json::from_str::<Object<One>>("[1]")
            .err()
            .expect("an array");
        assert!(refused.to_string().contains("expected an object"), "{refused}");
    }

    #[test]
    fn a_member_that_is_named_twice_is_there_twice() {
        type Two = Members<Option<String>, 2>;
        let Members(members) = serde_json::from_str::<Two>(r#"{"a":"1","a":null}"#).expect("sound");
        assert_eq!(
            members,
            [("a".to_owned(), Some("1".to_owned())), ("a".to_owned(), None)]
        );
        for text in ["{}", "[]", r#"{"a":1}"#, r#"{"a":"1","b":"2","c":"3"}"#] {
            assert!(serde_json::from_str::<Two>(text).is_err(), "{text}");
        }
        let Members(none) = serde_json::from_str::<Members<i32, 2, 0>>("{}").expect("none is enough");
        assert!(none.is_empty());
    }
}
