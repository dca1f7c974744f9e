//! The APIs around who may do what, and how much of it: none of that is set up here, and clients are told so in the words of a Kafka in
//! which it is not set up either: no authorizer (KIP-11), listeners on which no delegation token is given (KIP-48), no SCRAM user
//! (KIP-554), no client quota (KIP-546).
//!
//! Whatever would set it up is refused: nobody may think that it protects anything.

use std::future::{Future, ready};
use std::rc::Rc;

use bytes::Bytes;
use kafka_wire::alter_client_quotas::{EntryData, EntryRequest};
use kafka_wire::alter_user_scram_credentials::AlterUserScramCredentialsResult;
use kafka_wire::create_acls::AclCreationResult;
use kafka_wire::delete_acls::DeleteAclsFilterResult;
use kafka_wire::describe_user_scram_credentials::DescribeUserScramCredentialsResult;
use kafka_wire::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse, CreateAclsRequest, CreateAclsResponse, CreateDelegationTokenRequest,
    CreateDelegationTokenResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
    DescribeAclsResponse, DescribeClientQuotasRequest, DescribeClientQuotasResponse,
    DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse, ErrorCode, ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse, RenewDelegationTokenRequest, RenewDelegationTokenResponse, Text,
};

use super::Envelope;
use crate::answer_budget::Held;
use crate::core::Core;

/// Kafka's two sentences: of whoever looks, and of whoever changes.
const NO_ACLS: &str = "No Authorizer is configured on the broker";
const NO_AUTHORIZER: &str = "No Authorizer is configured.";
/// Kafka's sentence.
const NO_USER: &str = "Attempt to describe a user credential that does not exist";
const NO_USERS: &str = "there are no SCRAM users here, as nothing listens with SASL";
const NO_QUOTAS: &str = "there are no client quotas here: nothing would keep to them";
/// The entities that quotas of Kafka's are for.
const ENTITY_TYPES: [&str; 3] = ["user", "client-id", "ip"];

/// Memory that an entry of an answer takes beside the names in it, as it is told and in the frame.
const ENTRY_BYTES: usize = 256;

/// Takes room for an answer with so many entries before it is made: an entry of a request may be much smaller.
async fn room_for(core: &Core, envelope: &Envelope, entries: usize, name_bytes: usize) -> Held {
    let bytes = entries * ENTRY_BYTES + 2 * name_bytes;
    core.answers.reserve(envelope.caller.address(), bytes).await
}

pub(super) fn describe_acls(
    _core: Rc<Core>,
    _request: DescribeAclsRequest,
    _envelope: Envelope,
) -> impl Future<Output = DescribeAclsResponse> {
    ready(DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(Text::from_static(NO_ACLS)),
        ..DescribeAclsResponse::default()
    })
}

pub(super) async fn create_acls(
    core: Rc<Core>,
    request: CreateAclsRequest,
    envelope: Envelope,
) -> (CreateAclsResponse, usize) {
    let entries = request.creations.len();
    let held = room_for(&core, &envelope, entries, 0).await;
    let refused = AclCreationResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(Text::from_static(NO_AUTHORIZER)),
    };
    let response = CreateAclsResponse {
        results: vec![refused; entries],
        ..CreateAclsResponse::default()
    };
    (response, held.bytes())
}

pub(super) async fn delete_acls(
    core: Rc<Core>,
    request: DeleteAclsRequest,
    envelope: Envelope,
) -> (DeleteAclsResponse, usize) {
    let entries = request.filters.len();
    let held = room_for(&core, &envelope, entries, 0).await;
    let refused = DeleteAclsFilterResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(Text::from_static(NO_AUTHORIZER)),
        ..DeleteAclsFilterResult::default()
    };
    let response = DeleteAclsResponse {
        filter_results: vec![refused; entries],
        ..DeleteAclsResponse::default()
    };
    (response, held.bytes())
}

/// Kafka gives none to whoever comes by a listener that knows nobody's name, whatever else is set up.
const NO_TOKENS: i16 = ErrorCode::DelegationTokenRequestNotAllowed.code();

pub(super) fn create_delegation_token(
    _core: Rc<Core>,
    _request: CreateDelegationTokenRequest,
    _envelope: Envelope,
) -> impl Future<Output = CreateDelegationTokenResponse> {
    ready(CreateDelegationTokenResponse {
        error_code: NO_TOKENS,
        issue_timestamp_ms: -1,
        expiry_timestamp_ms: -1,
        max_timestamp_ms: -1,
        hmac: Bytes::new(),
        ..CreateDelegationTokenResponse::default()
    })
}

