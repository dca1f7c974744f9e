//! One client's address makes groups until it has its share: others make theirs, and those that are there go on.

use protocol::groups::{ConsumerHeartbeat, DeleteGroup, JoinGroup, MemberPresence, Name, Request, Settings};

use crate::{Stand, at_once, commit, error_in, heartbeat_of, is_limit, join_as, subscription};

fn settings() -> Settings {
    Settings {
        groups_max: 8,
        groups_per_client_max: 3,
        ..at_once()
    }
}

fn commit_from(client: &str, group: &str) -> Request {
    let mut commit = commit(group, "", -1, &[(0, 7, 0)]);
    commit.client_host = Name::from(client);
    commit.into()
}

fn join_from(client: &str, group: &str) -> Request {
    JoinGroup {
        client_host: Name::from(client),
        ..join_as(group, "", "ann", None, subscription(&["orders"]))
    }
    .into()
}

#[track_caller]
fn is_refused(stand: &mut Stand, request: Request) -> bool {
    match error_in(&stand.ask(request)) {
        None => false,
        Some(error) => {
            assert!(is_limit(&error), "{error}");
            assert!(error.to_string().contains("address"), "{error}");
            true
        }
    }
}

#[test]
fn one_client_does_not_keep_groups_from_others() {
    let mut stand = Stand::empty(settings());
    for number in 0..3 {
        assert!(!is_refused(
            &mut stand,
            commit_from("/10.0.0.9", &format!("flood-{number}"))
        ));
    }
    assert!(is_refused(&mut stand, commit_from("/10.0.0.9", "flood-3")));
    assert!(is_refused(&mut stand, join_from("/10.0.0.9", "flood-3")));
    assert!(
        !is_refused(&mut stand, join_from("/10.0.0.1", "billing")),
        "others make theirs"
    );
    assert!(
        !is_refused(&mut stand, commit_from("/10.0.0.9", "flood-0")),
        "what is there goes on"
    );
    assert!(
        !is_refused(&mut stand, commit_from("/10.0.0.1", "flood-0")),
        "for everybody"
    );
    let group = Name::from("flood-1");
    stand.ask(Request::DeleteGroup(DeleteGroup { group }));
    assert!(
        !is_refused(&mut stand, commit_from("/10.0.0.9", "flood-3")),
        "a group that goes gives its place back"
    );
    assert!(is_refused(&mut stand, commit_from("/10.0.0.9", "flood-4")));
    assert_eq!(stand.coordinator.group_count(), 4);
}

#[test]
fn what_one_clients_groups_take_does_not_keep_others_from_growing() {
    let mut stand = Stand::empty(Settings {
        held_bytes_per_client_max: 300,
        ..at_once()
    });
    let noted = |client: &str, group: &str, index: i32| {
        let mut commit = commit(group, "", -1, &[(index, 7, 200)]);
        commit.client_host = Name::from(client);
        Request::from(commit)
    };
    let mut refused = None;
    for group in ["a", "b", "c", "d"] {
        let answer = stand.ask(noted("/10.0.0.9", group, 0));
        refused = refused.or(error_in(&answer));
    }
    let refused = refused.expect("300 bytes are soon taken");
    assert_eq!(
        refused.to_string(),
        "no more than 300 bytes of groups made from one client's address: delete some, or use another address; \
         this limit is fixed"
    );
    assert_eq!(error_in(&stand.ask(noted("/10.0.0.1", "billing", 0))), None);
}

#[test]
fn after_a_restart_a_client_has_no_new_share() {
    let mut stand = Stand::empty(settings());
    assert!(!is_refused(&mut stand, commit_from("/10.0.0.9", "flood-0")));
    // Without offsets the member tells who made it.
    let joining = ConsumerHeartbeat {
        client_host: Name::from("/10.0.0.9"),
        ..heartbeat_of("flood-1", "ann", MemberPresence::Joining)
    };
    assert!(!is_refused(&mut stand, joining.into()));
    assert!(!is_refused(&mut stand, commit_from("/10.0.0.9", "flood-2")));
    for _ in 0..4 {
        stand.restart(settings());
        assert_eq!(stand.coordinator.group_count(), 3);
        assert!(is_refused(&mut stand, commit_from("/10.0.0.9", "flood-3")));
        // Who commits in a group is not who made it.
        assert!(!is_refused(&mut stand, commit_from("/10.0.0.1", "flood-0")));
    }
    assert!(!is_refused(&mut stand, commit_from("/10.0.0.1", "billing")));
    let group = Name::from("flood-0");
    stand.ask(Request::DeleteGroup(DeleteGroup { group }));
    assert!(!is_refused(&mut stand, commit_from("/10.0.0.9", "flood-3")));
}
