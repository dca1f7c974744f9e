//! Pages against one list of positions.

use planted::{Bug, with};
use proptest::collection::vec;
use proptest::prelude::*;
use record::{Offset, Position};

use super::super::*;

const PARTITIONS: i32 = 5;

/// Cuts in the order of their positions, each with its shard.
fn any_cuts() -> impl Strategy<Value = Vec<(usize, Vec<Run>)>> {
    let run = (0..PARTITIONS, 1..4_u32).prop_map(|(partition, offsets)| Run { partition, offsets });
    vec((0..3_usize, vec(run, 1..4)), 0..60)
}

/// The partition and the offset of each position.
fn listed(cuts: &[(usize, Vec<Run>)]) -> Vec<(i32, Offset)> {
    let mut next = [0; PARTITIONS as usize];
    let runs = cuts.iter().flat_map(|(_, runs)| runs);
    let offsets = runs.flat_map(|run| std::iter::repeat_n(run.partition, run.offsets as usize));
    let place = |partition: i32| {
        let next = &mut next[partition as usize];
        *next += 1;
        (partition, Offset(*next - 1))
    };
    offsets.map(place).collect()
}

fn nothing() -> Open {
    Open {
        generation: Generation(1),
        first: Position(0),
        vector: vec![Offset::ZERO; 2],
    }
}

/// Gathers cuts shard after shard, sealing pages in between, and gives all of them.
fn gathered(cuts: &[(usize, Vec<Run>)], sealed_after: usize) -> Gathered {
    let mut gathered = Gathered::behind(&nothing());
    let mut base = 0;
    let mut of_shards: Vec<Vec<Shown>> = vec![Vec::new(); 3];
    for (shard, runs) in cuts {
        let of_shard = &mut of_shards[*shard];
        of_shard.push(Shown {
            base: Position(base),
            entry: Offset(of_shard.len() as i64),
            runs: runs.clone(),
        });
        base += runs.iter().map(|run| u64::from(run.offsets)).sum::<u64>();
    }
    for (shard, cuts) in of_shards.into_iter().enumerate() {
        for (number, cut) in cuts.into_iter().enumerate() {
            gathered.take(shard, cut);
            if number % sealed_after == 0 {
                gathered.seal();
            }
        }
    }
    assert_eq!(gathered.end(), Position(base));
    gathered
}

/// Demands that a page says of each position what the list says.
fn demand(page: &Page, list: &[(i32, Offset)]) {
    let (first, end) = (page.first.0 as usize, page.end().first.0 as usize);
    for position in first..end {
        let places: Vec<Place> = page.places(Position(position as u64)).collect();
        let told = places
            .iter()
            .flat_map(|place| (place.first.0..place.next.0).map(|offset| (place.partition, Offset(offset))));
        assert_eq!(told.collect::<Vec<_>>(), list[position..end]);
        assert_eq!(places[0].position, Position(position as u64));
    }
    for position in first..=end {
        let mut vector = page.vector_at(Position(position as u64));
        vector.resize(PARTITIONS as usize, Offset::ZERO);
        let count = |partition| list[..position].iter().filter(|(of, _)| *of == partition).count();
        let counts: Vec<Offset> = (0..PARTITIONS)
            .map(|partition| Offset(count(partition) as i64))
            .collect();
        assert_eq!(vector, counts, "at {position}");
    }
}

fn demand_all(cuts: &[(usize, Vec<Run>)], sealed_after: usize) {
    let (list, mut gathered) = (listed(cuts), gathered(cuts, sealed_after));
    let mut next = Position(0);
    let pages: Vec<Page> = gathered
        .sealed(Position(0))
        .map(|sealed| sealed.page.clone())
        .collect();
    for page in &pages {
        assert_eq!(page.first, next, "pages follow each other");
        assert_eq!(gathered.page_of(next), Some(page));
        demand(page, &list);
        let read = Page::decode(&page.encode(), PARTITIONS as usize);
        assert_eq!(read.as_ref(), Ok(page));
        next = page.end().first;
    }
    if let Some(page) = gathered.page_of(next) {
        demand(page, &list);
    }
    gathered.handle_durable(next);
    assert_eq!(gathered.sealed(Position(0)).count(), 0);
    assert_eq!(
        gathered.page_of(Position(next.0.saturating_sub(1))).is_some(),
        next == Position(0) && !list.is_empty()
    );
}

