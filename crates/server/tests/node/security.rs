//! Requests about who may do what, and how much: answered as a Kafka does in which none of it is set up.

use kafka_wire::alter_client_quotas::EntryRequest;
use kafka_wire::alter_replica_log_dirs::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_wire::alter_user_scram_credentials::{ScramCredentialDeletion, ScramCredentialUpsertion};
use kafka_wire::create_acls::AclCreation;
use kafka_wire::delete_acls::DeleteAclsFilter;
use kafka_wire::describe_client_quotas::ComponentData;
use kafka_wire::describe_user_scram_credentials::UserName;
use kafka_wire::{
    AlterClientQuotasRequest, AlterReplicaLogDirsRequest, AlterUserScramCredentialsRequest,
    CreateAclsRequest, CreateDelegationTokenRequest, DeleteAclsRequest, DescribeAclsRequest,
    DescribeClientQuotasRequest, DescribeDelegationTokenRequest, DescribeUserScramCredentialsRequest,
    ErrorCode, ExpireDelegationTokenRequest, RenewDelegationTokenRequest,
};

use crate::ask::code;
use crate::support::TestNode;

#[test]
fn there_is_no_authorizer() {
    let node = TestNode::start();
    let mut wire = node.connect();
    for version in 1..=3 {
        let told = wire.call(version, &DescribeAclsRequest::default());
        assert_eq!(code(told.error_code), ErrorCode::SecurityDisabled);
        assert!(told.error_message.is_some() && told.resources.is_empty());
        let creations = vec![AclCreation::default(); 3];
        let told = wire.call(version, &CreateAclsRequest { creations });
        let codes: Vec<_> = told
            .results
            .iter()
            .map(|result| code(result.error_code))
            .collect();
        assert_eq!(codes, [ErrorCode::SecurityDisabled; 3]);
        let filters = vec![DeleteAclsFilter::default(); 2];
        let told = wire.call(version, &DeleteAclsRequest { filters });
        let codes: Vec<_> = told
            .filter_results
            .iter()
            .map(|result| code(result.error_code))
            .collect();
        assert_eq!(codes, [ErrorCode::SecurityDisabled; 2]);
    }
}

#[test]
fn no_delegation_token_is_given() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let created = wire.call(3, &CreateDelegationTokenRequest::default()).error_code;
    let renewed = wire.call(2, &RenewDelegationTokenRequest::default()).error_code;
    let expired = wire.call(2, &ExpireDelegationTokenRequest::default()).error_code;
    let described = wire
        .call(3, &DescribeDelegationTokenRequest::default())
        .error_code;
    for refused in [created, renewed, expired, described] {
        assert_eq!(code(refused), ErrorCode::DelegationTokenRequestNotAllowed);
    }
}

#[test]
fn there_are_no_quotas_and_none_is_taken() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let of = |entity_type: &str| DescribeClientQuotasRequest {
        components: vec![ComponentData {
            entity_type: entity_type.into(),
            match_type: 1,
            r#match: None,
        }],
        strict: false,
    };
    for version in 0..=1 {
        for asked in [DescribeClientQuotasRequest::default(), of("user"), of("ip")] {
            let told = wire.call(version, &asked);
            assert_eq!(
                (code(told.error_code), told.entries),
                (ErrorCode::None, Some(Vec::new()))
            );
        }
        let told = wire.call(version, &of("planet"));
        assert_eq!(code(told.error_code), ErrorCode::UnsupportedVersion);
        let message = told.error_message.expect("a sentence");
        assert!(message.contains("planet"), "{message}");
        let request = AlterClientQuotasRequest {
            entries: vec![EntryRequest::default()],
            validate_only: false,
        };
        let told = wire.call(version, &request);
        assert_eq!(code(told.entries[0].error_code), ErrorCode::InvalidRequest);
    }
}

#[test]
fn there_are_no_users_and_none_is_made() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let told = wire.call(0, &DescribeUserScramCredentialsRequest { users: None });
    assert_eq!((code(told.error_code), told.results.len()), (ErrorCode::None, 0));
    let users = Some(vec![UserName { name: "ann".into() }]);
    let told = wire.call(0, &DescribeUserScramCredentialsRequest { users });
    assert_eq!(told.results[0].user, "ann");
    assert_eq!(code(told.results[0].error_code), ErrorCode::ResourceNotFound);
    let request = AlterUserScramCredentialsRequest {
        deletions: vec![ScramCredentialDeletion {
            name: "ann".into(),
            mechanism: 1,
        }],
        upsertions: vec![ScramCredentialUpsertion {
            name: "bob".into(),
            ..ScramCredentialUpsertion::default()
        }],
    };
    let told = wire.call(0, &request);
    let told: Vec<_> = told
        .results
        .iter()
        .map(|result| (result.user.as_str(), code(result.error_code)))
        .collect();
    let refused = ErrorCode::UnsupportedSaslMechanism;
    assert_eq!(told, [("ann", refused), ("bob", refused)]);
}

#[test]
fn replicas_stay_in_the_one_directory() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let own = node.directory().to_str().expect("plain").to_owned();
    let to = |path: &str, topic: &str, partitions: &[i32]| AlterReplicaLogDir {
        path: path.into(),
        topics: vec![AlterReplicaLogDirTopic {
            name: topic.into(),
            partitions: partitions.to_vec(),
        }],
    };
    for version in 1..=2 {
        let dirs = vec![
            to(&own, "orders", &[0, 1, 2, -1]),
            to(&own, "nothing", &[0]),
            to("/elsewhere", "orders", &[0]),
        ];
        let told = wire.call(version, &AlterReplicaLogDirsRequest { dirs });
        let told: Vec<_> = told
            .results
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|one| code(one.error_code)))
            .collect();
        let (done, unknown) = (ErrorCode::None, ErrorCode::UnknownTopicOrPartition);
        assert_eq!(
            told,
            [done, done, unknown, unknown, unknown, ErrorCode::LogDirNotFound]
        );
    }
}
