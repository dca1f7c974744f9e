//! The operations that a client may do with a topic, a group or the cluster, as Kafka tells them (KIP-430). Nobody is kept from
//! anything yet: each is told all that there are, as by a Kafka without an authorizer.

// Operations by their numbers (Kafka's AclOperation): each is the bit of its number.
const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
const CREATE: i32 = 1 << 5;
const DELETE: i32 = 1 << 6;
const ALTER: i32 = 1 << 7;
const DESCRIBE: i32 = 1 << 8;
const CLUSTER_ACTION: i32 = 1 << 9;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ALTER_CONFIGS: i32 = 1 << 11;
const IDEMPOTENT_WRITE: i32 = 1 << 12;

/// With a topic.
pub(super) const ON_TOPIC: i32 =
    READ | WRITE | CREATE | DELETE | ALTER | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
/// With a group.
pub(super) const ON_GROUP: i32 = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
/// With the cluster.
pub(super) const ON_CLUSTER: i32 =
    CREATE | ALTER | DESCRIBE | CLUSTER_ACTION | DESCRIBE_CONFIGS | ALTER_CONFIGS | IDEMPOTENT_WRITE;

/// The answer to a client that did not ask.
const NOT_ASKED: i32 = i32::MIN;

/// The operations, if the client wants to know them.
pub(super) fn if_asked(is_asked: bool, operations: i32) -> i32 {
    if is_asked { operations } else { NOT_ASKED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_kafkas() {
        assert_eq!((ON_TOPIC, ON_GROUP, ON_CLUSTER), (3_576, 3_400, 8_096));
        assert_eq!(if_asked(false, ON_GROUP), i32::MIN);
    }
}
