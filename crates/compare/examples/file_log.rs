//! The smallest driver of a comparison: a log that is a file for each shard, in the directory that is its address. It flushes
//! nothing and is no system of the comparison; it shows how a driver is made, and tests of the harness run it, also in ways in which a
//! driver must not be.
//!
//!     file_log MODE DIRECTORY
//!
//! Modes: honest; slow (to write); cheat (acknowledges what it never writes); later (the same, once it has been believed); swap
//! (writes other bytes); hush (tells no late latencies); hurry (tells a fifth of the time that it took);
//! flatter (tells a tenth of each latency); die, stall (in the middle of
//! a load); frail, forgetful (when its system's second node is dead, it stops for half a second, or loses all that was
//! appended before); uneven (every other load is slower); refuse; fill, fill-for-good (takes all room on the disk, in its directory or
//! outside).

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::contract::driver::{Events, System, serve};
use bench::contract::payload::{Payloads, Stamp, crc32};
use bench::contract::producers::{Appender, Batches, Completed, Schedule, run};
use bench::contract::{Append, Create, Described, Done, Event, Read};

/// So many loads of large records are what a first look would see: two trials at least, and the first run.
const BELIEVED: u32 = 3;
const LARGE: usize = 10_000;

struct FileLog {
    mode: String,
    /// Loads so far, and those of large records.
    loads: u32,
    large: u32,
    directory: PathBuf,
}

impl FileLog {
    fn shard(&self, log: &str, shard: u32) -> PathBuf {
        self.directory.join(format!("{log}.{shard}"))
    }
}

impl System for FileLog {
    fn describe(&mut self) -> Result<Described> {
        Ok(Described {
            client: "file_log".to_owned(),
            version: "1".to_owned(),
            settings: [("mode".to_owned(), self.mode.clone())].into(),
        })
    }

    fn create(&mut self, create: &Create) -> Result<()> {
        ensure!(self.mode != "refuse", "logs are refused today");
        for shard in 0..create.shards {
            File::create_new(self.shard(&create.log, shard))?;
        }
        Ok(())
    }

    fn delete(&mut self, log: &str) -> Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.file_stem().is_some_and(|stem| stem == log) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn leader(&mut self, _: &str) -> Result<Option<u32>> {
        let has_one = self.directory.join("leader").exists() && self.mode != "forgetful";
        Ok(has_one.then_some(2))
    }

    fn append(&mut self, append: &Append, events: &Events<'_>) -> Result<Done> {
        self.loads += 1;
        self.large += u32::from(append.record_bytes >= LARGE);
        let mode = match self.mode.as_str() {
            "later" if self.large > BELIEVED => "cheat",
            "later" => "honest",
            "uneven" if self.loads.is_multiple_of(2) => "slower",
            "fill" => return fill(&self.directory),
            // Below the directory of the comparison's systems.
            "fill-for-good" => return fill(&self.directory.join("../../../..")),
            mode => mode,
        };
        let open = |shard| {
            OpenOptions::new()
                .append(true)
                .open(self.shard(&append.log, shard))
        };
        let files: std::io::Result<Vec<File>> = (0..append.shards).map(open).collect();
        let files = Arc::new(files?.into_iter().map(Mutex::new).collect::<Vec<_>>());
        let payloads = Arc::new(Payloads::new(append.record_bytes)?);
        let connect = |producer| {
            Ok(Producer {
                producer,
                mode: mode.to_owned(),
                files: Arc::clone(&files),
                payloads: Arc::clone(&payloads),
                sent: 0,
                completed: Vec::new(),
                leader: fs::read_to_string(self.directory.join("leader")).ok(),
            })
        };
        let mut done = run(append, Batches::ByDriver, &Schedule::new(append), connect, events)?;
        done.delivery_ns = append.follow.then(Vec::new);
        match mode {
            "hush" => done.latency_ns.truncate(1),
            "hurry" => done.seconds /= 5.0,
            "flatter" => done.latency_ns.iter_mut().for_each(|(ns, _)| *ns /= 10),
            _ => {}
        }
        Ok(done)
    }