proptest! {
    #[test]
    fn pages_say_of_each_position_what_the_cuts_say(cuts in any_cuts(), sealed_after in 1..20_usize) {
        demand_all(&cuts, sealed_after);
    }

    #[test]
    fn any_bytes_are_a_page_or_refused(bytes in vec(any::<u8>(), 0..80)) {
        if let Ok(page) = Page::decode(&bytes, PARTITIONS as usize) {
            prop_assert_eq!(&page.encode()[..], &bytes[..]);
        }
    }

    #[test]
    fn a_page_that_ends_early_or_late_is_refused(cuts in any_cuts()) {
        let mut gathered = gathered(&cuts, 100);
        gathered.seal();
        for sealed in gathered.sealed(Position(0)) {
            let bytes = sealed.page.encode();
            for length in 0..bytes.len() {
                prop_assert!(Page::decode(&bytes[..length], PARTITIONS as usize).is_err());
            }
            let longer = [&bytes[..], &[0]].concat();
            prop_assert!(Page::decode(&longer, PARTITIONS as usize).is_err());
        }
    }
}

#[test]
fn a_vector_that_is_wrong_by_one_is_found() {
    let run = |partition, offsets| Run { partition, offsets };
    let cuts = [(0, vec![run(1, 2), run(0, 1)]), (1, vec![run(2, 3)])];
    demand_all(&cuts, 1);
    let found = with(Bug::VectorOffByOne, || {
        std::panic::catch_unwind(|| demand_all(&cuts, 1))
    });
    assert!(found.is_err(), "a mistake that nothing finds");
}

#[test]
fn a_page_ends_before_it_spans_more_than_its_batch_can() {
    let mut gathered = Gathered::behind(&nothing());
    for _ in 0..3 {
        gathered.take_run(Run {
            partition: 1,
            offsets: u32::MAX,
        });
    }
    gathered.seal();
    let pages: Vec<&Page> = gathered.sealed(Position(0)).map(|sealed| &sealed.page).collect();
    assert!(pages.iter().all(|page| page.count() <= 1 << 30));
    let spanned: u64 = pages.iter().map(|page| page.count()).sum();
    assert_eq!(spanned, 3 * u64::from(u32::MAX));
    assert_eq!(gathered.end(), Position(spanned));
    assert_eq!(gathered.vector()[1], Offset(spanned as i64));
}

#[test]
fn partitions_that_the_topic_does_not_have_are_refused() {
    let mut gathered = Gathered::behind(&nothing());
    gathered.take_run(Run {
        partition: 7,
        offsets: 1,
    });
    gathered.seal();
    let page = gathered
        .sealed(Position(0))
        .next()
        .expect("it is sealed")
        .page
        .encode();
    assert!(Page::decode(&page, 8).is_ok());
    assert!(Page::decode(&page, 7).is_err());
}

/// A start goes on from the end of the last page that is durable, wherever that is, and finds the same order.
#[test]
fn pages_end_between_cuts_and_strands_are_kept_from_there() {
    const CUTS: u64 = 5_000;
    let runs: Vec<Run> = (0..3)
        .map(|partition| Run {
            partition,
            offsets: 2,
        })
        .collect();
    let cut = |number: u64| Shown {
        base: Position(6 * number),
        // Two shards in turn.
        entry: Offset(number as i64 / 2),
        runs: runs.clone(),
    };
    let mut gathered = Gathered::behind(&nothing());
    (0..CUTS).for_each(|number| gathered.take(number as usize % 2, cut(number)));
    let tails = vec![Offset(2 * CUTS as i64); 3];
    let pages: Vec<SealedPage> = gathered.sealed(Position(0)).cloned().collect();
    assert!(pages.len() > 2, "{}", pages.len());
    for sealed in &pages {
        assert!(sealed.page.runs.len() <= PAGE_RUNS);
        let left = |shard: u64| {
            let kept = sealed.strands[&(shard as usize)];
            let entries = (0..CUTS).filter(|number| number % 2 == shard).map(cut);
            let kept = entries.filter(move |cut| cut.entry >= kept);
            let entry = |cut: Shown| {
                Entry::Cut(Cut {
                    generation: Generation(1),
                    base: cut.base,
                    ordered: Position(0),
                    runs: cut.runs,
                })
            };
            kept.map(entry).collect::<Vec<Entry>>()
        };
        let strands = [left(0), left(1), vec![Entry::Open(sealed.page.end())]];
        let recovered = recover(&strands, &tails)
            .expect("they agree")
            .expect("it was opened");
        assert_eq!(recovered.next, Position(6 * CUTS));
        assert_eq!(recovered.vector, tails);
    }
}
