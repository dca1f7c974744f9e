//! Kafka's error codes: how a response says what went wrong.
//!
//! The table is Kafka's own (4.3). Responses carry the bare number, since a newer peer may send one that is
//! not here.

use std::fmt;

macro_rules! error_codes {
    (@is_retriable retriable) => { true };
    (@is_retriable lasting) => { false };
    ($($variant:ident = $code:literal, $name:ident, $kind:ident;)*) => {
        /// An error code, or [`ErrorCode::None`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(#[doc = concat!("Kafka's `", stringify!($name), "`.")] $variant = $code,)*
        }

        impl ErrorCode {
            /// Every code, in ascending order.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant),*];

            /// The code with this number, if Kafka has one.
            #[must_use]
            pub const fn from_code(code: i16) -> Option<ErrorCode> {
                match code {
                    $($code => Some(ErrorCode::$variant),)*
                    _ => None,
                }
            }

            /// The name that Kafka's documentation uses, such as `NOT_LEADER_OR_FOLLOWER`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => stringify!($name),)*
                }
            }

            /// Says if Kafka's clients send the same request again after this error.
            #[must_use]
            pub const fn is_retriable(self) -> bool {
                match self {
                    $(ErrorCode::$variant => error_codes!(@is_retriable $kind),)*
                }
            }
        }
    };
}

