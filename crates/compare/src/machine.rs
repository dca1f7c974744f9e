//! What machine this is, from the kernel's files, and how quiet.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::results::Machine;

/// How long the disk may take for what is waiting.
pub(super) const WRITTEN_OUT_WITHIN: Duration = Duration::from_secs(120);

/// The machine, with the file system that holds `data`. What cannot be found out is "unknown" or 0.
pub(super) fn describe(data: &Path) -> Machine {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kilobytes: f64 = value_of(&memory, "MemTotal")
        .and_then(|value| value.trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0.0);
    Machine {
        cpu: value_of(&cpu_info, "model name").unwrap_or("unknown").to_owned(),
        cpus: std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
        memory_gb: (kilobytes * 1_024.0 / 1e8).round() / 10.0,
        kernel: kernel.trim().to_owned(),
        file_system: file_system(data),
        load_before: 0.0,
        load_after: 0.0,
    }
}

/// The load of the last minute.
pub(super) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or(0.0)
}

/// Now, RFC 3339 in UTC, to the second.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// "ext4 (rw,discard)": of the longest mount point that holds `data`.
fn file_system(data: &Path) -> String {
    let data = fs::canonicalize(data).unwrap_or_else(|_| data.to_owned());
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let holder = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            Some((words.next()?, words.next()?, words.next()?))
        })
        .filter(|(point, ..)| data.starts_with(point))
        .max_by_key(|(point, ..)| point.len());
    holder.map_or("unknown".to_owned(), |(_, kind, options)| {
        format!("{kind} ({options})")
    })
}

/// "ext4 on device 254:0": what tells one disk from another as long as the machine runs.
pub(super) fn disk(data: &Path) -> String {
    let kind = file_system(data);
    let kind = kind.split(' ').next().unwrap_or_default();
    let device = rustix::fs::stat(data).map_or(0, |facts| facts.st_dev);
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    format!("{kind} on device {major}:{minor}")
}

fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// Asks the kernel to write out what is waiting, so that it is not written during the next run. A disk that takes longer than a
/// run may is not waited for.
pub(super) fn write_out() {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        rustix::fs::sync();
        let _ = done.send(());
    });
    let _ = is_done.recv_timeout(WRITTEN_OUT_WITHIN);
}

/// Empties the page cache. Whether that was allowed.
pub(super) fn empty_page_cache() -> bool {
    write_out();
    fs::write("/proc/sys/vm/drop_caches", "1\n").is_ok()
}

/// The processor time that all of this machine has used since it started, without that of waiting; none if it cannot be read
/// (proc_stat(5)).
pub(super) fn busy() -> Option<Duration> {
    busy_in(&fs::read_to_string("/proc/stat").ok()?)
}

/// user, nice, system, then idle and iowait, then irq, softirq and steal.
fn busy_in(text: &str) -> Option<Duration> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    let waiting: u64 = ticks.get(3..5)?.iter().sum();
    let busy = ticks.iter().sum::<u64>() - waiting;
    Some(Duration::from_millis(
        busy * 1_000 / rustix::param::clock_ticks_per_second(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_not_work() {
        let text = "cpu  300 10 90 9000 500 1 2 97 7 7\ncpu0 1 1 1\n";
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(busy_in(text), Some(Duration::from_millis(500_000 / ticks)));
        assert_eq!(busy_in("intr 5"), None);
        assert!(busy() > Some(Duration::ZERO));
    }

    #[test]
    fn this_machine_is_known() {
        let machine = describe(Path::new("."));
        assert!(machine.cpus > 0 && machine.memory_gb > 0.0, "{machine:?}");
        assert!(machine.file_system.contains('('), "{machine:?}");
        let now = now();
        assert!(now.len() == 20 && now.parse::<jiff::Timestamp>().is_ok(), "{now}");
    }
}
