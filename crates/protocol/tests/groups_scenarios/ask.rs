//! From the words of a script to requests.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use protocol::groups::{
    Assignment, CommitOffsets, CommitPartition, CommitPending, CommittedOffset, ConsumerHeartbeat,
    DeleteGroup, DeleteOffsets, DescribeClassic, DescribeConsumer, EndTransaction, FetchOffsets, FetchTopic,
    Heartbeat, JoinGroup, LeaveGroup, LeavingMember, ListGroups, MemberPresence, Name, OffsetCommitter,
    Protocol, Request, SyncGroup, TopicPartition,
};
use protocol::producers::ProducerId;
use record::{Epoch, Offset, PartitionId, TopicId};

use super::{Client, Stage};

/// The words after the verb: plain ones and `key=value`.
struct Words<'a>(&'a [&'a str]);

impl<'a> Words<'a> {
    fn named(&self, name: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn list(&self, name: &str) -> Option<Vec<&'a str>> {
        self.named(name)
            .map(|list| list.split(',').filter(|item| !item.is_empty()).collect())
    }

    fn seconds(&self, name: &str, default: u64) -> Duration {
        Duration::from_secs(
            self.named(name)
                .map_or(default, |time| time.parse().expect("seconds")),
        )
    }

    fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        self.0.iter().filter_map(|word| word.split_once('='))
    }
}

impl Stage {
    pub(super) fn request(&mut self, who: &str, verb: &str, words: &[&str]) -> Request {
        let group = Name::from(words.first().copied().unwrap_or_default());
        let words = Words(words.get(1..).unwrap_or_default());
        let key = (who.to_string(), group.to_string());
        let client = self.clients.entry(key).or_default().clone();
        match verb {
            "joins" => Request::Join(self.join(who, group, &client, &words)),
            "syncs" => Request::Sync(self.sync(group, &client, &words)),
            "beats" => Request::Heartbeat(Heartbeat {
                group,
                member: client.member,
                instance: words.named("as").map(Name::from),
                generation: words.named("gen").map_or(client.generation, number),
            }),
            "leaves" => Request::Leave(leave(group, &client, &words)),
            "commits" => Request::CommitOffsets(self.commit(group, &client, &words)),
            "pends" => Request::CommitPending(CommitPending {
                producer: producer(words.named("by").expect("by=producer")),
                producer_epoch: words.named("at").map_or(0, number),
                commit: self.commit(group, &client, &words),
            }),
            "commits-all-of" | "aborts-all-of" => Request::EndTransaction(EndTransaction {
                producer: producer(&group),
                producer_epoch: words.named("at").map_or(0, number),
                coordinator_epoch: words.named("coordinator").map_or(1, number),
                version: words.named("version").map_or(1, number),
                commit: verb == "commits-all-of",
            }),
            "fetches" => Request::FetchOffsets(fetch(group, &client, &words)),
            "clears" => Request::DeleteOffsets(DeleteOffsets {
                group,
                partitions: words.0.iter().copied().map(partition).collect(),
            }),
            "deletes" => Request::DeleteGroup(DeleteGroup { group }),
            "describes" => Request::DescribeClassic(DescribeClassic { group }),
            "inspects" => Request::DescribeConsumer(DescribeConsumer { group }),
            "lists" => Request::List(ListGroups {
                states: names(&words, "states"),
                types: names(&words, "types"),
                ..ListGroups::default()
            }),
            "subscribes" | "hears" | "quits" | "pauses" => {
                Request::ConsumerHeartbeat(self.consumer_heartbeat(who, verb, group, &client, &words))
            }
            other => panic!("no such verb: {other}"),
        }
    }

    fn random(&self) -> u128 {
        u128::from(self.next_ticket) + 1
    }