error_codes! {
    UnknownServerError = -1, UNKNOWN_SERVER_ERROR, lasting;
    None = 0, NONE, lasting;
    OffsetOutOfRange = 1, OFFSET_OUT_OF_RANGE, lasting;
    CorruptMessage = 2, CORRUPT_MESSAGE, retriable;
    UnknownTopicOrPartition = 3, UNKNOWN_TOPIC_OR_PARTITION, retriable;
    InvalidFetchSize = 4, INVALID_FETCH_SIZE, lasting;
    LeaderNotAvailable = 5, LEADER_NOT_AVAILABLE, retriable;
    NotLeaderOrFollower = 6, NOT_LEADER_OR_FOLLOWER, retriable;
    RequestTimedOut = 7, REQUEST_TIMED_OUT, retriable;
    BrokerNotAvailable = 8, BROKER_NOT_AVAILABLE, lasting;
    ReplicaNotAvailable = 9, REPLICA_NOT_AVAILABLE, retriable;
    MessageTooLarge = 10, MESSAGE_TOO_LARGE, lasting;
    StaleControllerEpoch = 11, STALE_CONTROLLER_EPOCH, lasting;
    OffsetMetadataTooLarge = 12, OFFSET_METADATA_TOO_LARGE, lasting;
    NetworkException = 13, NETWORK_EXCEPTION, retriable;
    CoordinatorLoadInProgress = 14, COORDINATOR_LOAD_IN_PROGRESS, retriable;
    CoordinatorNotAvailable = 15, COORDINATOR_NOT_AVAILABLE, retriable;
    NotCoordinator = 16, NOT_COORDINATOR, retriable;
    InvalidTopicException = 17, INVALID_TOPIC_EXCEPTION, lasting;
    RecordListTooLarge = 18, RECORD_LIST_TOO_LARGE, lasting;
    NotEnoughReplicas = 19, NOT_ENOUGH_REPLICAS, retriable;
    NotEnoughReplicasAfterAppend = 20, NOT_ENOUGH_REPLICAS_AFTER_APPEND, retriable;
    InvalidRequiredAcks = 21, INVALID_REQUIRED_ACKS, lasting;
    IllegalGeneration = 22, ILLEGAL_GENERATION, lasting;
    InconsistentGroupProtocol = 23, INCONSISTENT_GROUP_PROTOCOL, lasting;
    InvalidGroupId = 24, INVALID_GROUP_ID, lasting;
    UnknownMemberId = 25, UNKNOWN_MEMBER_ID, lasting;
    InvalidSessionTimeout = 26, INVALID_SESSION_TIMEOUT, lasting;
    RebalanceInProgress = 27, REBALANCE_IN_PROGRESS, lasting;
    InvalidCommitOffsetSize = 28, INVALID_COMMIT_OFFSET_SIZE, lasting;
    TopicAuthorizationFailed = 29, TOPIC_AUTHORIZATION_FAILED, lasting;
    GroupAuthorizationFailed = 30, GROUP_AUTHORIZATION_FAILED, lasting;
    ClusterAuthorizationFailed = 31, CLUSTER_AUTHORIZATION_FAILED, lasting;
    InvalidTimestamp = 32, INVALID_TIMESTAMP, lasting;
    UnsupportedSaslMechanism = 33, UNSUPPORTED_SASL_MECHANISM, lasting;
    IllegalSaslState = 34, ILLEGAL_SASL_STATE, lasting;
    UnsupportedVersion = 35, UNSUPPORTED_VERSION, lasting;
    TopicAlreadyExists = 36, TOPIC_ALREADY_EXISTS, lasting;
    InvalidPartitions = 37, INVALID_PARTITIONS, lasting;
    InvalidReplicationFactor = 38, INVALID_REPLICATION_FACTOR, lasting;
    InvalidReplicaAssignment = 39, INVALID_REPLICA_ASSIGNMENT, lasting;
    InvalidConfig = 40, INVALID_CONFIG, lasting;
    NotController = 41, NOT_CONTROLLER, retriable;
    InvalidRequest = 42, INVALID_REQUEST, lasting;
    UnsupportedForMessageFormat = 43, UNSUPPORTED_FOR_MESSAGE_FORMAT, lasting;
    PolicyViolation = 44, POLICY_VIOLATION, lasting;
    OutOfOrderSequenceNumber = 45, OUT_OF_ORDER_SEQUENCE_NUMBER, lasting;
    DuplicateSequenceNumber = 46, DUPLICATE_SEQUENCE_NUMBER, lasting;
    InvalidProducerEpoch = 47, INVALID_PRODUCER_EPOCH, lasting;
    InvalidTxnState = 48, INVALID_TXN_STATE, lasting;
    InvalidProducerIdMapping = 49, INVALID_PRODUCER_ID_MAPPING, lasting;
    InvalidTransactionTimeout = 50, INVALID_TRANSACTION_TIMEOUT, lasting;
    ConcurrentTransactions = 51, CONCURRENT_TRANSACTIONS, retriable;
    TransactionCoordinatorFenced = 52, TRANSACTION_COORDINATOR_FENCED, lasting;
    TransactionalIdAuthorizationFailed = 53, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, lasting;
    SecurityDisabled = 54, SECURITY_DISABLED, lasting;
    OperationNotAttempted = 55, OPERATION_NOT_ATTEMPTED, lasting;
    KafkaStorageError = 56, KAFKA_STORAGE_ERROR, retriable;
    LogDirNotFound = 57, LOG_DIR_NOT_FOUND, lasting;
    SaslAuthenticationFailed = 58, SASL_AUTHENTICATION_FAILED, lasting;
    UnknownProducerId = 59, UNKNOWN_PRODUCER_ID, lasting;
    ReassignmentInProgress = 60, REASSIGNMENT_IN_PROGRESS, lasting;
    DelegationTokenAuthDisabled = 61, DELEGATION_TOKEN_AUTH_DISABLED, lasting;
    DelegationTokenNotFound = 62, DELEGATION_TOKEN_NOT_FOUND, lasting;
    DelegationTokenOwnerMismatch = 63, DELEGATION_TOKEN_OWNER_MISMATCH, lasting;
    DelegationTokenRequestNotAllowed = 64, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, lasting;
    DelegationTokenAuthorizationFailed = 65, DELEGATION_TOKEN_AUTHORIZATION_FAILED, lasting;
    DelegationTokenExpired = 66, DELEGATION_TOKEN_EXPIRED, lasting;
    InvalidPrincipalType = 67, INVALID_PRINCIPAL_TYPE, lasting;
    NonEmptyGroup = 68, NON_EMPTY_GROUP, lasting;
    GroupIdNotFound = 69, GROUP_ID_NOT_FOUND, lasting;
    FetchSessionIdNotFound = 70, FETCH_SESSION_ID_NOT_FOUND, retriable;
    InvalidFetchSessionEpoch = 71, INVALID_FETCH_SESSION_EPOCH, retriable;
    ListenerNotFound = 72, LISTENER_NOT_FOUND, retriable;
    TopicDeletionDisabled = 73, TOPIC_DELETION_DISABLED, lasting;
    FencedLeaderEpoch = 74, FENCED_LEADER_EPOCH, retriable;
    UnknownLeaderEpoch = 75, UNKNOWN_LEADER_EPOCH, retriable;
    UnsupportedCompressionType = 76, UNSUPPORTED_COMPRESSION_TYPE, lasting;
    StaleBrokerEpoch = 77, STALE_BROKER_EPOCH, lasting;
    OffsetNotAvailable = 78, OFFSET_NOT_AVAILABLE, retriable;
    MemberIdRequired = 79, MEMBER_ID_REQUIRED, lasting;
    PreferredLeaderNotAvailable = 80, PREFERRED_LEADER_NOT_AVAILABLE, retriable;
    GroupMaxSizeReached = 81, GROUP_MAX_SIZE_REACHED, lasting;
    FencedInstanceId = 82, FENCED_INSTANCE_ID, lasting;
    EligibleLeadersNotAvailable = 83, ELIGIBLE_LEADERS_NOT_AVAILABLE, retriable;
    ElectionNotNeeded = 84, ELECTION_NOT_NEEDED, retriable;
    NoReassignmentInProgress = 85, NO_REASSIGNMENT_IN_PROGRESS, lasting;
    GroupSubscribedToTopic = 86, GROUP_SUBSCRIBED_TO_TOPIC, lasting;
    InvalidRecord = 87, INVALID_RECORD, lasting;
    UnstableOffsetCommit = 88, UNSTABLE_OFFSET_COMMIT, retriable;
    ThrottlingQuotaExceeded = 89, THROTTLING_QUOTA_EXCEEDED, retriable;
    ProducerFenced = 90, PRODUCER_FENCED, lasting;
    ResourceNotFound = 91, RESOURCE_NOT_FOUND, lasting;
    DuplicateResource = 92, DUPLICATE_RESOURCE, lasting;
    UnacceptableCredential = 93, UNACCEPTABLE_CREDENTIAL, lasting;
    InconsistentVoterSet = 94, INCONSISTENT_VOTER_SET, lasting;
    InvalidUpdateVersion = 95, INVALID_UPDATE_VERSION, lasting;
    FeatureUpdateFailed = 96, FEATURE_UPDATE_FAILED, lasting;
    PrincipalDeserializationFailure = 97, PRINCIPAL_DESERIALIZATION_FAILURE, lasting;
    SnapshotNotFound = 98, SNAPSHOT_NOT_FOUND, lasting;
    PositionOutOfRange = 99, POSITION_OUT_OF_RANGE, lasting;
    UnknownTopicId = 100, UNKNOWN_TOPIC_ID, retriable;
    DuplicateBrokerRegistration = 101, DUPLICATE_BROKER_REGISTRATION, lasting;
    BrokerIdNotRegistered = 102, BROKER_ID_NOT_REGISTERED, lasting;
    InconsistentTopicId = 103, INCONSISTENT_TOPIC_ID, retriable;
    InconsistentClusterId = 104, INCONSISTENT_CLUSTER_ID, lasting;
    TransactionalIdNotFound = 105, TRANSACTIONAL_ID_NOT_FOUND, lasting;
    FetchSessionTopicIdError = 106, FETCH_SESSION_TOPIC_ID_ERROR, retriable;
    IneligibleReplica = 107, INELIGIBLE_REPLICA, lasting;
    NewLeaderElected = 108, NEW_LEADER_ELECTED, lasting;
    OffsetMovedToTieredStorage = 109, OFFSET_MOVED_TO_TIERED_STORAGE, lasting;
    FencedMemberEpoch = 110, FENCED_MEMBER_EPOCH, lasting;
    UnreleasedInstanceId = 111, UNRELEASED_INSTANCE_ID, lasting;
    UnsupportedAssignor = 112, UNSUPPORTED_ASSIGNOR, lasting;
    StaleMemberEpoch = 113, STALE_MEMBER_EPOCH, lasting;
    MismatchedEndpointType = 114, MISMATCHED_ENDPOINT_TYPE, lasting;
    UnsupportedEndpointType = 115, UNSUPPORTED_ENDPOINT_TYPE, lasting;
    UnknownControllerId = 116, UNKNOWN_CONTROLLER_ID, lasting;
    UnknownSubscriptionId = 117, UNKNOWN_SUBSCRIPTION_ID, lasting;
    TelemetryTooLarge = 118, TELEMETRY_TOO_LARGE, lasting;
    InvalidRegistration = 119, INVALID_REGISTRATION, lasting;
    TransactionAbortable = 120, TRANSACTION_ABORTABLE, lasting;
    InvalidRecordState = 121, INVALID_RECORD_STATE, lasting;
    ShareSessionNotFound = 122, SHARE_SESSION_NOT_FOUND, retriable;
    InvalidShareSessionEpoch = 123, INVALID_SHARE_SESSION_EPOCH, retriable;
    FencedStateEpoch = 124, FENCED_STATE_EPOCH, lasting;
    InvalidVoterKey = 125, INVALID_VOTER_KEY, lasting;
    DuplicateVoter = 126, DUPLICATE_VOTER, lasting;
    VoterNotFound = 127, VOTER_NOT_FOUND, lasting;
    InvalidRegularExpression = 128, INVALID_REGULAR_EXPRESSION, lasting;
    RebootstrapRequired = 129, REBOOTSTRAP_REQUIRED, lasting;
    StreamsInvalidTopology = 130, STREAMS_INVALID_TOPOLOGY, lasting;
    StreamsInvalidTopologyEpoch = 131, STREAMS_INVALID_TOPOLOGY_EPOCH, lasting;
    StreamsTopologyFenced = 132, STREAMS_TOPOLOGY_FENCED, lasting;
    ShareSessionLimitReached = 133, SHARE_SESSION_LIMIT_REACHED, retriable;
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }
}

impl From<ErrorCode> for i16 {
    fn from(error: ErrorCode) -> i16 {
        error.code()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
