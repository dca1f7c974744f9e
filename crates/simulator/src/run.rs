//! One seed from its beginning to its verdict.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use platform::net::SimulatedNet;
use platform::random::SeededRandom;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::faults::{FaultCounts, Faults};
use crate::history::History;
use crate::machine::Machine;
use crate::members;
use crate::order::OrderBook;
use crate::panics;
use crate::trace::Trace;
use crate::transactions::Bank;
use crate::workload::{
    CREW, ORDERED, Production, TOPICS, World, administer, commit_offsets, create_topics, places, produce,
    read_all, read_on, take_part, trespass,
};

/// How a seed is run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Nodes: one, or the members of a cluster.
    pub nodes: usize,
    /// How many faults it meets.
    pub faults: u64,
    /// Bytes that the node's disk has; `None` for as many as it wants.
    pub room: Option<u64>,
    /// Tells its events as they come.
    pub shows: bool,
    /// The journals, checkpoints and segments of one node of a cluster are put back from a copy now and then. No topic has one replica then: of such a topic, what is lost is lost.
    pub copies: bool,
    /// Bits of segments turn; of a cluster.
    pub bits: bool,
    /// Every other topic with several replicas is compacted; of a cluster.
    pub tables: bool,
    /// Topics have one order over their partitions; of a node by itself, some only now and then.
    pub order: bool,
    /// Some clients have transactions.
    pub transactions: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            nodes: 1,
            faults: 200,
            room: None,
            shows: false,
            copies: false,
            bits: false,
            tables: false,
            order: false,
            transactions: false,
        }
    }
}

/// The outcome of a seed.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The first violation.
    pub violation: Option<String>,
    /// The number of its trace: the same seed gives the same.
    pub trace: u64,
    /// Steps of the engine.
    pub steps: u64,
    /// Batches that were acknowledged.
    pub acknowledged: u64,
    /// Faults by kind.
    pub faults: FaultCounts,
    /// Counts of everything else that was reached.
    pub reached: BTreeMap<String, u64>,
    /// How much time passed in it.
    pub simulated: Duration,
}

/// The longest time without progress when nothing more goes wrong: until a batch is acknowledged, and at the end until all clients have
/// finished what they have begun.
const PROGRESS_MAX: Duration = Duration::from_secs(120);

/// Runs a seed. A panic of the node's code is a violation where panics unwind; elsewhere it ends the process.
pub fn run(seed: u64, options: Options) -> Report {
    panics::listen(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs nothing");
    match options.nodes {
        0 | 1 => runtime.block_on(simulate(seed, options)),
        _ => runtime.block_on(members::simulate(seed, options)),
    }
}

async fn simulate(seed: u64, options: Options) -> Report {
    let began = Instant::now();
    let mut random = SeededRandom::new(seed);
    let trace = Trace::new(options.shows);
    let history = History::new(trace.clone());
    let net = SimulatedNet::new(random.split());
    let mut engine = Engine::new(random.split(), trace.clone());
    let (node, clients) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 1, 1]));
    let mut machine = Machine::new(&net, node, 2, options.room, random.split(), trace.clone());
    let mut faults = Faults::new(random.split(), trace.clone(), history.clone(), clients);
    let world = World {
        net: net.host(clients),
        node: machine.kafka(),
        history: history.clone(),
        trace: trace.clone(),
        ends: Rc::new(Cell::new(false)),
        unfinished: Rc::new(Cell::new(0)),
        order: options.order.then(OrderBook::default),
    };
    machine.keep_order(world.order.clone());
    faults.end(&mut engine, &mut machine, &net).await;
    await_in(&mut engine, {
        let world = world.clone();
        async move { create_topics(&world).await }
    })
    .await;
    begin_clients(&mut engine, &world, &mut random);
    let bank = options.transactions.then(|| {
        let (told, ends) = (history.clone(), world.ends.clone());
        let nodes = vec![machine.kafka()];
        let bank = Bank::new(
            world.net.clone(),
            nodes,
            ends,
            false,
            trace.clone(),
            move |what| {
                told.violate(what);
            },
        );
        bank.begin(&mut engine, &mut random);
        bank
    });
    while !faults.suffice(options.faults) && !ends_here(&history) {
        let deadline = Instant::now() + PROGRESS_MAX;
        // Mostly a fault meets a node that works, else one that has another fault to bear.
        let before = history.acknowledged();
        let least = match random.chance(3, 4) {
            true => before + 1,
            false => faults.met() + 1,
        };
        faults.pass(&mut engine, &mut machine, &net).await;
        while history.acknowledged() < least && !ends_here(&history) {
            if Instant::now() > deadline {
                let count = faults.met();
                history.violate(format!("producers make no progress after fault {count}"));
            }
            faults.pass(&mut engine, &mut machine, &net).await;
        }
        faults
            .strike(
                options.faults.saturating_sub(faults.met()),
                &mut engine,
                &mut machine,
                &net,
            )
            .await;
    }
    if !ends_here(&history) {
        faults.end(&mut engine, &mut machine, &net).await;
        world.ends.set(true);
        let unfinished = world.unfinished.clone();
        let deadline = Instant::now() + PROGRESS_MAX;
        let of_bank = || bank.as_ref().map_or(0, Bank::unfinished);
        if !engine.run(deadline, || unfinished.get() + of_bank() == 0).await {
            let count = world.unfinished.get() + of_bank();
            history.violate(format!("{count} clients make no progress after the last fault"));
        }
    }
    if !ends_here(&history) {
        check_complete(&mut engine, &world).await;
    }
    if let Some(bank) = bank.filter(|_| !ends_here(&history)) {
        let (checked, random) = (bank.clone(), random.split());
        if !await_in(
            &mut engine,
            async move { checked.check(None, true, random).await },
        )
        .await
        {
            let awaited = bank.awaited();
            history.violate(format!("transactions are not settled: {awaited}"));
        }
    }
    if let Some(order) = world.order.as_ref().filter(|_| !ends_here(&history)) {
        check_order(&mut engine, &machine, order, &history).await;
    }
    ends_here(&history);
    machine.note_operations();
    Report {
        seed,
        violation: history.violation(),
        trace: trace.hash(),
        steps: trace.steps(),
        acknowledged: history.acknowledged(),
        faults: faults.counts().clone(),
        reached: trace.counts(),
        simulated: began.elapsed(),
    }
}