    fn read(&mut self, read: &Read, events: &Events<'_>) -> Result<Done> {
        events.say(&Event::Started);
        let began = Instant::now();
        let mut done = Done::default();
        let (mut sum, mut out_of_order) = (0, 0);
        // More consumers than shards read the same ones again, each from the start.
        for consumer in 0..read.consumers.max(read.shards) {
            let path = self.shard(&read.log, consumer % read.shards);
            let mut file = BufReader::new(File::open(&path).with_context(|| path.display().to_string())?);
            let mut payload = vec![0; read.record_bytes];
            let mut last: Option<Stamp> = None;
            while file.read_exact(&mut payload).is_ok() {
                done.records += 1;
                sum += crc32(&payload);
                let stamp = Stamp::parse(&payload).unwrap_or(Stamp {
                    producer: 0,
                    sequence: 0,
                });
                let follows =
                    last.is_none_or(|last| last.producer != stamp.producer || last.sequence < stamp.sequence);
                out_of_order += u64::from(!follows);
                last = Some(stamp);
            }
        }
        done.seconds = began.elapsed().as_secs_f64();
        done.bytes = done.records * read.record_bytes as u64;
        done.crc32_sum = read.verify.then_some(sum);
        done.out_of_order = read.verify.then_some(out_of_order);
        Ok(done)
    }
}

/// Writes until there is no room.
fn fill(directory: &Path) -> Result<Done> {
    let mut ballast = File::create(directory.join("ballast"))?;
    let megabyte = vec![1; 1 << 20];
    for _ in 0..1 << 10 {
        ballast.write_all(&megabyte)?;
    }
    bail!("this disk is larger than it should be")
}

struct Producer {
    producer: u32,
    mode: String,
    files: Arc<Vec<Mutex<File>>>,
    payloads: Arc<Payloads>,
    sent: u64,
    completed: Vec<Completed>,
    /// The number of the process that leads, until it is found dead.
    leader: Option<String>,
}

impl Appender for Producer {
    fn send(&mut self, shard: u32, records: Range<u64>) -> Result<()> {
        let mut bytes = vec![0; (records.end - records.start) as usize * self.payloads.record_bytes()];
        for (sequence, payload) in records.zip(bytes.chunks_exact_mut(self.payloads.record_bytes())) {
            self.payloads.write(self.producer, sequence, payload);
        }
        match self.mode.as_str() {
            "cheat" => {}
            "swap" => {
                bytes.reverse();
                self.write(shard, &bytes)?;
            }
            "slow" => {
                std::thread::sleep(Duration::from_millis(20));
                self.write(shard, &bytes)?;
            }
            "hurry" => {
                std::thread::sleep(Duration::from_millis(1));
                self.write(shard, &bytes)?;
            }
            "frail" => {
                if self.has_lost_its_leader() {
                    std::thread::sleep(Duration::from_millis(500));
                }
                self.write(shard, &bytes)?;
            }
            "forgetful" => {
                if self.has_lost_its_leader() {
                    self.files[shard as usize]
                        .lock()
                        .expect("nobody dies while writing")
                        .set_len(0)?;
                }
                self.write(shard, &bytes)?;
            }
            "die" if self.sent > 100 => std::process::exit(3),
            "stall" if self.sent > 100 => std::thread::sleep(Duration::from_secs(3_600)),
            "slower" => {
                std::thread::sleep(Duration::from_micros(200));
                self.write(shard, &bytes)?;
            }
            _ => self.write(shard, &bytes)?,
        }
        self.completed.push(Completed {
            unit: self.sent,
            at: Instant::now(),
            failure: None,
        });
        self.sent += 1;
        Ok(())
    }

    fn poll(&mut self, _wait: Duration, completed: &mut Vec<Completed>) {
        completed.append(&mut self.completed);
    }
}

impl Producer {
    /// Says that the system's leader has died since it was asked for last. A dead one that nobody has waited for yet has no memory.
    fn has_lost_its_leader(&mut self) -> bool {
        let memory = |pid: &str| fs::read_to_string(format!("/proc/{}/statm", pid.trim()));
        let is_dead = |pid: &String| memory(pid).map_or(true, |pages| pages.starts_with("0 "));
        self.leader.take_if(|pid| is_dead(pid)).is_some()
    }

    fn write(&self, shard: u32, bytes: &[u8]) -> Result<()> {
        let mut file = self.files[shard as usize]
            .lock()
            .expect("nobody dies while writing");
        Ok(file.write_all(bytes)?)
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, mode, directory] = arguments.as_slice() else {
        bail!("file_log MODE DIRECTORY");
    };
    let mut system = FileLog {
        mode: mode.clone(),
        loads: 0,
        large: 0,
        directory: Path::new(directory).to_owned(),
    };
    serve(&mut system, std::io::stdin().lock(), &mut std::io::stdout())
}
