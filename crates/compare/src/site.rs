//! Where processes of a system run: this machine, or a host where an agent of ours does what it is asked. Both do the same, in the
//! same words.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::child::{Running, Start, wait_while};
use super::hosts::{Host, Hosts};
use super::identity;
use super::interrupt::Interrupt;
use super::machine;
use super::meter::{self, Meter};

/// How long an agent may take for what is done at once, the way there and back included.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// How much longer it may take than what it waits for.
const THERE_AND_BACK: Duration = Duration::from_secs(10);
/// How long an agent may take until it speaks: ssh may have to connect.
const SPEAKS_WITHIN: Duration = Duration::from_secs(60);
/// How long a system may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(180);
/// How long it may take to end when asked.
const ENDED_WITHIN: Duration = Duration::from_secs(60);
/// How long its processes may take to be gone when killed.
const KILLED_WITHIN: Duration = Duration::from_secs(10);
/// How long an installation may last; it may be silent meanwhile.
pub(super) const INSTALLED_WITHIN: Duration = Duration::from_secs(1_800);

/// A thing that is asked of a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(super) enum Request {
    /// Tell the build of this program.
    Hello,
    /// Run a program to its end.
    Install(Program),
    /// Tell that nobody listens on any of these ports of an address.
    AreFree { address: String, first: u16, count: u16 },
    /// Start a `serve`, and wait for the line that says that it is ready.
    Serve(Program),
    /// Tell the time, memory and writes of these processes.
    Meter { pids: Vec<u32> },
    /// Tell the resident memory of those of them that live.
    Memory { pids: Vec<u32> },
    /// Tell the bytes that the disk holds for a directory.
    Stored { directory: PathBuf },
    /// Kill these processes and nothing else.
    KillNode { pids: Vec<u32> },
    /// Kill the `serve` and all it started, and wait until these are gone.
    Kill { pids: Vec<u32> },
    /// End the `serve` in order.
    Stop,
    /// Remove a directory of data.
    Remove { directory: PathBuf },
    /// Write out what the page cache holds back.
    WriteOut,
    /// Empty the page cache.
    EmptyPageCache,
}

/// A program that is started for a system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Program {
    /// In messages.
    pub(super) name: String,
    pub(super) command: Vec<String>,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) folder: PathBuf,
    /// A directory that goes with the agent that started it, however that ends.
    pub(super) own: Option<PathBuf>,
    /// Where its standard error goes.
    pub(super) log: PathBuf,
}

/// The answer of a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(super) enum Answer {
    Done,
    Is {
        so: bool,
    },
    Bytes {
        bytes: u64,
    },
    Build {
        build: String,
    },
    /// The first line that a `serve` said, and how long that took.
    Said {
        line: String,
        took: Duration,
    },
    Metered(Meter),
    Failed {
        why: String,
    },
}

impl Program {
    fn start(&self, interrupt: &Interrupt) -> Result<Running> {
        if let Some(folder) = self.log.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let start = Start {
            name: &self.name,
            command: &self.command,
            arguments: &self.arguments,
            environment: &self.environment,
            folder: &self.folder,
            log: self.log.clone(),
        };
        start.start(interrupt)
    }
}

/// Does what is asked, on the machine where it is.
#[derive(Debug)]
pub(super) struct Keeper {
    serving: Option<Running>,
    /// The directory that is removed at its end.
    own: Option<PathBuf>,
    interrupt: Interrupt,
}

impl Drop for Keeper {
    /// Nothing of it is left, also where nobody could ask for that any more.
    fn drop(&mut self) {
        drop(self.serving.take());
        if let Some(own) = self.own.take() {
            let _ = std::fs::remove_dir_all(own);
        }
    }
}

impl Keeper {
    pub(super) fn new(interrupt: &Interrupt) -> Keeper {
        Keeper {
            serving: None,
            own: None,
            interrupt: interrupt.clone(),
        }
    }

    pub(super) fn carry_out(&mut self, request: Request) -> Result<Answer> {
        match request {
            Request::Hello => {
                let build = identity::build()?;
                return Ok(Answer::Build { build });
            }
            Request::Install(program) => {
                let mut running = program.start(&self.interrupt)?;
                let status = running.wait(INSTALLED_WITHIN)?;
                if !status.success() {
                    bail!("{} failed ({status}){}", program.name, running.last_words());
                }
            }
            Request::AreFree {
                address,
                first,
                count,
            } => {
                let so = are_free(&address, first, count)?;
                return Ok(Answer::Is { so });
            }
            Request::Serve(program) => return self.serve(&program),
            Request::Meter { pids } => return self.meter(&pids).map(Answer::Metered),
            Request::Memory { pids } => {
                let bytes = meter::rss_bytes(&pids);
                return Ok(Answer::Bytes { bytes });
            }
            Request::Stored { directory } => {
                let bytes = meter::stored_bytes(&directory);
                return Ok(Answer::Bytes { bytes });
            }
            Request::KillNode { pids } => kill_all(&pids)?,
            Request::Kill { pids } => self.kill(&pids),
            Request::Stop => {
                if let Some(mut serving) = self.serving.take() {
                    serving.stop(ENDED_WITHIN);
                }
            }
            // Files that cannot be removed are in the directory that the user named, and harm nothing.
            Request::Remove { directory } => drop(std::fs::remove_dir_all(directory)),
            Request::WriteOut => machine::write_out(),
            Request::EmptyPageCache => {
                let so = machine::empty_page_cache();
                return Ok(Answer::Is { so });
            }
        }
        Ok(Answer::Done)
    }