/// Says whether there was a violation; a panic is one.
fn ends_here(history: &History) -> bool {
    if let Some(panic) = panics::heard() {
        history.violate(panic);
    }
    history.violation().is_some()
}

/// Runs a task to its end, which must come.
async fn await_in(engine: &mut Engine, task: impl Future<Output = ()> + 'static) -> bool {
    let is_done = Rc::new(Cell::new(false));
    let done = is_done.clone();
    engine.add(async move {
        task.await;
        done.set(true);
    });
    engine.run(Instant::now() + PROGRESS_MAX, || is_done.get()).await
}

fn begin_clients(engine: &mut Engine, world: &World, random: &mut SeededRandom) {
    let mut count = 0;
    let mut begin = |task: std::pin::Pin<Box<dyn Future<Output = ()>>>| {
        engine.add(task);
        count += 1;
    };
    for place in places() {
        let kinds = [(true, -1), (false, -1), (true, -1), (false, 1), (false, 0)];
        for _ in 0..2 {
            let (is_idempotent, acks) = kinds[random.below(kinds.len() as u64) as usize];
            let production = Production {
                place,
                to_twin: false,
                is_idempotent,
                acks,
            };
            begin(Box::pin(produce(world.clone(), production, random.split())));
        }
        begin(Box::pin(read_on(world.clone(), place, random.split())));
    }
    if world.order.is_some() {
        let production = Production {
            place: (ORDERED, 0),
            to_twin: true,
            is_idempotent: true,
            acks: -1,
        };
        begin(Box::pin(produce(world.clone(), production, random.split())));
    }
    for group in 0..CREW {
        let all = places();
        let place = all[random.below(all.len() as u64) as usize];
        begin(Box::pin(commit_offsets(
            world.clone(),
            group,
            place,
            random.split(),
        )));
    }
    for _ in 0..3 {
        begin(Box::pin(take_part(world.clone(), random.split())));
    }
    begin(Box::pin(administer(world.clone(), random.split())));
    begin(Box::pin(trespass(world.clone(), random.split())));
    world.unfinished.set(count);
}

/// Has the node tell its whole order, and holds what was acknowledged against it.
async fn check_order(engine: &mut Engine, machine: &Machine, order: &OrderBook, history: &History) {
    order.begin();
    let wanted: i64 = (0..TOPICS[ORDERED].1)
        .map(|index| history.tail((ORDERED, index)))
        .sum();
    let deadline = Instant::now() + PROGRESS_MAX;
    while (order.wanted() as i64) < wanted && Instant::now() < deadline {
        machine.ask_order();
        engine.run_until(Instant::now() + Duration::from_millis(10)).await;
    }
    if (order.wanted() as i64) < wanted {
        let told = order.wanted();
        history.violate(format!(
            "the order is told up to {told}, and {wanted} records were seen"
        ));
    }
    if let Some(violation) = order.violation().or_else(|| order.check_complete()) {
        return history.violate(violation);
    }
    match order.of_twin() {
        Ok(all) => {
            for of_twin in all {
                let place = (ORDERED, of_twin.partition);
                history.check_there(place, of_twin.first_offset, &of_twin.values);
            }
        }
        Err(violation) => history.violate(violation),
    }
}

/// Reads each log whole, through the wire, and holds it against what was seen.
async fn check_complete(engine: &mut Engine, world: &World) {
    for place in places() {
        let checked = world.clone();
        let is_done = await_in(engine, async move {
            let (read, start) = read_all(&checked, place).await;
            checked.history.check_complete(place, &read, start);
        });
        if !is_done.await {
            world
                .history
                .violate(format!("{place:?} cannot be read to its end"));
        }
    }
}
