//! A node as a value: made of the parts that it is handed, and polled by whoever made it.
//!
//! The order of a start: lock and identify the directory, bind the addresses, open every core's journals, replay the metadata, open
//! the partitions, then let clients in. Nothing is served before everything is known. Nothing here knows whether the parts are real.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use platform::clock::{Clock, SystemClock};
use platform::disk::{Disk, DurableWriteMode, Lock};
use platform::net::{Bound, Listener, Net, Tcp};
use platform::random::Random;
use platform::turns::Turns;
use platform::work::{Pool, Threads, Work};
use protocol::leader::NodeId;
use protocol::metadata::{Address, Command, Home, Metadata};
use protocol::order::Place;
use record::Position;
use storage::{NodeIdentity, identify, is_empty_directory, keep_identity, read_last_ran, read_peers};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{StartError, start_error};
use crate::accept::accept_clients;
use crate::config::{Config, HostPort};
use crate::controller::{MetadataLog, keep_members, place_replicas, replace_leaders};
use crate::core::{Core, NodeFacts};
use crate::core_death::{Deaths, death_notices};
use crate::core_life::CoreLife;
use crate::disk_watch::DiskWatch;
use crate::mailbox::mailboxes;
use crate::order::make_order_logs;
use crate::peers::{self, keep_metadata_links, let_peers_in};

/// The first start of a member.
const FIRST_START: u64 = 1;

/// The parts of a node besides its configuration.
#[derive(Clone)]
pub struct Parts {
    /// The data directory.
    pub disk: Arc<dyn Disk>,
    /// Time that is stored, shown and measured. The timers of requests are the runtime's (tokio).
    pub clock: Arc<dyn Clock>,
    /// The network on which clients connect.
    pub net: Arc<dyn Net>,
    /// Where blocking jobs run.
    pub work: Arc<dyn Work>,
    /// Identities, salts, and choices that are any of several.
    pub random: Random,
}

impl Parts {
    /// The operating system's parts round a disk.
    pub fn real(disk: Arc<dyn Disk>) -> Parts {
        Parts {
            disk,
            clock: Arc::new(SystemClock::new()),
            net: Arc::new(Tcp),
            work: Arc::new(Threads),
            random: Random::SYSTEM,
        }
    }
}

/// A node of which nothing runs yet: its directory is locked, its addresses are bound.
pub struct Assembled {
    /// To be polled, each within a `LocalSet` of its own.
    pub cores: Vec<CoreLife>,
    /// To be polled beside them: lets clients in when all is known.
    pub opening: Opening,
    /// To reach the node from outside while it lives.
    pub handle: Handle,
    pub(super) http: Bound,
    pub(super) facts: NodeFacts,
}

/// The handle by which a living node is reached and told to stop.
pub struct Handle {
    facts: NodeFacts,
    draining: Arc<Semaphore>,
    pub(super) deaths: Deaths,
    pub(super) turns: Turns,
    stop: Vec<oneshot::Sender<()>>,
    _lock: Box<dyn Lock>,
}

/// Opens what the cores hold, and lets clients in.
pub struct Opening {
    facts: NodeFacts,
    opened: mpsc::UnboundedReceiver<Result<(), String>>,
    kafka: Bound,
    peer: Option<Bound>,
    identity: NodeIdentity,
    disk: Arc<dyn Disk>,
    work: Arc<dyn Work>,
    connections_max: usize,
    draining: Arc<Semaphore>,
}

/// Has an empty directory become that of a node of the cluster that is to be joined, if one is.
pub(super) async fn join(parts: &Parts, config: &Config, journals: usize) -> Result<(), StartError> {
    config.check()?;
    let _lock = lock(&*parts.disk, config)?;
    Ok(peers::join(&parts.disk, &parts.net, &parts.random, config, journals).await?)
}

