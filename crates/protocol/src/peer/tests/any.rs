//! Any message that a node could send.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

pub(super) fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        1 => any_hello().prop_map(Message::Hello),
        1 => any_refused().prop_map(Message::Refused),
        1 => any_offset().prop_map(|image_offset| Message::Heartbeat(Heartbeat { image_offset })),
        1 => any_beat().prop_map(Message::Beat),
        4 => any_admitted_message(),
        2 => any_metadata_message(),
    ]
}

/// Any message of joining, or about the metadata.
fn any_metadata_message() -> impl Strategy<Value = Message> {
    let bytes = || vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    prop_oneof![
        (prop::option::of(0..9i32), any::<bool>())
            .prop_map(|(wanted, has_peer)| join(wanted.map(NodeId), has_peer)),
        (any::<[u8; 16]>(), 0..=i32::MAX).prop_map(|(cluster, node)| Message::Joined(Joined {
            cluster: ClusterId(cluster),
            node: NodeId(node),
        })),
        bytes().prop_map(Message::Group),
        bytes().prop_map(range),
        (0..i64::MAX, any::<u64>(), 1..=u32::MAX).prop_map(|(first, number, bytes_max)| Message::RangeWish(
            RangeWish {
                partition: partition(),
                number,
                first: Offset(first),
                next: Offset(first + 1),
                bytes_max,
            }
        )),
        bytes().prop_map(Message::Proposal),
        (vec(any::<u64>(), 0..4), any::<bool>()).prop_map(|(frames, is_own)| match is_own {
            true => Message::Durable(frames),
            false => Message::Witnessed(frames),
        }),
        vec(any_address(), 0..4).prop_map(Message::Peers),
        any_address().prop_map(Message::Http),
        (any_epoch(), any_epoch(), 0..1_i64 << 62, 0..1_i64 << 62).prop_map(
            |(scribe, epoch, log_start, kept)| {
                let committed = Committed {
                    partition: partition(),
                    epoch,
                    log_start: Offset(log_start),
                    tail: Offset(log_start + kept),
                };
                Message::Committed(Report { scribe, committed })
            }
        ),
        (0..=i32::MAX, 0..1_u64 << 62, 0..1_i64 << 62, 0..1_i64 << 62).prop_map(
            |(epoch, position, first, offsets)| Message::Ordered(Ordered {
                partition: partition(),
                epoch: Epoch(epoch),
                position: Position(position),
                first: Offset(first),
                next: Offset(first + offsets),
            })
        ),
        (any::<u64>(), bytes(), any::<bool>()).prop_map(|(number, content, is_asked)| {
            let numbered = Numbered { number, content };
            match is_asked {
                true => Message::Ask(numbered),
                false => Message::Told(numbered),
            }
        }),
    ]
}

fn any_address() -> impl Strategy<Value = Address> {
    ("[a-z.]{1,20}", any::<u16>()).prop_map(|(host, port)| Address {
        host: host.into(),
        port,
    })
}

/// Any message of those that replicas send.
pub(super) fn any_admitted_message() -> impl Strategy<Value = Message> {
    let message = prop_oneof![
        any_prompt().prop_map(ReplicaMessage::Prompt),
        any_sworn().prop_map(ReplicaMessage::Sworn),
    ];
    let node = || (0..=i32::MAX).prop_map(NodeId);
    let way = (
        node(),
        prop::collection::btree_set(node(), 0..=ONWARD_MAX),
        any::<bool>(),
    );
    let way = way.prop_map(|(leader, onward, is_relayed)| {
        let onward = onward.into_iter().filter(|node| *node != leader).collect();
        (Way { leader, onward }, is_relayed)
    });
    let message = (any::<[u8; 16]>(), 0..=i32::MAX, message, way);
    message.prop_map(|(topic, index, message, (way, is_relayed))| {
        let partition = PartitionId {
            topic: TopicId(topic),
            index,
        };
        match message {
            ReplicaMessage::Prompt(prompt @ (Prompt::Append { .. } | Prompt::Trim { .. })) if is_relayed => {
                Message::Relay(Relay {
                    way,
                    partition,
                    prompt,
                })
            }
            message => Message::Replica { partition, message },
        }
    })
}

fn any_hello() -> impl Strategy<Value = Hello> {
    let identity = (any::<[u8; 16]>(), 0..=i32::MAX, any::<[u8; 16]>());
    // The highest is one that this program knows: it reads no more than that.
    let rest = (1..=u16::MAX, any::<[u16; 3]>(), any::<u64>(), any_offset());
    (identity, rest).prop_map(
        |((cluster, node, directory), (shards, [from, to, feature_level], incarnation, image_offset))| {
            Hello {
                versions: WIRE_VERSIONS,
                cluster: ClusterId(cluster),
                node: NodeId(node),
                directory: DirectoryId(directory),
                incarnation,
                shards,
                pair: ShardPair { from, to },
                feature_level: FeatureLevel(feature_level),
                image_offset,
            }
        },
    )
}

fn any_refused() -> impl Strategy<Value = Refused> {
    let reason = (0..Reason::ALL.len()).prop_map(|index| Reason::ALL[index].0);
    (reason, "[a-zA-Z0-9 äß→:,;]{0,120}").prop_map(|(reason, text)| Refused::new(reason, text))
}

