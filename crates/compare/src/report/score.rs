//! Who wins and loses how much: each figure that our system loses, how often each verdict fell between systems that promise the same,
//! and who is best how often.

use bench::number;
use minijinja::{Value, context};

use super::cells::{self, Standing};
use super::columns;
use super::comparisons::Comparison;
use super::measured::{Verdict, title};
use super::tables::range;
use crate::results::Results;

/// What the template says of it.
pub(crate) fn of(results: &Results, found: &[Comparison<'_>]) -> Value {
    let is_lost = |one: &Comparison<'_>| one.verdict == Verdict::Worse;
    let is_undecided = |one: &Comparison<'_>| one.verdict == Verdict::NoDifference && one.has_worse_median();
    let count = |is_so: &dyn Fn(&Comparison<'_>) -> bool| found.iter().filter(|one| is_so(one)).count();
    context! {
        compared => !found.is_empty(),
        lost => context! {
            same => count(&|one| one.is_same_guarantee() && is_lost(one)),
            of_same => count(&|one| one.is_same_guarantee()),
            others => count(&|one| !one.is_same_guarantee() && is_lost(one)),
            of_others => count(&|one| !one.is_same_guarantee()),
        },
        gathered_losses => gathered(found.iter().filter(|one| one.is_same_guarantee() && is_lost(one))),
        losses => figures(found.iter().filter(|one| is_lost(one))),
        undecided => figures(found.iter().filter(|one| is_undecided(one))),
        score => verdicts(found),
        bests => bests(results),
    }
}

/// A line for each figure, those beside systems that promise the same first.
fn figures<'a>(those: impl Iterator<Item = &'a Comparison<'a>>) -> Vec<Value> {
    let mut those: Vec<&Comparison<'_>> = those.collect();
    those.sort_by_key(|one| !one.is_same_guarantee());
    let told = those.into_iter().map(|one| {
        context! {
            row => format!("{} · {}", one.experiment.title, one.row.name),
            metric => title(one.metric),
            our_system => columns::title(one.our_system),
            ours => cells::median(&one.ours, false),
            opponent => opponent(one),
            theirs => cells::median(&one.theirs, false),
            times => one.times().map(number::factor),
            is_same_guarantee => one.is_same_guarantee(),
        }
    });
    told.collect()
}

/// A line for each metric of a table in which a system is better: how many rows that are, and by how much.
fn gathered<'a>(those: impl Iterator<Item = &'a Comparison<'a>>) -> Vec<Value> {
    let mut gathered = Vec::new();
    for one in those {
        let what = (&one.experiment.title, title(one.metric), opponent(one));
        let times: &mut Vec<Option<f64>> = of_key(&mut gathered, what);
        times.push(one.times());
    }
    let told = gathered.into_iter().map(|((table, metric, opponent), times)| {
        let rows = times.len();
        let by = range(times.into_iter().flatten(), number::factor);
        context! { table, metric, opponent, rows, by }
    });
    told.collect()
}

/// What is known of a key, in the order in which keys come.
pub(crate) fn of_key<K: PartialEq, V: Default>(all: &mut Vec<(K, V)>, key: K) -> &mut V {
    let known = all.iter().position(|(known, _)| *known == key);
    let place = known.unwrap_or(all.len());
    if known.is_none() {
        all.push((key, V::default()));
    }
    &mut all[place].1
}

/// The other side of a comparison, as a reader knows it.
fn opponent(one: &Comparison<'_>) -> String {
    let title = columns::title(one.other_system);
    match one.common_client {
        Some(client) => format!("{title} (both through {client})"),
        None => title,
    }
}

/// How often each verdict fell, for each pair of systems that promise the same.
fn verdicts(found: &[Comparison<'_>]) -> Vec<(String, [u64; 3])> {
    let mut pairs: Vec<(String, [u64; 3])> = Vec::new();
    for one in found.iter().filter(|one| one.decides && one.is_same_guarantee()) {
        let pair = format!("{} against {}", columns::title(one.our_system), opponent(one));
        let verdicts = [Verdict::Worse, Verdict::NoDifference, Verdict::Better];
        for (count, verdict) in of_key(&mut pairs, pair).iter_mut().zip(verdicts) {
            *count += u64::from(one.verdict == verdict);
        }
    }
    pairs
}

/// How often each system has the best figure of a row among those that promise the same, ties counted for all: by the first metric in
/// which it can be set beside others.
fn bests(results: &Results) -> Vec<(String, [u64; 2])> {
    let mut bests = vec![[0, 0]; results.systems.len()];
    for experiment in &results.experiments {
        let columns = columns::of(results, experiment);
        for row in &experiment.rows {
            let metrics = experiment.metrics.iter();
            let by_metric = metrics.map(|metric| cells::standings(&columns, row, metric));
            let by_metric: Vec<Vec<Standing>> = by_metric.collect();
            for (number, [best, rows]) in bests.iter_mut().enumerate() {
                let of_system = |standings: &Vec<Standing>| {
                    let own = columns.iter().zip(standings);
                    let own = own.filter(|(column, _)| column.number == number);
                    own.map(|(_, standing)| *standing).max()
                };
                let mut own = by_metric.iter().filter_map(of_system);
                if let Some(standing) = own.find(|standing| *standing != Standing::Alone) {
                    *best += u64::from(standing == Standing::Best);
                    *rows += 1;
                }
            }
        }
    }
    let titles = results.systems.iter().map(columns::title);
    titles.zip(bests).filter(|(_, [_, rows])| *rows > 0).collect()
}