/// Locks and identifies the directory, and binds the addresses.
pub(super) fn assemble(
    parts: Parts,
    config: Config,
    cores: usize,
    connections_max: impl FnOnce(usize) -> usize,
    version: &'static str,
) -> Result<Assembled, StartError> {
    config.check()?;
    let Parts {
        disk,
        clock,
        net,
        work,
        random,
    } = parts;
    let lock = lock(&*disk, &config)?;
    let mut config = config;
    if !config.cluster.join.is_empty() && is_empty_directory(&*disk)? {
        return Err(StartError::NotJoined(config.data.display().to_string()));
    }
    let mut identity = identify(&*disk, &random, config.chosen_node(), cores)?;
    config.node.id = identity.node;
    let kafka = listen(&*net, &config.kafka.listen, "kafka.listen")?;
    let http = listen(&*net, &config.http.listen, "http.listen")?;
    let peer = config.peer.listen.as_ref();
    let peer = peer
        .map(|address| listen(&*net, address, "peer.listen"))
        .transpose()?;
    // A group that was founded and not taken over yet has the metadata as well, whatever the configuration says now.
    let has_part = metadata_group::has_part(&*disk, &metadata_group::Settings::default());
    let has_part =
        has_part.map_err(|error| start_error::of_directory(config.data.display().to_string(), error))?;
    let is_member = identity.last_incarnation.is_some() || peer.is_some() || has_part;
    if !has_part && !read_peers(&*disk).is_empty() {
        return Err(StartError::PartLost(config.data.display().to_string()));
    }
    let incarnation = count_start(&*disk, &config, is_member, &mut identity)?;
    let (mailboxes, receivers) = mailboxes(cores);
    let (deaths, death_notices) = death_notices(cores);
    let facts = NodeFacts {
        change_log: Arc::default(),
        node: NodeId(config.node.id),
        cluster: identity.cluster,
        directory: identity.directory,
        is_member,
        incarnation,
        net: net.clone(),
        clock,
        last_ran_ms: read_last_ran(&*disk),
        mailboxes,
        shards: identity.journals,
        version,
        pool: Pool::of(&*work),
        random,
        config: Arc::new(config),
    };
    let (turns, draining) = (Turns::of(cores), Arc::new(Semaphore::new(0)));
    let (opened, outcomes) = mpsc::unbounded_channel();
    let (mut stop, mut lives) = (Vec::new(), Vec::new());
    for (index, (mailbox, death_notice)) in receivers.into_iter().zip(death_notices).enumerate() {
        let (stopper, stopped) = oneshot::channel();
        lives.push(CoreLife {
            index,
            facts: facts.clone(),
            disk: disk.clone(),
            work: work.clone(),
            long_turns: turns.of_core(index),
            identity,
            mailbox,
            stop: stopped,
            death_notice,
            opened: opened.clone(),
        });
        stop.push(stopper);
    }
    Ok(Assembled {
        cores: lives,
        opening: Opening {
            connections_max: connections_max(facts.shards),
            facts: facts.clone(),
            opened: outcomes,
            kafka,
            peer,
            identity,
            disk,
            work,
            draining: draining.clone(),
        },
        handle: Handle {
            facts: facts.clone(),
            draining,
            deaths,
            turns,
            stop,
            _lock: lock,
        },
        http,
        facts,
    })
}

/// Counts a start of a member, before anybody is told of it; returns its number. A node that was alone so far counts its starts once it
/// has founded the metadata group.
fn count_start(
    disk: &dyn Disk,
    config: &Config,
    is_member: bool,
    identity: &mut NodeIdentity,
) -> Result<u64, StartError> {
    match identity.last_incarnation {
        Some(last) => {
            identity.last_incarnation = Some(last + 1);
            keep_identity(disk, identity)?;
            Ok(last + 1)
        }
        None if !config.cluster.join.is_empty() => Err(StartError::OwnCluster {
            directory: config.data.display().to_string(),
            cluster: identity.cluster,
        }),
        None if is_member => Ok(FIRST_START),
        None => Ok(0),
    }
}

fn lock(disk: &dyn Disk, config: &Config) -> Result<Box<dyn Lock>, StartError> {
    let directory = config.data.display().to_string();
    disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StartError::InUse(directory),
        _ => start_error::of_directory(directory, error),
    })
}

fn listen(net: &dyn Net, address: &str, key: &'static str) -> Result<Bound, StartError> {
    net.listen(address).map_err(|error| StartError::Listen {
        address: address.to_string(),
        key,
        error,
    })
}

/// Lets others connect to an address that was bound.
fn let_in(bound: Bound, key: &'static str) -> Result<Listener, String> {
    let address = bound.address().map_err(|error| error.to_string())?;
    let attached = bound.attach();
    attached.map_err(|error| format!("cannot listen on {address}: {error} (see {key})"))
}

impl Handle {
    pub(super) fn cores(&self) -> usize {
        self.facts.mailboxes.cores()
    }

    /// Has the node take no more requests, answer those under way and make everything staged durable. `done` is told of each core
    /// whether all of its clients took their answers; of a core that is dead it is never told.
    pub fn drain(&self, done: impl Fn(bool) + Clone + Send + 'static) {
        // Wakes every connection and the accept loop; nobody can acquire from a closed semaphore.
        self.draining.close();
        for core in 0..self.cores() {
            let done = done.clone();
            self.facts.mailboxes.send(core, move |core| {
                let draining = core.clone().drain();
                platform::turns::spawn(async move { done(draining.await) });
            });
        }
    }