pub(super) fn renew_delegation_token(
    _core: Rc<Core>,
    _request: RenewDelegationTokenRequest,
    _envelope: Envelope,
) -> impl Future<Output = RenewDelegationTokenResponse> {
    ready(RenewDelegationTokenResponse {
        error_code: NO_TOKENS,
        expiry_timestamp_ms: -1,
        ..RenewDelegationTokenResponse::default()
    })
}

pub(super) fn expire_delegation_token(
    _core: Rc<Core>,
    _request: ExpireDelegationTokenRequest,
    _envelope: Envelope,
) -> impl Future<Output = ExpireDelegationTokenResponse> {
    ready(ExpireDelegationTokenResponse {
        error_code: NO_TOKENS,
        expiry_timestamp_ms: -1,
        ..ExpireDelegationTokenResponse::default()
    })
}

pub(super) fn describe_delegation_token(
    _core: Rc<Core>,
    _request: DescribeDelegationTokenRequest,
    _envelope: Envelope,
) -> impl Future<Output = DescribeDelegationTokenResponse> {
    ready(DescribeDelegationTokenResponse {
        error_code: NO_TOKENS,
        ..DescribeDelegationTokenResponse::default()
    })
}

pub(super) fn describe_client_quotas(
    _core: Rc<Core>,
    request: DescribeClientQuotasRequest,
    _envelope: Envelope,
) -> impl Future<Output = DescribeClientQuotasResponse> {
    let mut entities = request.components.iter().map(|component| &*component.entity_type);
    let unknown = entities.find(|entity| !ENTITY_TYPES.contains(entity));
    ready(match unknown {
        None => DescribeClientQuotasResponse {
            entries: Some(Vec::new()),
            ..DescribeClientQuotasResponse::default()
        },
        Some(entity) => DescribeClientQuotasResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            error_message: Some(Text::from(format!("Unsupported entity type {entity}"))),
            entries: None,
            ..DescribeClientQuotasResponse::default()
        },
    })
}

pub(super) async fn alter_client_quotas(
    core: Rc<Core>,
    request: AlterClientQuotasRequest,
    envelope: Envelope,
) -> (AlterClientQuotasResponse, usize) {
    let entries = request.entries.iter().map(|entry| 1 + entry.entity.len()).sum();
    let held = room_for(&core, &envelope, entries, 0).await;
    let refused = |entry: EntryRequest| EntryData {
        error_code: ErrorCode::InvalidRequest.code(),
        error_message: Some(Text::from_static(NO_QUOTAS)),
        entity: entry.entity,
    };
    let response = AlterClientQuotasResponse {
        entries: request.entries.into_iter().map(refused).collect(),
        ..AlterClientQuotasResponse::default()
    };
    (response, held.bytes())
}

pub(super) async fn describe_user_scram_credentials(
    core: Rc<Core>,
    request: DescribeUserScramCredentialsRequest,
    envelope: Envelope,
) -> (DescribeUserScramCredentialsResponse, usize) {
    let users = request.users.unwrap_or_default();
    let (entries, name_bytes) = (users.len(), users.iter().map(|user| user.name.len()).sum());
    let held = room_for(&core, &envelope, entries, name_bytes).await;
    let unknown = |name: Text| DescribeUserScramCredentialsResult {
        error_code: ErrorCode::ResourceNotFound.code(),
        error_message: Some(Text::from(format!("{NO_USER}: {name}"))),
        user: name,
        ..DescribeUserScramCredentialsResult::default()
    };
    let response = DescribeUserScramCredentialsResponse {
        results: users.into_iter().map(|user| unknown(user.name)).collect(),
        ..DescribeUserScramCredentialsResponse::default()
    };
    (response, held.bytes())
}

pub(super) async fn alter_user_scram_credentials(
    core: Rc<Core>,
    request: AlterUserScramCredentialsRequest,
    envelope: Envelope,
) -> (AlterUserScramCredentialsResponse, usize) {
    let entries = request.deletions.len() + request.upsertions.len();
    let held = room_for(&core, &envelope, entries, 0).await;
    let refused = |user: Text| AlterUserScramCredentialsResult {
        user,
        error_code: ErrorCode::UnsupportedSaslMechanism.code(),
        error_message: Some(Text::from_static(NO_USERS)),
    };
    let deleted = request.deletions.into_iter().map(|deletion| deletion.name);
    let upserted = request.upsertions.into_iter().map(|upsertion| upsertion.name);
    let response = AlterUserScramCredentialsResponse {
        results: deleted.chain(upserted).map(refused).collect(),
        ..AlterUserScramCredentialsResponse::default()
    };
    (response, held.bytes())
}
