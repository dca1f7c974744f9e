//! Finds the type of a message at run time: by its API, and whether it is a request or the response.

use kafka_wire::{ApiKey, Decode, Encode, Request};

/// What is done with a message once its type is known.
pub(crate) trait Visit {
    type Output;

    fn visit<M: Decode + Encode + PartialEq + std::fmt::Debug>(self) -> Self::Output;
}

/// Calls `visitor` with the type of the API's request or response.
pub(crate) fn visit<V: Visit>(api: ApiKey, response: bool, visitor: V) -> V::Output {
    macro_rules! by_api {
        ($($api:ident => $request:ident,)*) => {
            match (api, response) {
                $(
                    (ApiKey::$api, false) => visitor.visit::<kafka_wire::$request>(),
                    (ApiKey::$api, true) => visitor.visit::<<kafka_wire::$request as Request>::Response>(),
                )*
            }
        };
    }
    // Not to be forgotten: the match does not compile without an API that the codec has.
    by_api! {
        Produce => ProduceRequest,
        Fetch => FetchRequest,
        ListOffsets => ListOffsetsRequest,
        Metadata => MetadataRequest,
        OffsetCommit => OffsetCommitRequest,
        OffsetFetch => OffsetFetchRequest,
        FindCoordinator => FindCoordinatorRequest,
        JoinGroup => JoinGroupRequest,
        Heartbeat => HeartbeatRequest,
        LeaveGroup => LeaveGroupRequest,
        SyncGroup => SyncGroupRequest,
        DescribeGroups => DescribeGroupsRequest,
        ListGroups => ListGroupsRequest,
        ApiVersions => ApiVersionsRequest,
        CreateTopics => CreateTopicsRequest,
        DeleteTopics => DeleteTopicsRequest,
        DeleteRecords => DeleteRecordsRequest,
        InitProducerId => InitProducerIdRequest,
        OffsetForLeaderEpoch => OffsetForLeaderEpochRequest,
        DescribeConfigs => DescribeConfigsRequest,
        AlterConfigs => AlterConfigsRequest,
        DescribeLogDirs => DescribeLogDirsRequest,
        CreatePartitions => CreatePartitionsRequest,
        DeleteGroups => DeleteGroupsRequest,
        ElectLeaders => ElectLeadersRequest,
        IncrementalAlterConfigs => IncrementalAlterConfigsRequest,
        AlterPartitionReassignments => AlterPartitionReassignmentsRequest,
        ListPartitionReassignments => ListPartitionReassignmentsRequest,
        OffsetDelete => OffsetDeleteRequest,
        DescribeQuorum => DescribeQuorumRequest,
        DescribeCluster => DescribeClusterRequest,
        DescribeProducers => DescribeProducersRequest,
        UnregisterBroker => UnregisterBrokerRequest,
        ConsumerGroupHeartbeat => ConsumerGroupHeartbeatRequest,
        ConsumerGroupDescribe => ConsumerGroupDescribeRequest,
        ListConfigResources => ListConfigResourcesRequest,
        DescribeTopicPartitions => DescribeTopicPartitionsRequest,
        AddPartitionsToTxn => AddPartitionsToTxnRequest,
        AddOffsetsToTxn => AddOffsetsToTxnRequest,
        EndTxn => EndTxnRequest,
        WriteTxnMarkers => WriteTxnMarkersRequest,
        TxnOffsetCommit => TxnOffsetCommitRequest,
        UpdateFeatures => UpdateFeaturesRequest,
        DescribeTransactions => DescribeTransactionsRequest,
        ListTransactions => ListTransactionsRequest,
        AlterReplicaLogDirs => AlterReplicaLogDirsRequest,
        DescribeAcls => DescribeAclsRequest,
        CreateAcls => CreateAclsRequest,
        DeleteAcls => DeleteAclsRequest,
        CreateDelegationToken => CreateDelegationTokenRequest,
        RenewDelegationToken => RenewDelegationTokenRequest,
        ExpireDelegationToken => ExpireDelegationTokenRequest,
        DescribeDelegationToken => DescribeDelegationTokenRequest,
        DescribeClientQuotas => DescribeClientQuotasRequest,
        AlterClientQuotas => AlterClientQuotasRequest,
        DescribeUserScramCredentials => DescribeUserScramCredentialsRequest,
        AlterUserScramCredentials => AlterUserScramCredentialsRequest,
    }
}

/// Messages that Kafka's own classes have read and written: name, version, bytes.
pub(crate) fn seen_by_kafka() -> impl Iterator<Item = (ApiKey, bool, i16, Vec<u8>)> {
    let lines = include_str!("../../crates/kafka-wire/testdata/seen_by_kafka.txt").lines();
    lines.filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        // Some messages have no byte at all.
        let (name, version, hex) = (word(), word(), word());
        let response = name.ends_with("Response");
        let name = name.trim_end_matches("Request").trim_end_matches("Response");
        let api = ApiKey::ALL
            .iter()
            .find(|api| format!("{api:?}") == name)
            .expect("the codec has written the line");
        (
            *api,
            response,
            version.parse().expect("a version is a number"),
            from_hex(hex),
        )
    })
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digit = |digit: u8| (digit as char).to_digit(16).expect("hexadecimal digits only") as u8;
    hex.as_bytes()
        .chunks_exact(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}