    fn serve(&mut self, program: &Program) -> Result<Answer> {
        self.own.clone_from(&program.own);
        let mut serving = program.start(&self.interrupt)?;
        let line = serving.line(READY_WITHIN)?;
        let took = serving.age();
        self.serving = Some(serving);
        Ok(Answer::Said { line, took })
    }

    fn meter(&self, pids: &[u32]) -> Result<Meter> {
        Meter::read(pids).map_err(|error| match &self.serving {
            Some(serving) => error.context(format!(
                "a process of {} is gone{}",
                serving.name(),
                serving.last_words()
            )),
            None => error,
        })
    }

    fn kill(&mut self, pids: &[u32]) {
        if let Some(mut serving) = self.serving.take() {
            serving.kill();
            // They may have been started by another that is gone sooner: until the last is, its ports and files are in use.
            wait_while(KILLED_WITHIN, || pids.iter().any(|&pid| meter::is_alive(pid)));
        }
    }
}

fn kill_all(pids: &[u32]) -> Result<()> {
    for &pid in pids {
        let process = Pid::from_raw(pid.cast_signed()).context("no process has the number 0")?;
        kill_process(process, Signal::KILL)
            .with_context(|| format!("process {pid} was gone before it was killed"))?;
    }
    Ok(())
}

/// Says whether nobody listens on any of these ports.
///
/// # Errors
/// If nobody could listen there.
pub(super) fn are_free(address: &str, first: u16, count: u16) -> Result<bool> {
    let mut held = Vec::new();
    for port in first..first + count {
        match TcpListener::bind((address, port)) {
            Ok(listener) => held.push(listener),
            Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => {
                return Ok(false);
            }
            Err(error) => return Err(error).with_context(|| format!("nobody can listen at {address} here")),
        }
    }
    Ok(true)
}

/// Where processes of a system run.
#[derive(Debug)]
pub(super) enum Site {
    Here(Mutex<Keeper>),
    There(Mutex<Agent>),
}

/// Our agent on a host, at the other end of ssh.
#[derive(Debug)]
pub(super) struct Agent {
    host: String,
    running: Running,
    /// Of the last request.
    number: u64,
}

/// How long an agent has for its end when nobody asks it any more.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

impl Drop for Agent {
    /// Its input ends: it ends all that it started, and removes what that left.
    fn drop(&mut self) {
        self.running.close(ENDS_WITHIN);
    }
}

/// A request or an answer with its number: what came of a request that was given up is nobody's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Numbered<T> {
    pub(super) number: u64,
    pub(super) what: T,
}

impl Site {
    /// Says that it is this machine.
    pub(super) fn is_here(&self) -> bool {
        matches!(self, Site::Here(_))
    }

    pub(super) fn here(interrupt: &Interrupt) -> Site {
        Site::Here(Mutex::new(Keeper::new(interrupt)))
    }

    /// Has an agent speak for a host.
    ///
    /// # Errors
    /// If it does not, or is not of this build.
    pub(super) fn there(hosts: &Hosts, host: &Host, log: PathBuf, interrupt: &Interrupt) -> Result<Site> {
        let program = std::env::current_exe().context("this program does not know its own path")?;
        let start = Start {
            name: &format!("the agent on {}", host.destination),
            command: &hosts.command(host, &program.to_string_lossy(), "agent")?,
            arguments: &[],
            environment: &BTreeMap::new(),
            folder: Path::new("/"),
            log,
        };
        let mut agent = Agent {
            host: host.destination.clone(),
            running: start.start(interrupt)?,
            number: 0,
        };
        match agent.ask(&Request::Hello, SPEAKS_WITHIN)? {
            Answer::Build { build } if build == identity::build()? => Ok(Site::There(Mutex::new(agent))),
            Answer::Build { build } => bail!(
                "{} has another build ({build}) than this machine ({}): the same is needed there, at the same path",
                host.destination,
                identity::build()?
            ),
            Answer::Failed { why } => bail!("{}: {why}", host.destination),
            other => agent.unexpected(&other),
        }
    }

