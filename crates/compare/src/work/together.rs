//! One load from several processes of a driver at once, each on a log of its own: they are told to begin together, and what each of
//! them says is put into one.
//!
//! Processes take different times to connect and to warm up. All is counted from the first one's first measured record to the last
//! one's last: whoever begins late or ends late makes all of them slower, never faster.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::super::driving::Driving;
use super::super::figures;
use bench::contract::Done;
use bench::contract::watch::Watch;

/// One load of one client: the number of the client, its driver, and who watches.
pub(super) type OneLoad<'a> = &'a (dyn Fn(usize, &mut Driving, &mut dyn Watch) -> Result<Done> + Sync);

/// Makes `load` with all of `drivers`, and watches all of them as one; what each of them said, and when it began.
///
/// # Errors
/// If one of them fails; the others are waited for.
pub(super) fn together(
    drivers: &mut [Driving],
    watch: &mut dyn Watch,
    load: OneLoad<'_>,
) -> Result<Vec<Part>> {
    if let [driving] = drivers {
        let done = load(0, driving, watch)?;
        let late = Duration::ZERO;
        return Ok(vec![Part { late, done }]);
    }
    let clients = drivers.len();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let loads = drivers.iter_mut().enumerate().map(|(client, driving)| {
            let mut teller = Teller {
                client,
                tell: tell.clone(),
                began: None,
            };
            scope.spawn(move || {
                let done = load(client, driving, &mut teller)?;
                Ok((teller.began.unwrap_or_else(Instant::now), done))
            })
        });
        let loads: Vec<_> = loads.collect();
        drop(tell);
        let watched = watch_all(clients, &told, watch);
        let ended = loads
            .into_iter()
            .map(|load| load.join().expect("a panic is a bug here"));
        let ended: Vec<(Instant, Done)> = ended.collect::<Result<_>>()?;
        watched?;
        let first = ended
            .iter()
            .map(|(began, _)| *began)
            .min()
            .unwrap_or_else(Instant::now);
        let parts = ended.into_iter().map(|(began, done)| Part {
            late: began - first,
            done,
        });
        Ok(parts.collect())
    })
}

/// What one client said of its part of a load.
#[derive(Debug)]
pub(super) struct Part {
    /// How long after the first client it began.
    late: Duration,
    pub(super) done: Done,
}

/// All parts as one.
pub(super) fn as_one(parts: Vec<Part>) -> Done {
    let mut all = Done::default();
    for Part { late, done } in parts {
        all.records += done.records;
        all.bytes += done.bytes;
        all.seconds = all.seconds.max(late.as_secs_f64() + done.seconds);
        all.latency_ns = figures::merged([&all.latency_ns, &done.latency_ns].into_iter());
        all.appended.extend(done.appended);
        if let Some(delivery_ns) = done.delivery_ns {
            let before = all.delivery_ns.take().unwrap_or_default();
            all.delivery_ns = Some(figures::merged([&before, &delivery_ns].into_iter()));
        }
    }
    all
}

/// What one client's thread has to say.
enum Word {
    Began,
    Progress(usize, u64),
    Ended,
}

/// Says to the one who watches all clients what one of them does.
struct Teller {
    client: usize,
    tell: Sender<Word>,
    began: Option<Instant>,
}

impl Teller {
    /// Whoever does not listen any more has failed, and says so.
    fn say(&self, word: Word) {
        let _ = self.tell.send(word);
    }
}

impl Watch for Teller {
    fn started(&mut self) -> Result<()> {
        self.began = Some(Instant::now());
        self.say(Word::Began);
        Ok(())
    }

    fn progress(&mut self, records: u64) {
        self.say(Word::Progress(self.client, records));
    }

    fn done(&mut self) -> Result<()> {
        self.say(Word::Ended);
        Ok(())
    }
}

/// Watches all clients as one, which begins with the first of them and ends with the last, until none has anything to say any more.
fn watch_all(clients: usize, told: &Receiver<Word>, watch: &mut dyn Watch) -> Result<()> {
    let mut records = vec![0; clients];
    let (mut began, mut ended) = (0, 0);
    for word in told {
        match word {
            Word::Began => {
                began += 1;
                if began == 1 {
                    watch.started()?;
                }
            }
            Word::Progress(client, so_far) => {
                records[client] = so_far;
                watch.progress(records.iter().sum());
            }
            Word::Ended => {
                ended += 1;
                if ended == clients {
                    watch.done()?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Told(Vec<String>);

    impl Watch for Told {
        fn started(&mut self) -> Result<()> {
            self.0.push("began".to_owned());
            Ok(())
        }

        fn progress(&mut self, records: u64) {
            self.0.push(records.to_string());
        }

        fn done(&mut self) -> Result<()> {
            self.0.push("ended".to_owned());
            Ok(())
        }
    }

    #[test]
    fn all_are_watched_as_one_from_the_first_to_the_last() {
        let (tell, told) = mpsc::channel();
        let words = [
            Word::Began,
            Word::Progress(0, 5),
            Word::Began,
            Word::Progress(1, 7),
            Word::Ended,
            Word::Progress(1, 9),
            Word::Ended,
        ];
        words
            .into_iter()
            .for_each(|word| tell.send(word).expect("it is kept"));
        drop(tell);
        let mut watch = Told::default();
        watch_all(2, &told, &mut watch).expect("nothing fails");
        assert_eq!(watch.0, ["began", "5", "12", "14", "ended"]);
    }

    #[test]
    fn who_begins_late_makes_all_slower() {
        let part = |late_ms: u64, seconds: f64| Part {
            late: Duration::from_millis(late_ms),
            done: Done {
                seconds,
                records: 100,
                bytes: 1_000,
                appended: vec![60, 50],
                latency_ns: vec![(10, 100)],
                ..Done::default()
            },
        };
        let all = as_one(vec![part(500, 1.0), part(0, 1.2)]);
        assert_eq!((all.records, all.bytes, all.seconds), (200, 2_000, 1.5));
        assert_eq!(all.appended, [60, 50, 60, 50]);
        assert_eq!(all.latency_ns, [(10, 200)]);
    }
}