fn any_prompt() -> impl Strategy<Value = Prompt<Bytes>> {
    let offset = any_offset;
    prop_oneof![
        any_epoch().prop_map(|epoch| Prompt::Seal { epoch }),
        (any_epoch(), offset()).prop_map(|(epoch, at)| Prompt::Locate { epoch, at }),
        (any_epoch(), offset()).prop_map(|(epoch, first)| Prompt::Copy { epoch, first }),
        (any_epoch(), any_landmark()).prop_map(|(epoch, landmark)| Prompt::Compare { epoch, landmark }),
        (any_epoch(), offset()).prop_map(|(epoch, at)| Prompt::Differs { epoch, at }),
        (any_epoch_and_before(), vec(any::<u8>(), 1..300)).prop_map(|((epoch, writer_before), batches)| {
            Prompt::Append {
                epoch,
                writer_before,
                batches: batches.into(),
            }
        }),
        (any_epoch_and_before(), offset()).prop_map(|((epoch, writer_before), first)| Prompt::Accept {
            epoch,
            first,
            writer_before,
        }),
        (any_epoch(), offset()).prop_map(|(epoch, tail)| Prompt::Commit { epoch, tail }),
        (any_epoch(), offset()).prop_map(|(epoch, log_start)| Prompt::Trim { epoch, log_start }),
        (any_epoch(), any_refusal()).prop_map(|(epoch, refusal)| Prompt::Refused { epoch, refusal }),
    ]
}

fn any_sworn() -> impl Strategy<Value = Sworn> {
    prop_oneof![
        (any_epoch(), any_standing(), vec(any_believer(), 0..4)).prop_map(|(epoch, standing, believers)| {
            Sworn::Promised {
                epoch,
                standing,
                believers,
            }
        }),
        (any_epoch(), any_landmark()).prop_map(|(epoch, landmark)| Sworn::Located { epoch, landmark }),
        (any_epoch(), any_epoch_or_none(), any_offset()).prop_map(|(epoch, accepted, next_offset)| {
            Sworn::Acknowledged {
                epoch,
                accepted,
                next_offset,
            }
        }),
    ]
}

fn any_believer() -> impl Strategy<Value = Believer> {
    let node = prop::option::of((0..i32::MAX).prop_map(NodeId));
    (node, 0..=GRANT.as_micros() as u64).prop_map(|(node, left_us)| Believer {
        node,
        left: Duration::from_micros(left_us),
    })
}

fn any_beat() -> impl Strategy<Value = Beat> {
    let time = || any::<u64>().prop_map(Duration::from_micros);
    let echo = (time(), time()).prop_map(|(sent, held)| Echo { sent, held });
    (time(), prop::option::of(echo)).prop_map(|(sent, echo)| Beat { sent, echo })
}

fn any_standing() -> impl Strategy<Value = Standing> {
    let epochs = (any_epoch_or_none(), any_epoch_or_none());
    let offsets = vec(any_offset(), 3..=3);
    (epochs, offsets, any::<bool>()).prop_map(|((accepted, last_writer), mut offsets, is_certain)| {
        offsets.sort();
        Standing {
            accepted,
            last_writer,
            log_start: offsets[0],
            tail: offsets[1],
            next_offset: offsets[2],
            is_certain,
        }
    })
}

fn any_landmark() -> impl Strategy<Value = Landmark> {
    prop_oneof![
        any_run().prop_map(Landmark::Run),
        any_offset().prop_map(Landmark::End),
        any_base().prop_map(Landmark::Base),
    ]
}

fn any_run() -> impl Strategy<Value = Run> {
    let offsets = (0..i64::MAX, 1..=i64::MAX);
    (0..i32::MAX, any::<Option<u16>>(), offsets).prop_map(|(writer, later, (one, other))| Run {
        writer: Epoch(writer),
        first_offset: Offset(one.min(other - 1)),
        next_offset: Offset(other.max(one + 1)),
        followed_by: later.map(|later| Epoch(writer.saturating_add(1 + i32::from(later)))),
    })
}

fn any_base() -> impl Strategy<Value = Base> {
    let history = vec(any::<u8>(), 0..300);
    let further = 0..i64::MAX / 2;
    (any_run(), any::<[bool; 2]>(), further, history).prop_map(
        |(run, [has_run, is_last], further, history)| {
            let first = match is_last {
                true => Offset(run.next_offset.0 - 1),
                false => run.first_offset,
            };
            let first = first.max(Offset(1));
            Base {
                first,
                run: (has_run && first < run.next_offset).then_some(run),
                covered: Offset(first.0.saturating_add(further)),
                history: history.into(),
            }
        },
    )
}

fn any_refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        any_epoch().prop_map(|floor| Refusal::Fenced { floor }),
        any_offset().prop_map(|tail| Refusal::Apart { tail }),
        any_offset().prop_map(|tail| Refusal::Committed { tail }),
    ]
}

fn any_epoch() -> impl Strategy<Value = Epoch> {
    prop_oneof![0..10, 0..=i32::MAX].prop_map(Epoch)
}

fn any_epoch_or_none() -> impl Strategy<Value = Epoch> {
    prop_oneof![Just(NO_EPOCH), any_epoch()]
}

/// An epoch, and that of the record before what it has a replica take.
fn any_epoch_and_before() -> impl Strategy<Value = (Epoch, Epoch)> {
    (any_epoch(), any_epoch_or_none()).prop_map(|(epoch, before)| (epoch, before.min(epoch)))
}

fn any_offset() -> impl Strategy<Value = Offset> {
    prop_oneof![0..100i64, 0..=i64::MAX].prop_map(Offset)
}