    /// Has a request carried out, which may take `limit` besides the time that every one may.
    fn ask(&self, request: Request, limit: Duration) -> Result<Answer> {
        match self {
            Site::Here(keeper) => lock(keeper).carry_out(request),
            Site::There(agent) => {
                let mut agent = lock(agent);
                match agent.ask(&request, limit + ANSWERED_WITHIN)? {
                    Answer::Failed { why } => bail!("{}: {why}", agent.host),
                    answer => Ok(answer),
                }
            }
        }
    }

    fn unexpected<T>(&self, answer: &Answer) -> Result<T> {
        match self {
            Site::Here(_) => unreachable!("a keeper answers what it is asked, not {answer:?}"),
            Site::There(agent) => lock(agent).unexpected(answer),
        }
    }

    fn do_it(&self, request: Request, limit: Duration) -> Result<()> {
        match self.ask(request, limit)? {
            Answer::Done => Ok(()),
            other => self.unexpected(&other),
        }
    }

    fn is_so(&self, request: Request, limit: Duration) -> Result<bool> {
        match self.ask(request, limit)? {
            Answer::Is { so } => Ok(so),
            other => self.unexpected(&other),
        }
    }

    fn bytes(&self, request: Request) -> Result<u64> {
        match self.ask(request, Duration::ZERO)? {
            Answer::Bytes { bytes } => Ok(bytes),
            other => self.unexpected(&other),
        }
    }

    pub(super) fn install(&self, program: Program) -> Result<()> {
        self.do_it(Request::Install(program), INSTALLED_WITHIN + THERE_AND_BACK)
    }

    pub(super) fn are_free(&self, address: &str, first: u16, count: u16) -> Result<bool> {
        let address = address.to_owned();
        self.is_so(
            Request::AreFree {
                address,
                first,
                count,
            },
            Duration::ZERO,
        )
    }

    /// Starts a `serve`: the line it said when it was ready, and how long that took.
    pub(super) fn serve(&self, program: Program) -> Result<(String, Duration)> {
        match self.ask(Request::Serve(program), READY_WITHIN + THERE_AND_BACK)? {
            Answer::Said { line, took } => Ok((line, took)),
            other => self.unexpected(&other),
        }
    }

    pub(super) fn meter(&self, pids: &[u32]) -> Result<Meter> {
        let pids = pids.to_vec();
        match self.ask(Request::Meter { pids }, Duration::ZERO)? {
            Answer::Metered(meter) => Ok(meter),
            other => self.unexpected(&other),
        }
    }

    pub(super) fn memory(&self, pids: &[u32]) -> Result<u64> {
        let pids = pids.to_vec();
        self.bytes(Request::Memory { pids })
    }

    pub(super) fn stored_bytes(&self, directory: &Path) -> Result<u64> {
        let directory = directory.to_owned();
        self.bytes(Request::Stored { directory })
    }

    pub(super) fn kill_node(&self, pids: &[u32]) -> Result<()> {
        let pids = pids.to_vec();
        self.do_it(Request::KillNode { pids }, Duration::ZERO)
    }

    pub(super) fn kill(&self, pids: &[u32]) -> Result<()> {
        let pids = pids.to_vec();
        self.do_it(Request::Kill { pids }, 2 * KILLED_WITHIN)
    }

    pub(super) fn stop(&self) -> Result<()> {
        self.do_it(Request::Stop, ENDED_WITHIN + THERE_AND_BACK)
    }

    pub(super) fn remove(&self, directory: &Path) -> Result<()> {
        let directory = directory.to_owned();
        self.do_it(Request::Remove { directory }, ENDED_WITHIN)
    }

    pub(super) fn write_out(&self) -> Result<()> {
        self.do_it(Request::WriteOut, machine::WRITTEN_OUT_WITHIN)
    }

    pub(super) fn empty_page_cache(&self) -> Result<bool> {
        self.is_so(Request::EmptyPageCache, machine::WRITTEN_OUT_WITHIN)
    }
}

impl Agent {
    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Answer> {
        self.number += 1;
        let numbered = Numbered {
            number: self.number,
            what: request,
        };
        let line = serde_json::to_string(&numbered).expect("a request is plain data");
        self.running.say(&line)?;
        let end = Instant::now() + limit;
        loop {
            let line = self.running.line(end.saturating_duration_since(Instant::now()))?;
            let answer: Numbered<Answer> = serde_json::from_str(&line)
                .with_context(|| format!("the agent on {} says what is no answer: {line}", self.host))?;
            if answer.number == self.number {
                return Ok(answer.what);
            }
        }
    }

    fn unexpected<T>(&self, answer: &Answer) -> Result<T> {
        bail!("the agent on {} says at the wrong time: {answer:?}", self.host)
    }
}

/// Whoever panicked with it ends the comparison; meanwhile what runs must be ended.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
