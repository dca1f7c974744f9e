//! The network of a simulation: messages are delayed, lost, doubled, overtaken; the ways from one node to another can be cut, each by itself.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use metadata_group::{Member, Transport, summary};
use platform::random::SeededRandom;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::history::History;
use crate::trace::Trace;

pub(crate) type Inbox = mpsc::UnboundedSender<(Member, Bytes)>;

#[derive(Clone)]
pub(crate) struct Net(Rc<Inner>);

struct Inner {
    state: RefCell<State>,
    sent: mpsc::UnboundedSender<Flight>,
    trace: Trace,
    history: History,
}

struct State {
    random: SeededRandom,
    inboxes: BTreeMap<Member, Inbox>,
    cut: BTreeSet<(i32, i32)>,
    /// Of a thousand messages.
    lost: u64,
    doubled: u64,
    slow: u64,
}

struct Flight {
    arrives: Instant,
    from: Member,
    to: Member,
    message: Bytes,
}

impl Net {
    /// The network, and the task that delivers.
    pub(crate) fn new(
        mut random: SeededRandom,
        trace: Trace,
        history: History,
    ) -> (Net, impl Future<Output = ()>) {
        let (sent, flights) = mpsc::unbounded_channel();
        let calm = random.chance(1, 3);
        let state = State {
            lost: if calm { 0 } else { random.below(150) },
            doubled: if calm { 0 } else { random.below(150) },
            slow: random.below(100),
            random,
            inboxes: BTreeMap::new(),
            cut: BTreeSet::new(),
        };
        let net = Net(Rc::new(Inner {
            state: RefCell::new(state),
            sent,
            trace,
            history,
        }));
        let delivering = deliver(net.clone(), flights);
        (net, delivering)
    }

    /// The way out of one node.
    pub(crate) fn of(&self, own: Member) -> Rc<dyn Transport> {
        Rc::new(Link {
            net: self.clone(),
            own,
        })
    }

    pub(crate) fn connect(&self, node: Member, inbox: Option<Inbox>) {
        let inboxes = &mut self.0.state.borrow_mut().inboxes;
        match inbox {
            Some(inbox) => inboxes.insert(node, inbox),
            None => inboxes.remove(&node),
        };
    }

    pub(crate) fn cut(&self, from: i32, to: i32) {
        self.0.state.borrow_mut().cut.insert((from, to));
    }

    pub(crate) fn mend(&self) {
        self.0.state.borrow_mut().cut.clear();
    }

    /// From here on all goes well.
    pub(crate) fn calm(&self) {
        let mut state = self.0.state.borrow_mut();
        state.cut.clear();
        (state.lost, state.doubled, state.slow) = (0, 0, 0);
    }
}

struct Link {
    net: Net,
    own: Member,
}

impl Transport for Link {
    fn send(&self, to: Member, message: Bytes) {
        let inner = &self.net.0;
        let summary = summary(&message).expect("a group sends messages");
        inner.trace.note(format_args!(
            "{} -> {to}: {} {:?} {} {:?} {:?}",
            self.own, summary.kind, summary.term, summary.entries, summary.last, summary.verdict
        ));
        inner.trace.count(summary.kind);
        inner.history.sent(self.own, &summary);
        let mut state = inner.state.borrow_mut();
        let copies = match state.random.below(1000) {
            lot if lot < state.lost => 0,
            lot if lot < state.lost + state.doubled => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let us = match state.random.below(1000) {
                lot if lot < state.slow => state.random.below(400_000),
                lot if lot < 300 => state.random.below(10_000),
                _ => state.random.below(1_000),
            };
            let _ = inner.sent.send(Flight {
                arrives: Instant::now() + Duration::from_micros(us),
                from: self.own,
                to,
                message: message.clone(),
            });
        }
    }
}

async fn deliver(net: Net, mut flights: mpsc::UnboundedReceiver<Flight>) {
    let mut under_way: BTreeMap<(Instant, u64), Flight> = BTreeMap::new();
    let mut number = 0;
    loop {
        let first = under_way.first_key_value().map(|((arrives, _), _)| *arrives);
        tokio::select! {
            biased;
            flight = flights.recv() => {
                let Some(flight) = flight else { return };
                number += 1;
                under_way.insert((flight.arrives, number), flight);
            }
            () = sleep_until(first.unwrap_or_else(Instant::now)), if first.is_some() => {
                let (_, flight) = under_way.pop_first().expect("it is the first");
                let state = net.0.state.borrow();
                if !state.cut.contains(&(flight.from.node, flight.to.node))
                    && let Some(inbox) = state.inboxes.get(&flight.to)
                {
                    let _ = inbox.send((flight.from, flight.message));
                }
            }
        }
    }
}