    fn join(&mut self, who: &str, group: Name, client: &Client, words: &Words<'_>) -> JoinGroup {
        let version: i32 = words.named("v").map_or(9, number);
        let topics = words.list("topics").unwrap_or_else(|| vec!["orders"]);
        let protocols = match (&client.protocols, words.list("protocols"), words.named("owns")) {
            (Some(protocols), None, None) => protocols.clone(),
            (_, wanted, owned) => wanted
                .unwrap_or_else(|| vec!["range"])
                .into_iter()
                .map(|name| Protocol {
                    name: Name::from(name),
                    metadata: subscription(&topics, owned),
                })
                .collect(),
        };
        let known = self
            .clients
            .get_mut(&(who.to_string(), group.to_string()))
            .expect("just made");
        known.protocols = Some(protocols.clone());
        JoinGroup {
            member: if words.has("anew") {
                Name::default()
            } else {
                Name::clone(&client.member)
            },
            group,
            instance: words.named("as").map(Name::from),
            client_id: Name::from(who),
            client_host: Name::from("/10.0.0.1"),
            session_timeout: words.seconds("session", 10),
            rebalance_timeout: words.seconds("rebalance", 60),
            protocol_type: Name::from(words.named("type").unwrap_or("consumer")),
            protocols,
            requires_known_member: version >= 4,
            can_skip_assignment: version >= 9,
            random: self.random(),
        }
    }

    fn sync(&mut self, group: Name, client: &Client, words: &Words<'_>) -> SyncGroup {
        let assignments = words
            .pairs()
            .filter(|(person, _)| !["gen", "as", "protocol"].contains(person))
            .map(|(person, what)| {
                let known = self.clients.get(&(person.to_string(), group.to_string()));
                let member = known.map_or_else(|| Name::from(person), |known| Name::clone(&known.member));
                let assignment = if what.contains('/') {
                    assignment(what)
                } else {
                    Bytes::copy_from_slice(what.as_bytes())
                };
                (member, assignment)
            })
            .collect();
        SyncGroup {
            group,
            member: Name::clone(&client.member),
            instance: words.named("as").map(Name::from),
            generation: words.named("gen").map_or(client.generation, number),
            protocol_type: None,
            protocol: words.named("protocol").map(Name::from),
            assignments,
        }
    }

    fn commit(&self, group: Name, client: &Client, words: &Words<'_>) -> CommitOffsets {
        let outside = words.has("from-outside");
        let partitions = words
            .pairs()
            .filter(|(name, _)| name.contains('/'))
            .map(|(name, offset)| {
                let partition = partition(name);
                let known = self.topics.get(&partition.topic);
                CommitPartition {
                    topic_id: known.map_or(TopicId([99; 16]), |(id, _)| *id),
                    partition,
                    committed: CommittedOffset {
                        offset: Offset(number(offset)),
                        leader_epoch: words.named("leader-epoch").map(|epoch| Epoch(number(epoch))),
                        metadata: match words.named("note-bytes") {
                            Some(bytes) => Name::from("x".repeat(number(bytes))),
                            None => Name::from(words.named("note").unwrap_or_default()),
                        },
                    },
                }
            })
            .collect();
        let committer = OffsetCommitter {
            member: if outside {
                Name::default()
            } else {
                Name::clone(&client.member)
            },
            instance: words.named("as").map(Name::from),
            generation_or_epoch: match (outside, words.named("gen")) {
                (true, _) => -1,
                (false, Some(generation)) => number(generation),
                (false, None) => client.generation,
            },
            knows_epochs: !words.has("without-epochs"),
        };
        CommitOffsets {
            group,
            client_host: "/host".into(),
            committer,
            partitions,
        }
    }

    fn consumer_heartbeat(
        &mut self,
        who: &str,
        verb: &str,
        group: Name,
        client: &Client,
        words: &Words<'_>,
    ) -> ConsumerHeartbeat {
        let joins = verb == "subscribes";
        let presence = match verb {
            "subscribes" => MemberPresence::Joining,
            "quits" => MemberPresence::Leaving,
            "pauses" => MemberPresence::LeavingForAWhile,
            _ => MemberPresence::At(words.named("epoch").map_or(client.generation, number)),
        };
        let member = if client.member.is_empty() {
            Name::from(format!("id-of-{who}"))
        } else {
            Name::clone(&client.member)
        };
        let member = words.named("id").map_or(member, Name::from);
        ConsumerHeartbeat {
            group,
            member,
            presence,
            instance: words.named("as").map(Name::from),
            rack: None,
            client_id: Name::from(who),
            client_host: Name::from("/10.0.0.1"),
            rebalance_timeout: (joins || words.has("all")).then(|| words.seconds("rebalance", 30)),
            topics: words
                .list("topics")
                .map(|topics| topics.into_iter().map(Name::from).collect()),
            regex: words.named("regex").map(Name::from),
            assignor: words.named("assignor").map(Name::from),
            owned: if joins {
                Some(Assignment::default())
            } else {
                self.owned(client, words)
            },
            random: self.random(),
        }
    }