    /// Has each core tell of the budgets of which it takes more than there is, if there are any: a mistake of the node's.
    pub fn tell_overdrawn(&self, tell: impl Fn(String) + Clone + Send + 'static) {
        for core in 0..self.cores() {
            let tell = tell.clone();
            self.facts
                .mailboxes
                .send(core, move |core| core.overdrawn().into_iter().for_each(tell));
        }
    }

    /// Has the home of a topic's order tell which offsets have the positions from one on, so many of them at most. Nothing is told while the order is not
    /// open.
    pub fn tell_order(
        &self,
        topic: &str,
        from: Position,
        count: u64,
        tell: impl FnOnce(Vec<Place>) + Send + 'static,
    ) {
        let name = topic.to_owned();
        let find = move |core: &Rc<Core>| {
            let Some(topic) =
                core.with_metadata(|metadata| metadata.topic_named(&name).map(|topic| topic.id))
            else {
                return;
            };
            core.facts.mailboxes.send(core.facts.home_of(topic), move |core| {
                let (home, core) = (core.home(topic), core.clone());
                platform::turns::spawn(async move {
                    if let Some(home) = home
                        && let Ok(found) = home.places(&core, from, count).await
                    {
                        tell(found.places);
                    }
                });
            });
        };
        self.facts.mailboxes.send(0, find);
    }

    /// Has the cores end.
    pub fn stop(&mut self) {
        for stop in self.stop.drain(..) {
            // A core that died needs no telling.
            let _ = stop.send(());
        }
    }

    #[cfg(test)]
    pub(super) fn mailboxes(&self) -> &crate::mailbox::Mailboxes {
        &self.facts.mailboxes
    }
}

impl Opening {
    pub(super) fn peer_address(&self) -> Result<Option<SocketAddr>, StartError> {
        let address = self.peer.as_ref().map(Bound::address).transpose();
        address.map_err(StartError::Thread)
    }

    pub(super) fn kafka_address(&self) -> Result<SocketAddr, StartError> {
        self.kafka.address().map_err(StartError::Thread)
    }

    /// Waits until the cores have opened their journals, replays the metadata, opens the partitions on every core, and lets clients
    /// in. Returns why clients' appends are refused for now, if they are.
    ///
    /// # Errors
    /// Stored data cannot be opened, or a core has died.
    pub async fn open(mut self) -> Result<Option<String>, StartError> {
        for _ in 0..self.facts.mailboxes.cores() {
            let outcome = self.opened.recv().await;
            let outcome = outcome.unwrap_or_else(|| Err("a core died while it started".into()));
            outcome.map_err(StartError::Storage)?;
        }
        let address = told(&self.facts.config.kafka.advertised, self.kafka_address()?);
        let (done, outcome) = oneshot::channel();
        let mailboxes = self.facts.mailboxes.clone();
        mailboxes.send(0, move |core| {
            let core = core.clone();
            platform::turns::spawn(async move {
                let _ = done.send(self.let_clients_in(core, address).await);
            });
        });
        let outcome = outcome
            .await
            .unwrap_or_else(|_| Err("core 0 died while it opened the partitions".into()));
        outcome.map_err(StartError::Storage)
    }

    async fn let_clients_in(mut self, core: Rc<Core>, address: Address) -> Result<Option<String>, String> {
        let peer = self.peer.as_ref().map(|peer| peer.address()).transpose();
        let peer = peer.map_err(|error| error.to_string())?;
        let start = Command::StartNode {
            node: self.facts.node,
            address,
            home: Some(Home {
                directory: self.facts.directory,
                shards: u16::try_from(self.facts.shards).unwrap_or(u16::MAX),
                peer: peer.map(|bound| told(&self.facts.config.peer.advertised, bound)),
                start: self.facts.incarnation,
            }),
            rack: self.facts.config.node.rack.as_deref().map(Into::into),
        };
        let opened = match core.metadata_log.is_some() {
            true => self.start_in_group(&core, start).await,
            false => open_partitions(&core, &self.facts, start).await,
        };
        if opened.is_err() {
            self.count_start_back(&core);
        }
        let mut watch = DiskWatch::new(&core);
        let shortage = watch.look().await;
        opened?;
        let listener = let_in(self.kafka, "kafka.listen")?;
        let clients = accept_clients(core.clone(), listener, self.connections_max, self.draining);
        platform::turns::spawn(clients);
        platform::turns::spawn(watch.go_on());
        let refusal = core.shard(0).refuses().map(|refusal| refusal.to_string());
        Ok(shortage.or(refusal))
    }
}

impl Opening {
    /// On a member: takes part in the metadata group, has this start be committed there, opens the partitions, and follows the group.
    async fn start_in_group(&mut self, core: &Rc<Core>, start: Command) -> Result<(), String> {
        let before = match self.identity.last_incarnation {
            None => Some(core.replay_metadata().await?),
            Some(_) => None,
        };
        if let Some(ordered) = before.as_ref().and_then(ordered_topic) {
            return Err(format!(
                "topic {ordered} has one order (ropewalk.order=total), and would lose its positions where other nodes can join: start it without \
                 peer.listen, and set ropewalk.order=partition first"
            ));
        }
        core.begin_group(self.disk.clone(), self.work.clone()).await?;
        if let Some(image) = before {
            core.found_group(image).await?;
            self.identity.last_incarnation = Some(FIRST_START);
            keep_identity(&*self.disk, &self.identity).map_err(|error| error.to_string())?;
            core.forget_own_log();
        }
        if let Some(peer) = self.peer.take() {
            let listener = let_in(peer, "peer.listen")?;
            platform::turns::spawn(let_peers_in(core.clone(), listener));
        }
        platform::turns::spawn(keep_metadata_links(core.clone()));
        let (mut image, mut next) = core.commit_start(start).await?;
        let doubt = core.find_doubt().await.map_err(|stopping| stopping.to_string())?;
        if let Some(doubt) = doubt {
            (image, next) = core.commit_start(doubt).await?;
        }
        let image = Arc::new(image);
        on_every_core(core, move |core| core.adopt(&image)).await?;
        platform::turns::spawn(core.clone().follow_group(next));
        platform::turns::spawn(keep_members(core.clone()));
        platform::turns::spawn(place_replicas(core.clone()));
        platform::turns::spawn(make_order_logs(core.clone()));
        platform::turns::spawn(replace_leaders(core.clone()));
        serve_on_every_core(core).await?;
        platform::turns::spawn(core.clone().tell_durable());
        Ok(())
    }

    /// A start that nobody was told of counts nothing: an old copy of a directory must not come to a number that was not told yet.
    fn count_start_back(&self, core: &Core) {
        let is_told = core.metadata_log.as_ref().is_none_or(MetadataLog::has_proposed);
        let before = self
            .identity
            .last_incarnation
            .and_then(|start| start.checked_sub(1));
        if let (false, Some(start)) = (is_told, before) {
            let identity = NodeIdentity {
                last_incarnation: Some(start),
                ..self.identity
            };
            if let Err(error) = keep_identity(&*core.disk, &identity) {
                tracing::warn!(%error, "this start stays counted");
            }
        }
    }
}

/// A topic that has one order.
fn ordered_topic(image: &Metadata) -> Option<Arc<str>> {
    let mut ordered = image.topics().filter(|topic| topic.settings.is_ordered);
    ordered.next().map(|topic| topic.name.clone())
}

/// What others are told: the address that they should use, or else the one that is bound.
fn told(advertised: &Option<HostPort>, bound: SocketAddr) -> Address {
    let (host, port) = match advertised {
        Some(advertised) => (advertised.host.clone(), advertised.port),
        None => (bound.ip().to_string(), bound.port()),
    };
    Address {
        host: host.into(),
        port,
    }
}

/// Where other nodes reach HTTP. One that listens on every address is at the host where other nodes connect; and one that only its own
/// machine reaches is told to nobody, unless all nodes are on that machine.
pub(super) fn http_told(config: &Config, http: SocketAddr, peer: Option<SocketAddr>) -> Option<Address> {
    let peer = told(&config.peer.advertised, peer?);
    let address = told(&config.http.advertised, http);
    if config.http.advertised.is_some() {
        return Some(address);
    }
    if http.ip().is_unspecified() {
        return Some(Address {
            host: peer.host,
            port: address.port,
        });
    }
    let is_alone = |host: &str| host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    (is_alone(&peer.host) || !http.ip().is_loopback()).then_some(address)
}

/// Things that an operator should know about where the node's data is.
pub(super) fn disk_warnings(disk: &dyn Disk, config: &Config) -> Option<String> {
    (disk.durable_write_mode() == DurableWriteMode::Buffered).then(|| {
        format!(
            "{} does not support direct I/O (tmpfs?); durable writes go through the page cache and are slower",
            config.data.display()
        )
    })
}