    /// `owns=all` is what the member was last told to have.
    fn owned(&self, client: &Client, words: &Words<'_>) -> Option<Assignment> {
        if words.named("owns") == Some("all") {
            return Some(client.assigned.clone());
        }
        let partitions = words.list("owns")?;
        Some(
            partitions
                .into_iter()
                .map(partition)
                .map(|partition| PartitionId {
                    topic: self.topics.get(&partition.topic).expect("a known topic").0,
                    index: partition.index,
                })
                .collect(),
        )
    }
}

fn leave(group: Name, client: &Client, words: &Words<'_>) -> LeaveGroup {
    let instances = words.list("instances").unwrap_or_default();
    let members = if instances.is_empty() {
        vec![LeavingMember {
            member: Name::clone(&client.member),
            instance: words.named("as").map(Name::from),
        }]
    } else {
        instances
            .into_iter()
            .map(|instance| LeavingMember {
                member: Name::default(),
                instance: Some(Name::from(instance)),
            })
            .collect()
    };
    LeaveGroup { group, members }
}

fn fetch(group: Name, client: &Client, words: &Words<'_>) -> FetchOffsets {
    let wanted: Vec<TopicPartition> = words
        .0
        .iter()
        .filter(|word| word.contains('/'))
        .map(|word| partition(word))
        .collect();
    let topics = wanted
        .into_iter()
        .map(|wanted| FetchTopic {
            topic: wanted.topic,
            partitions: vec![wanted.index],
        })
        .collect::<Vec<_>>();
    FetchOffsets {
        group,
        member: words.has("as-member").then(|| {
            (
                Name::clone(&client.member),
                words.named("epoch").map_or(client.generation, number),
            )
        }),
        topics: (!topics.is_empty()).then_some(topics),
        require_stable: words.has("stable"),
    }
}

fn names(words: &Words<'_>, name: &str) -> Vec<Name> {
    words
        .list(name)
        .unwrap_or_default()
        .into_iter()
        .map(Name::from)
        .collect()
}

fn partition(text: &str) -> TopicPartition {
    let (topic, index) = text.split_once('/').expect("topic/partition");
    TopicPartition {
        topic: Name::from(topic),
        index: number(index),
    }
}

fn producer(id: &str) -> ProducerId {
    ProducerId(number(id))
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().expect("a number")
}

/// A subscription of the embedded consumer protocol: version 1 says what the member has.
fn subscription(topics: &[&str], owned: Option<&str>) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(i16::from(owned.is_some()));
    bytes.put_i32(i32::try_from(topics.len()).expect("few"));
    for topic in topics {
        bytes.put_i16(i16::try_from(topic.len()).expect("short"));
        bytes.put_slice(topic.as_bytes());
    }
    bytes.put_i32(-1);
    if let Some(owned) = owned {
        put_partitions(&mut bytes, owned);
    }
    bytes.freeze()
}

/// An assignment of the embedded consumer protocol, from `topic/0+1`.
fn assignment(text: &str) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    put_partitions(&mut bytes, text);
    bytes.put_i32(-1);
    bytes.freeze()
}

fn put_partitions(bytes: &mut BytesMut, text: &str) {
    let (topic, indexes) = text.split_once('/').expect("topic/0+1");
    bytes.put_i32(1);
    bytes.put_i16(i16::try_from(topic.len()).expect("short"));
    bytes.put_slice(topic.as_bytes());
    let indexes: Vec<i32> = indexes.split('+').map(number).collect();
    bytes.put_i32(i32::try_from(indexes.len()).expect("few"));
    for index in indexes {
        bytes.put_i32(index);
    }
}