/// On core 0: replays the metadata, has every core open its partitions, and journals this start.
///
/// In this order: a journal that is full makes room only when its partitions are open. Until the start is committed no
/// append is accepted, so nothing happens in the epochs that it opens; should it be lost, the next start opens them again.
async fn open_partitions(core: &Rc<Core>, facts: &NodeFacts, start: Command) -> Result<(), String> {
    let mut image = core.replay_metadata().await?;
    let founding = image
        .cluster()
        .is_none()
        .then(|| Metadata::founding(facts.cluster));
    let news: Vec<Command> = founding.into_iter().flatten().chain([start]).collect();
    for command in &news {
        let applied = image.apply(command);
        applied.map_err(|error| format!("this start does not fit the metadata: {error}"))?;
    }
    let image = Arc::new(image);
    on_every_core(core, move |core| core.adopt(&image)).await?;
    core.open_all_orders().await;
    platform::turns::spawn(core.clone().retry_orders());
    let journaling = platform::turns::spawn(journal_start(core.clone(), news));
    tokio::select! {
        biased;
        journaled = journaling => journaled.expect("journaling a start does not panic"),
        // Stored records can be read all the same, and appends begin as soon as there is room.
        () = core.shard(0).until_starved() => {
            tracing::warn!("this start cannot be journaled yet: appends are refused until there is room on the disk");
            Ok(())
        }
    }
}

/// Commits a start, and has every core accept appends.
async fn journal_start(core: Rc<Core>, news: Vec<Command>) -> Result<(), String> {
    core.journal_start(&news).await.map_err(|error| {
        // Perhaps nobody waits for it any more: then the node serves readers, and goes on refusing appends.
        tracing::error!(%error, "this start cannot be journaled");
        format!("this start cannot be journaled: {error}")
    })?;
    platform::turns::spawn({
        let core = core.clone();
        async move {
            core.trim_to_image().await;
            // Starts are commands, too.
            core.keep_log_short();
        }
    });
    serve_on_every_core(&core).await
}

/// The start is committed: replicas may be in the epochs that it began, and appends are accepted.
async fn serve_on_every_core(core: &Core) -> Result<(), String> {
    let mailboxes = &core.facts.mailboxes;
    for index in 0..mailboxes.cores() {
        let served = mailboxes.call(index, |core| async move { core.serve().await });
        served.await.map_err(|stopping| stopping.to_string())?;
    }
    Ok(())
}

async fn on_every_core(
    core: &Core,
    work: impl Fn(&Core) -> Result<(), String> + Clone + Send + 'static,
) -> Result<(), String> {
    let mailboxes = &core.facts.mailboxes;
    for index in 0..mailboxes.cores() {
        let work = work.clone();
        let done = mailboxes
            .call(index, move |core| async move { work(&core) })
            .await;
        done.map_err(|stopping| stopping.to_string())??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_told_to_those_who_reach_it() {
        let config = |peer: Option<&str>, http: Option<&str>| {
            let mut config = Config::default();
            config.peer.advertised = peer.and_then(HostPort::parse);
            config.http.advertised = http.and_then(HostPort::parse);
            config
        };
        let told = |config: &Config, http: &str, peer: Option<&str>| {
            let bound = |address: &str| address.parse::<SocketAddr>().expect("an address");
            let told = http_told(config, bound(http), peer.map(bound));
            told.map(|Address { host, port }| format!("{host} {port}"))
        };
        let here = |http| told(&config(None, None), http, Some("127.0.0.1:7000"));
        assert_eq!(here("127.0.0.1:8092").as_deref(), Some("127.0.0.1 8092"));
        assert_eq!(here("0.0.0.0:8092").as_deref(), Some("127.0.0.1 8092"));
        let away = |http| told(&config(Some("hemp:7000"), None), http, Some("0.0.0.0:7000"));
        assert_eq!(away("[::]:8092").as_deref(), Some("hemp 8092"));
        assert_eq!(away("10.0.0.1:8092").as_deref(), Some("10.0.0.1 8092"));
        assert_eq!(
            away("127.0.0.1:8092"),
            None,
            "another machine would find itself there"
        );
        let said = told(
            &config(None, Some("flax:80")),
            "127.0.0.1:8092",
            Some("10.0.0.1:7000"),
        );
        assert_eq!(said.as_deref(), Some("flax 80"));
        assert_eq!(
            told(&config(None, None), "10.0.0.1:8092", None),
            None,
            "there are no others"
        );
    }
}
